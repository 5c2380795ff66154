//! Reading answers, and what becomes of requests whose connection is lost.
//!
//! Place in the flow: the second half of a client. The time of an answer is taken right after the read that brought its last byte.

use robinhood_stats::{Instant, Nanos};

use crate::engine::client::{Client, Ended, RequestRecord};
use crate::engine::connection::InFlight;
use crate::engine::poller::Ready;
use crate::engine::pool::Closed;
use crate::engine::stamps::Arrival;
use crate::protocol::{Answer, Asked, Garbage, Kind, Outcome, Transport};

/// The longest beginning of an answer that is kept. Protocols bound their values below it.
const PARTIAL_BYTES_MAX: usize = 64 << 20;

impl Client<'_> {
    /// Does for a connection what it is ready for.
    pub(super) fn serve(&mut self, ready: Ready, now: Instant) {
        if ready.writable {
            self.flush(ready.connection, now);
        }
        if ready.readable {
            self.receive(ready.connection);
        }
    }

    /// Offers waiting bytes to the system.
    pub(super) fn flush(&mut self, place: usize, now: Instant) {
        let Self { pool, account, slot, poller, gaps, connection_gaps, .. } = self;
        let Some(connection) = pool.get(place) else { return };
        let was_watched = connection.watches_writes;
        let result = connection.flush(now, |request| {
            let lateness = now.since(request.due);
            slot.sent += 1;
            slot.lateness.add_nanos(lateness);
            if request.measured && !request.timed_out {
                account.counts.sent += 1;
                gaps.handle_send(now);
                if let Some(gaps) = connection_gaps.get_mut(place) {
                    gaps.handle_send(now);
                }
                account.lateness.add_nanos(lateness);
                let part = match request.waited {
                    true => &mut account.timer_lateness,
                    false => &mut account.queue_lateness,
                };
                part.add_nanos(lateness);
            }
        });
        let result = result.and_then(|()| {
            let watch = connection.is_blocked();
            connection.watches_writes = watch;
            if watch == was_watched {
                Ok(())
            } else {
                poller.watch_writes(&*connection, place, watch)
            }
        });
        if let Err(error) = result {
            self.close(place, Closed::ByServer(error.to_string()), now);
        }
    }

    fn receive(&mut self, place: usize) {
        let Some(connection) = self.pool.get(place) else { return };
        let read = connection.read(&mut self.scratch);
        let mut now = self.clock.now();
        let stamped = now + self.config.planted_delay;
        while now < stamped {
            now = self.clock.now();
        }
        match read {
            Ok(None) => {}
            Ok(Some((0, _))) if self.protocol.transport() == Transport::Tcp => {
                let closed = Closed::ByServer("the server closed the connection".to_owned());
                self.close(place, closed, now);
            }
            Ok(Some((bytes, kernel_ns))) => {
                self.take_bytes(place, bytes, Arrival { read: now, kernel_ns });
            }
            Err(error) => self.close(place, Closed::ByServer(error.to_string()), now),
        }
    }

    /// `bytes` bytes have come, into the scratch space.
    fn take_bytes(&mut self, place: usize, bytes: usize, arrival: Arrival) {
        let now = arrival.read;
        let scratch = std::mem::take(&mut self.scratch);
        let connection = self.pool.get(place).expect("it was read from");
        connection.in_bytes += bytes as u64;
        let mut partial = std::mem::take(&mut connection.partial);
        let all = if partial.is_empty() {
            &scratch[..bytes]
        } else {
            partial.extend_from_slice(&scratch[..bytes]);
            &partial
        };
        match self.take_answers(place, all, arrival) {
            Ok((used, closes)) => {
                let rest = all.len() - used;
                if let Some(connection) = self.pool.get(place) {
                    if partial.is_empty() {
                        partial.extend_from_slice(&scratch[used..bytes]);
                    } else {
                        partial.drain(..used);
                    }
                    connection.partial = partial;
                }
                if closes {
                    self.close(place, Closed::Announced, now);
                } else if rest > PARTIAL_BYTES_MAX {
                    let reason = format!("an answer of more than {PARTIAL_BYTES_MAX} bytes");
                    self.close(place, Closed::Garbage(reason), now);
                }
            }
            Err(garbage) => self.close(place, Closed::Garbage(garbage.to_string()), now),
        }
        self.scratch = scratch;
        self.send_backlog(place, now);
    }

    /// Takes all whole answers at the start of `bytes`: how many bytes they take, and whether the server closes now.
    fn take_answers(
        &mut self,
        place: usize,
        bytes: &[u8],
        arrival: Arrival,
    ) -> Result<(usize, bool), Garbage> {
        let datagrams = self.protocol.transport() == Transport::Udp;
        let mut used = 0;
        while used < bytes.len() {
            let connection = self.pool.get(place).expect("open until its bytes are looked at");
            let asked = match connection.in_flight.front() {
                _ if datagrams => Asked { index: 0, kind: Kind::Call },
                Some(oldest) if oldest.sent.is_some() => oldest.asked,
                _ => {
                    let reason = "bytes that no request asked for";
                    return Err(Garbage::new(self.protocol.name(), reason, &bytes[used..]));
                }
            };
            let Some(answer) = self.protocol.decode(asked, &bytes[used..])? else { break };
            used += answer.bytes;
            let request = match answer.index.filter(|_| datagrams) {
                Some(index) => connection.take(index),
                None => connection.pop(),
            };
            connection.answered = true;
            match request {
                Some(request) => {
                    let after = (bytes.len() - used) as u64;
                    let stream = (connection.port, connection.in_bytes - after);
                    self.complete(&request, &answer, arrival, stream);
                }
                None => self.late_answers += 1,
            }
            if datagrams {
                return Ok((bytes.len(), false));
            }
            if answer.closes {
                return Ok((used, true));
            }
        }
        Ok((if datagrams { bytes.len() } else { used }, false))
    }

    /// `stream` is the port of the connection and the bytes received on it up to the end of this answer.
    fn complete(
        &mut self,
        request: &InFlight,
        answer: &Answer,
        arrival: Arrival,
        stream: (u16, u64),
    ) {
        if request.timed_out {
            self.late_answers += 1;
            self.owed -= 1;
            return;
        }
        self.in_flight -= 1;
        let now = arrival.read;
        let latency = now.since(request.due);
        if answer.outcome == Outcome::Error {
            self.slot.unanswered += 1;
            self.account.counts.failed += u64::from(request.measured);
            return;
        }
        self.slot.completed += 1;
        self.slot.latency.add_nanos(latency);
        if request.measured {
            let account = &mut self.account;
            account.counts.completed += 1;
            let (hits, misses) = match answer.outcome {
                Outcome::Hit => (1, 0),
                Outcome::Miss => (0, 1),
                Outcome::Read(hits, misses) => (hits, misses),
                Outcome::Done | Outcome::Error => (0, 0),
            };
            account.hits += u64::from(hits);
            account.misses += u64::from(misses);
            account.latency.add_nanos(latency);
            let sent = request.sent.expect("an answer comes after its request");
            account.service.add_nanos(now.since(sent));
            let by_kernel = arrival.kernel_ns.zip(request.kernel_sent_ns);
            // A clock that was set back in between would give a time below zero.
            let kernel_service = by_kernel.and_then(|(end, start)| end.checked_sub(start));
            if let Some(kernel_service_ns) = kernel_service {
                account.kernel_service.add(kernel_service_ns);
            }
            if self.records.len() < self.config.records_max {
                self.records.push(RequestRecord {
                    port: stream.0,
                    due: request.due,
                    sent,
                    received: now,
                    request_end_bytes: request.end_bytes,
                    answer_end_bytes: stream.1,
                    kernel_service: kernel_service.map(Nanos),
                });
            }
        }
    }

    /// A connection has room again: the oldest request that waits for one goes.
    fn send_backlog(&mut self, place: usize, now: Instant) {
        while self.pool.has_room(place) {
            let Some((request, bytes)) = self.pool.backlog.pop_front() else { return };
            self.in_flight -= 1; // counted again when it is given away
            self.give(place, request, &bytes, now);
        }
    }

    pub(super) fn close(&mut self, place: usize, why: Closed, now: Instant) {
        let (requests, abort) = self.pool.close(place, why, now);
        for request in requests {
            if request.timed_out {
                self.owed -= 1;
            } else {
                self.give_up(&request);
            }
        }
        if let Some(reason) = abort {
            self.end(Ended::Aborted(reason), now);
        }
    }

    /// A request ends without an answer that counts, other than by its timeout.
    fn give_up(&mut self, request: &InFlight) {
        self.in_flight -= 1;
        self.slot.unanswered += 1;
        let counts = &mut self.account.counts;
        match request.sent {
            Some(_) => counts.failed += u64::from(request.measured),
            None => counts.unsent += u64::from(request.measured),
        }
    }

    /// Gives requests up that came due longer ago than the timeout.
    pub(super) fn time_out(&mut self, now: Instant) {
        let Self { pool, account, in_flight, owed, slot, config, .. } = self;
        let is_over = |request: &InFlight| now.since(request.due) >= config.timeout;
        let mut expired = |request: &InFlight| {
            *in_flight -= 1;
            slot.unanswered += 1;
            match request.sent {
                Some(_) => account.counts.timed_out += u64::from(request.measured),
                None => account.counts.unsent += u64::from(request.measured),
            }
        };
        while pool.backlog.front().is_some_and(|(request, _)| is_over(request)) {
            let (request, _) = pool.backlog.pop_front().expect("just seen");
            expired(&request);
        }
        let datagrams = self.protocol.transport() == Transport::Udp;
        for (_, connection) in pool.iter_mut() {
            while datagrams && connection.in_flight.front().is_some_and(is_over) {
                expired(&connection.pop().expect("just seen"));
            }
            for request in &mut connection.in_flight {
                if !is_over(request) {
                    break; // the others are younger
                }
                if !request.timed_out {
                    request.timed_out = true;
                    *owed += 1;
                    expired(request);
                }
            }
        }
    }
}
