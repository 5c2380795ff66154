//! Many application servers: the aggregator of a process, and where an agent sends its reports and asks for RBC.
//!
//! Place in the flow: an agent's reports go to all aggregators, RBC comes from any of them. A process with `[aggregator]` alone has no cache and
//! no controller.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use robinhood_aggregator::{
    Aggregator, AggregatorConfig, AggregatorError, DeltaSender, SnapshotPoller, Token,
};
use robinhood_blocking::{Detail, RecorderConfig, ServiceName};
use robinhood_control::ControlBuilder;
use robinhood_intake::Intake;
use robinhood_stats::Nanos;
use serde::Deserialize;

use super::config::{ControllerSection, HttpSection};
use crate::failure::Failure;
use crate::output;

/// Aggregators that one agent sends to, or asks.
const AGGREGATORS_MAX: usize = 8;
/// Snapshots are asked for so often in a control period.
const SLOTS_PER_PERIOD: u64 = 5;

/// `[aggregator]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AggregatorSection {
    pub(crate) listen: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) services_max: usize,
    pub(crate) senders_max: usize,
    pub(crate) connections_max: usize,
}

/// `[reports]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportsSection {
    pub(crate) send_to: Vec<String>,
    pub(crate) poll: Vec<String>,
    #[serde(default = "default_service")]
    pub(crate) service: ServiceName,
    pub(crate) sender: Option<u64>,
    pub(crate) token_file: Option<PathBuf>,
}

fn default_service() -> ServiceName {
    "default".parse().expect("a name that services can have")
}

impl Default for AggregatorSection {
    fn default() -> Self {
        let [listen, http] = [7_073, 7_074].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let defaults = AggregatorConfig::new(listen, http);
        Self {
            listen,
            http,
            token_file: None,
            services_max: defaults.services_max,
            senders_max: defaults.senders_max,
            connections_max: defaults.connections_max,
        }
    }
}

impl AggregatorSection {
    pub(crate) fn check(&self) -> Result<(), String> {
        for (key, address) in [("listen", self.listen), ("http", self.http)] {
            if !address.ip().is_loopback() && self.token_file.is_none() {
                return Err(format!(
                    "aggregator.{key}: {address} is not a loopback address: name a `token_file`, whose token senders and pollers show"
                ));
            }
        }
        let counts = [
            ("services_max", self.services_max, 256),
            ("senders_max", self.senders_max, 1 << 20),
            ("connections_max", self.connections_max, 1 << 20),
        ];
        match counts.iter().find(|(_, count, most)| !(1..=*most).contains(count)) {
            Some((key, count, most)) => {
                Err(format!("aggregator.{key}: {count} is outside 1 to {most}"))
            }
            None => Ok(()),
        }
    }

    /// Starts to listen, and says where.
    pub(crate) fn start(&self, controller: &ControllerSection) -> Result<Aggregator, Failure> {
        let config = AggregatorConfig {
            token: token(self.token_file.as_deref())?,
            period: controller.period.0,
            objective: controller.objective.map(|objective| objective.0),
            services_max: self.services_max,
            senders_max: self.senders_max,
            connections_max: self.connections_max,
            ..AggregatorConfig::new(self.listen, self.http)
        };
        let aggregator = Aggregator::start(config).map_err(|error| match error {
            AggregatorError::Collector(_) | AggregatorError::TokenNeeded(_) => {
                Failure::configuration(error)
            }
            AggregatorError::Listen { .. } | AggregatorError::Thread(_) => Failure::failed(error),
        })?;
        output::say(&format!(
            "deltas at {}\nRBC of all services at http://{}\n",
            aggregator.frames_address(),
            aggregator.http_address()
        ));
        Ok(aggregator)
    }
}

impl ReportsSection {
    pub(crate) fn check(&self) -> Result<(), String> {
        for (key, addresses) in [("send_to", &self.send_to), ("poll", &self.poll)] {
            let count = addresses.len();
            if !(1..=AGGREGATORS_MAX).contains(&count) {
                return Err(format!(
                    "reports.{key}: {count} aggregators: name 1 to {AGGREGATORS_MAX}"
                ));
            }
            for address in addresses {
                let host = host(address).ok_or_else(|| {
                    format!("reports.{key}: `{address}` is no address: write HOST:PORT")
                })?;
                if !is_loopback(host) && self.token_file.is_none() {
                    return Err(format!(
                        "reports.{key}: {address} is not on this machine: name the `token_file` that the aggregator has too"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Who counts the reports of this process.
    pub(crate) fn intake(&self, http: &HttpSection) -> Intake {
        // The standard library seeds its hashers at random.
        let boot_nonce = std::hash::RandomState::new().hash_one(0);
        let sender = self.sender.unwrap_or_else(|| lasting_id(http).unwrap_or(boot_nonce));
        let service = self.service.clone();
        Intake::new(RecorderConfig { service, sender, boot_nonce, detail: Detail::WIRE })
    }

    /// Starts to send and to ask, and lets a loop go by what is answered.
    pub(crate) fn join(
        &self,
        builder: ControlBuilder,
        period: Nanos,
    ) -> Result<(ControlBuilder, Fleet), Failure> {
        let token = token(self.token_file.as_deref())?;
        let slot = Duration::from_nanos(period.0 / SLOTS_PER_PERIOD);
        let failed = |error| Failure::failed(format!("cannot start a thread: {error}"));
        let sender = DeltaSender::start(&self.send_to, token.as_ref()).map_err(failed)?;
        let poller = SnapshotPoller::start(self.poll.clone(), &self.service, token.as_ref(), slot);
        let (sender, poller) = (Arc::new(sender), Arc::new(poller.map_err(failed)?));
        let fleet = Fleet { sender: sender.clone(), poller: poller.clone(), said: Vec::new() };
        let builder =
            builder.aggregated(move |now| poller.latest(now), move |delta| sender.send(&delta));
        Ok((builder, fleet))
    }
}

/// The way to the aggregators.
pub(crate) struct Fleet {
    sender: Arc<DeltaSender>,
    poller: Arc<SnapshotPoller>,
    /// What was said last, of each.
    said: Vec<Option<String>>,
}

impl Fleet {
    /// Says what has changed: which aggregator cannot be reached, and which can be again.
    pub(crate) fn say(&mut self) {
        let senders = self.sender.status().into_iter();
        let mut now: Vec<_> = senders.map(|one| (one.address, one.error)).collect();
        let poller = self.poller.status();
        now.push(("RBC".to_owned(), poller.error.filter(|_| poller.source.is_none())));
        self.said.resize(now.len(), None);
        for (before, (what, error)) in self.said.iter_mut().zip(now) {
            if *before != error {
                match &error {
                    Some(error) => tracing::warn!("{what}: {error}"),
                    None => tracing::info!("{what}: again"),
                }
                *before = error;
            }
        }
    }
}

/// Whether the secrets can be read.
pub(crate) fn check_secrets(
    aggregator: Option<&AggregatorSection>,
    reports: Option<&ReportsSection>,
) -> Result<(), Failure> {
    let of_aggregator = aggregator.and_then(|section| section.token_file.as_deref());
    let of_reports = reports.and_then(|section| section.token_file.as_deref());
    [of_aggregator, of_reports].into_iter().try_for_each(|file| token(file).map(|_| ()))
}

fn token(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    file.map(Token::from_file).transpose().map_err(Failure::configuration)
}

/// A number that stays over restarts: of this host, and of this process among those on it.
fn lasting_id(http: &HttpSection) -> Option<u64> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let mut hasher = DefaultHasher::new();
    (host.trim(), http.listen).hash(&mut hasher);
    Some(hasher.finish())
}

fn host(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::config::RunConfig;

    const BESIDE: &str = "[beside]\nkind = \"redis\"\n[beside.caches]\na = \"h:1\"\n";
    const REPORTS: &str = "[reports]\nsend_to = [\"localhost:7073\"]\npoll = [\"[::1]:7074\"]\n";

    #[test]
    fn roles_stand_alone_or_together() {
        let aggregator = RunConfig::read("[aggregator]\n").unwrap();
        assert_eq!(aggregator.aggregator.unwrap(), super::AggregatorSection::default());
        for text in [
            format!("{BESIDE}{REPORTS}"),
            format!("{BESIDE}{REPORTS}[aggregator]\nservices_max = 3\n"),
            format!("[cache]\npartitions = [\"a\"]\n{REPORTS}"),
        ] {
            RunConfig::read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        let reports = |line: &str| {
            format!("{BESIDE}{}", REPORTS.replace(REPORTS.lines().nth(1).unwrap(), line))
        };
        for (text, reason) in [
            (REPORTS.to_owned(), "missing section"),
            (format!("[aggregator]\n{REPORTS}"), "no cache"),
            ("[aggregator]\nlisten = \"0.0.0.0:7073\"\n".to_owned(), "aggregator.listen: 0.0.0.0"),
            ("[aggregator]\nhttp = \"10.1.2.3:7074\"\n".to_owned(), "token_file"),
            ("[aggregator]\nsenders_max = 0\n".to_owned(), "aggregator.senders_max: 0"),
            ("[aggregator]\nlistens = 1\n".to_owned(), "unknown field `listens`"),
            (reports("send_to = []"), "reports.send_to: 0 aggregators"),
            (reports("send_to = [\"7073\"]"), "`7073` is no address"),
            (reports("send_to = [\"localhost:0\"]"), "no address"),
            (reports("send_to = [\"aggregator-1:7073\"]"), "not on this machine"),
            (reports("sendto = []"), "unknown field `sendto`"),
            (format!("{BESIDE}{REPORTS}service = \"A b\"\n"), "line 8"),
        ] {
            let error = RunConfig::read(&text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
