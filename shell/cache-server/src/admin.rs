//! Commands that are about the server and not about items.
//!
//! Place in the flow: a part of the engine.

use std::sync::atomic::Ordering::Relaxed;

use robinhood_protocol::memcached::server::{Command, Expiry, reply};
use robinhood_stats::Bytes;

use crate::counters::Count;
use crate::engine::{Engine, Next, say};
use crate::output::Output;
use crate::server::LimitRefused;
use crate::stats;

impl Engine {
    /// Commands that are about the server.
    pub(crate) fn administer(&mut self, command: &Command<'_>, output: &mut Output) -> Next {
        match command {
            Command::FlushAll { delay_s, noreply } => {
                self.count(Count::Flushes, 1);
                self.flush(*delay_s);
                say(output, reply::OK, *noreply);
            }
            Command::Verbosity { noreply } => say(output, reply::OK, *noreply),
            Command::Version => reply::version(output.bytes(), env!("CARGO_PKG_VERSION")),
            Command::Stats { arguments } => stats::write(self.shared(), arguments, output.bytes()),
            Command::Limit { partition, bytes, noreply } => {
                let reply = match self.shared().set_limit(partition, Bytes(*bytes)) {
                    Ok(()) => reply::OK,
                    Err(LimitRefused::NoPartition) => reply::NOT_FOUND,
                    Err(LimitRefused::AboveBudget) => reply::MEMLIMIT_REFUSED,
                };
                say(output, reply, *noreply);
            }
            // The budget is the sum of what partitions and controllers share out.
            Command::CacheMemlimit { noreply, .. } => {
                say(output, reply::MEMLIMIT_REFUSED, *noreply);
            }
            Command::Quit => return Next::End,
            _ => say(output, reply::ERROR, false),
        }
        Next::Continue
    }

    /// Now, or in so many seconds. Another flush replaces one that is planned.
    fn flush(&self, delay_s: i64) {
        let at_s = match self.expiry(delay_s) {
            Expiry::At(at_s) => at_s,
            Expiry::Never if delay_s > 0 => return, // a date that nobody will live to see
            Expiry::Never | Expiry::Past => 0,
        };
        self.shared().flush_at_s.store(at_s.into(), Relaxed);
        if at_s == 0 {
            self.shared().store.invalidate_all();
        }
    }
}
