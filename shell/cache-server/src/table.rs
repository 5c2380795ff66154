//! All connections, by place.
//!
//! Place in the flow: the acceptor gives a new connection a place, a worker that is woken for a place takes its lock, which nobody else
//! wants at that time but the housekeeper, who looks for clients that hold connections without using them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::connection::Connection;

/// Where a full server looks for room: a connection that nothing was asked on for so long.
const IDLE_WHEN_FULL: Duration = Duration::from_secs(60);

/// A bounded number of connections.
#[derive(Debug)]
pub(crate) struct Table {
    places: Box<[Mutex<Option<Connection>>]>,
    free: Mutex<Vec<usize>>,
    open: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) timed_out: AtomicU64,
}

impl Table {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            places: (0..places).map(|_| Mutex::new(None)).collect(),
            free: Mutex::new((0..places).rev().collect()),
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Connections that were accepted, refused and ended for doing nothing.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.accepted, &self.refused, &self.timed_out].map(|count| count.load(Relaxed))
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// A place for a connection that is to come; `None` when all are taken.
    pub(crate) fn take_place(&self) -> Option<usize> {
        lock(&self.free).pop()
    }

    /// Puts a connection at a place that was taken for it.
    pub(crate) fn put(&self, place: usize, connection: Connection) {
        self.open.fetch_add(1, Relaxed);
        *self.at(place) = Some(connection);
    }

    /// What is at a place.
    pub(crate) fn at(&self, place: usize) -> MutexGuard<'_, Option<Connection>> {
        lock(&self.places[place])
    }

    /// Closes the connection behind the guard of its place.
    pub(crate) fn close(&self, place: usize, mut connection: MutexGuard<'_, Option<Connection>>) {
        if connection.take().is_none() {
            return;
        }
        drop(connection); // the place is free once it is listed
        self.open.fetch_sub(1, Relaxed);
        lock(&self.free).push(place);
    }

    /// Ends connections that have made no, or too little, progress for too long: their workers are woken and close them. A full table also ends the one that has
    /// been idle for longest.
    pub(crate) fn end_idle(&self, now_s: u32, stalled: Duration, idle: Option<Duration>) {
        let full = lock(&self.free).is_empty();
        let mut longest: Option<(u64, usize)> = None;
        for (place, slot) in self.places.iter().enumerate() {
            let Ok(slot) = slot.try_lock() else { continue }; // being served
            let Some(connection) = slot.as_ref() else { continue };
            let quiet_s = u64::from(now_s.saturating_sub(connection.progress_s));
            let is_idle = idle.is_some_and(|idle| quiet_s > idle.as_secs());
            if is_idle || connection.is_stalled(now_s, stalled.as_secs()) {
                self.timed_out.fetch_add(1, Relaxed);
                connection.stream().shut_down();
            } else if quiet_s > IDLE_WHEN_FULL.as_secs() {
                longest = longest.max(Some((quiet_s, place)));
            }
        }
        if let (true, Some((quiet_s, place))) = (full, longest)
            && let Some(connection) = self.at(place).as_ref()
            && u64::from(now_s.saturating_sub(connection.progress_s)) >= quiet_s
        {
            self.timed_out.fetch_add(1, Relaxed);
            connection.stream().shut_down();
        }
    }
}

/// A connection whose worker panicked is in no worse state than one that broke off.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
