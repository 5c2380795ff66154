//! Rates at which an own server is as busy as wished.
//!
//! A request costs a server less when more of them wait, so the rate for a load is approached by trial.

use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::verify::server::LoadMeter;
use robinhood_stats::{Nanos, Rate};

use super::Trial;
use crate::failure::Failure;
use crate::load::setup;

/// Loads to find rates for: share of time that the server's thread has its processor, with what they may be off.
const LOW: Wish = Wish { share: 0.10, tolerance: 0.02 };
const HIGH: Wish = Wish { share: 0.80, tolerance: 0.03 };
/// The first try for the low load. The first for the high one follows from the low load, as if each request cost the server the same.
const FIRST: Rate = Rate(10_000.0);
const TRIES: usize = 8;
const TRIAL: Nanos = Nanos::from_millis(1_000);
const TRIAL_WARM_UP: Nanos = Nanos::from_millis(300);
/// The largest step from one try to the next.
const STEP_MAX: f64 = 3.0;
/// Share of its time that the client may be at work: beyond, its own queue is what is measured.
const CLIENT_BUSY_MAX: f64 = 0.75;

/// The part of the due requests that must leave in time for a trial to mean anything.
const REACHED_MIN: f64 = 0.98;
/// A server that has its processor for so much of the time is the reason why requests do not leave.
const SATURATED: f64 = 0.9;
/// The next try then.
const BACK: f64 = 0.6;

struct Wish {
    share: f64,
    tolerance: f64,
}

/// What a short run found.
struct Probed {
    /// Share of time that the server's thread had its processor.
    share: f64,
    /// Share of its time that the client was at work.
    busy: f64,
    /// The part of the due requests that left in time.
    reached: f64,
}

impl Trial<'_> {
    /// The two rates: as typed, else found.
    pub(super) fn rates(&self) -> Result<(Rate, Rate), Failure> {
        let find = |typed: Option<Rate>, wish, first| match typed {
            Some(rate) => Ok(rate),
            None => self.find(wish, first),
        };
        let low = find(self.args.rate_low, &LOW, FIRST)?;
        let high = find(self.args.rate_high, &HIGH, Rate(low.0 * HIGH.share / LOW.share))?;
        Ok((low, high))
    }

    fn find(&self, wish: &Wish, first: Rate) -> Result<Rate, Failure> {
        let mut rate = first;
        for _ in 0..TRIES {
            let Probed { share, busy, reached } = self.probe(rate)?;
            eprintln!("at {:.0}/s the server has {:.0} % of its processor", rate.0, share * 100.0);
            if reached < REACHED_MIN {
                if share < SATURATED && busy < CLIENT_BUSY_MAX {
                    return Err(Failure::failed(format!(
                        "only {:.0} % of {:.0} requests a second leave in time: other work keeps this machine busy; end it, or name --rate-low and --rate-high",
                        reached * 100.0,
                        rate.0
                    )));
                }
                rate = Rate(rate.0 * BACK);
                continue;
            }
            if (share - wish.share).abs() <= wish.tolerance {
                return Ok(rate);
            }
            let factor = (wish.share / share.max(1e-3)).clamp(1.0 / STEP_MAX, STEP_MAX);
            if factor > 1.0 && busy * factor > CLIENT_BUSY_MAX {
                let most = rate.0 * (CLIENT_BUSY_MAX / busy).min(factor);
                eprintln!("the client would be too busy for more than {most:.0}/s");
                return Ok(Rate(most));
            }
            rate = Rate(rate.0 * factor);
        }
        Ok(rate)
    }

    /// A short run without a capture.
    fn probe(&self, rate: Rate) -> Result<Probed, Failure> {
        let server = self.server.watched().expect("rates are found for an own server only");
        let flags = self.args.run_flags(rate, TRIAL_WARM_UP, TRIAL);
        let (asked, run) = setup::prepare(&flags, self.plan)?;
        let mut meter = LoadMeter::new(server);
        let report = run.execute(self.stop, |progress| meter.handle_progress(progress));
        let result = LoadResult::new(asked, &report.map_err(Failure::failed)?);
        self.check_stop()?;
        let share = meter.share().ok_or_else(|| Failure::failed("memcached cannot be watched"))?;
        Ok(Probed {
            share,
            busy: result.per_client[0].busy_share,
            reached: result.rate_reached_per_s / result.rate_due_per_s,
        })
    }
}
