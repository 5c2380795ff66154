//! The configuration file of `robinhood run`.
//!
//! Place in the flow: read once at the start. What is not known is refused with its line, what is not there has the default that
//! `configs/reference.toml` shows.

mod text;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use robinhood_cache_server::{
    Address, CacheServerConfig, CacheServerError, Dispatch, Eviction, Listen, Partitioning,
};
use robinhood_controller::{Mode, PolicyKind};
use robinhood_stats::{BackendName, Bytes, Nanos};
use serde::Deserialize;

use super::beside::BesideSection;
use super::fleet::{self, AggregatorSection, ReportsSection};
use super::log::LogSection;
use super::mistakes::Mistakes;
use crate::failure::Failure;
pub(super) use text::{Parsed, Text};

/// What the partition of all other keys is called in reports and decisions.
pub(crate) const OTHER: &str = "other";

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunConfig {
    /// A cache server of its own,
    pub(crate) cache: Option<CacheSection>,
    /// or caches that run already.
    pub(crate) beside: Option<BesideSection>,
    /// RBC of many application servers, for others,
    pub(crate) aggregator: Option<AggregatorSection>,
    /// and where it comes from, instead of the reports of this process alone.
    pub(crate) reports: Option<ReportsSection>,
    #[serde(default)]
    pub(crate) controller: ControllerSection,
    #[serde(default)]
    pub(crate) http: HttpSection,
    #[serde(default)]
    pub(crate) log: LogSection,
}

/// `[cache]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CacheSection {
    pub(crate) partitions: Vec<BackendName>,
    #[serde(default = "default_budget")]
    pub(crate) budget: Text<Bytes>,
    #[serde(default = "default_listen")]
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) unix: Option<PathBuf>,
    #[serde(default = "default_separator")]
    pub(crate) separator: char,
    pub(crate) threads: Option<usize>,
    #[serde(default = "default_dispatch")]
    pub(crate) dispatch: Text<Dispatch>,
    #[serde(default = "default_eviction")]
    pub(crate) eviction: Text<Eviction>,
    #[serde(default = "default_value_max")]
    pub(crate) value_max: Text<Bytes>,
    #[serde(default = "default_connections_max")]
    pub(crate) connections_max: usize,
    pub(crate) idle_timeout: Option<Text<Nanos>>,
}

/// `[controller]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ControllerSection {
    pub(crate) mode: Text<Mode>,
    pub(crate) policy: Text<PolicyKind>,
    pub(crate) period: Text<Nanos>,
    pub(crate) objective: Option<Text<Nanos>>,
}

/// `[http]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpSection {
    pub(crate) listen: SocketAddr,
    pub(crate) page_port: u16,
    pub(crate) page: bool,
}

const fn default_budget() -> Text<Bytes> {
    Text(Bytes::from_mib(256))
}

fn default_listen() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 11_211))]
}

const fn default_separator() -> char {
    ':'
}

const fn default_dispatch() -> Text<Dispatch> {
    Text(Dispatch::Shared)
}

const fn default_eviction() -> Text<Eviction> {
    Text(Eviction::Lru)
}

const fn default_value_max() -> Text<Bytes> {
    Text(Bytes::from_mib(1))
}

const fn default_connections_max() -> usize {
    1_024
}

impl Default for ControllerSection {
    fn default() -> Self {
        Self {
            mode: Text(Mode::Advise),
            policy: Text(PolicyKind::Robinhood),
            period: Text(PERIOD),
            objective: None,
        }
    }
}

impl Default for HttpSection {
    fn default() -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 7_072));
        Self { listen, page_port: robinhood_dashboard::DEFAULT_PORT, page: true }
    }
}

/// The paper's control period; all its other times follow this one.
const PERIOD: Nanos = Nanos::from_secs(5);
/// Shorter ones would see too few requests, longer ones react after the day is over.
const PERIODS: [Nanos; 2] = [Nanos::from_millis(50), Nanos::from_secs(300)];
/// Caches in other processes are not asked more often.
const PERIOD_BESIDE_MIN: Nanos = Nanos::from_secs(1);

impl RunConfig {
    /// Reads a file, and says all that is wrong with it.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let refused =
            |error: std::io::Error| Failure::configuration(format!("{}: {error}", path.display()));
        let bytes = std::fs::metadata(path).map_err(refused)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(Failure::configuration(format!(
                "{}: {bytes} bytes are no configuration: the most is {FILE_BYTES_MAX}",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).map_err(refused)?;
        Self::read(&text).map_err(|mistakes| mistakes.of_file(path))
    }

    /// Reads the text of a file.
    pub(crate) fn read(text: &str) -> Result<Self, Mistakes> {
        let config: Self =
            toml::from_str(text).map_err(|error| Mistakes::of_parser(text, &error))?;
        let mistakes = config.mistakes();
        if mistakes.is_empty() { Ok(config) } else { Err(Mistakes::of_keys(text, mistakes)) }
    }

    /// What cannot be, though every value alone could: each begins with the key that it is about.
    fn mistakes(&self) -> Vec<String> {
        let sections = [
            self.check_controller(),
            self.http.check(),
            self.aggregator.as_ref().map_or(Ok(()), AggregatorSection::check),
            self.reports.as_ref().map_or(Ok(()), ReportsSection::check),
            self.cache.as_ref().map_or(Ok(()), CacheSection::check),
            self.beside.as_ref().map_or(Ok(()), BesideSection::check),
            self.check_sections(),
            self.check_addresses(),
        ];
        sections.into_iter().filter_map(Result::err).collect()
    }

    fn check_controller(&self) -> Result<(), String> {
        let [mut least, most] = PERIODS;
        if self.beside.is_some() {
            least = PERIOD_BESIDE_MIN;
        }
        let period = self.controller.period.0;
        if (least..=most).contains(&period) {
            Ok(())
        } else {
            Err(format!("controller.period: {period} is outside {least} to {most}"))
        }
    }

    fn check_sections(&self) -> Result<(), String> {
        match (&self.cache, &self.beside, &self.aggregator) {
            (Some(_), Some(_), _) => Err(
                "beside: `[cache]` is there as well: one process moves one cache".to_owned(),
            ),
            (None, None, Some(_)) if self.reports.is_some() => Err(
                "reports: there is no cache to go with it: add `[cache]` or `[beside]`, or leave it out".to_owned(),
            ),
            (None, None, None) => Err(
                "missing section: `[cache]` for a cache server, `[beside]` for caches that run already, or `[aggregator]`"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// No two of our sockets at one port, where it is chosen.
    fn check_addresses(&self) -> Result<(), String> {
        let page = SocketAddr::from(([127, 0, 0, 1], self.http.page_port));
        let has_loop = self.cache.is_some() || self.beside.is_some();
        let mut sockets = Vec::new();
        if let Some(cache) = &self.cache {
            sockets.extend(cache.listen.iter().map(|&address| ("cache.listen", address)));
        }
        if has_loop {
            sockets.push(("http.listen", self.http.listen));
            sockets.extend(self.http.page.then_some(("http.page_port", page)));
        }
        if let Some(aggregator) = &self.aggregator {
            sockets.push(("aggregator.listen", aggregator.listen));
            sockets.push(("aggregator.http", aggregator.http));
        }
        for (place, (key, address)) in sockets.iter().enumerate() {
            let twin = sockets[..place].iter().find(|(_, other)| other == address);
            if let Some((other, _)) = twin.filter(|_| address.port() != 0) {
                return Err(format!("{key}: {address} is taken by {other} already"));
            }
        }
        Ok(())
    }

    /// Whether the files with secrets that it names can be read.
    pub(crate) fn check_secrets(&self) -> Result<(), Failure> {
        self.beside.as_ref().map_or(Ok(()), BesideSection::check_secrets)?;
        fleet::check_secrets(self.aggregator.as_ref(), self.reports.as_ref())
    }

    /// What it would run, in a line.
    pub(crate) fn summary(&self) -> String {
        let mut parts = Vec::new();
        if let Some(cache) = &self.cache {
            let (count, budget) = (cache.partitions.len() + 1, cache.budget.0);
            parts.push(format!("a cache server of {budget} in {count} partitions"));
        }
        if let Some(beside) = &self.beside {
            parts.push(format!("beside {} caches ({})", beside.caches.len(), beside.kind.0));
        }
        if !parts.is_empty() {
            let ControllerSection { mode, policy, period, .. } = &self.controller;
            let mode = match mode.0 {
                Mode::Active => "moves limits",
                Mode::Advise => "advises only",
            };
            parts.push(format!("`{}` {mode} every {}", policy.0.as_str(), period.0));
        }
        if let Some(reports) = &self.reports {
            parts.push(format!("by the RBC of {} aggregators", reports.poll.len()));
        }
        if let Some(aggregator) = &self.aggregator {
            parts.push(format!("an aggregator at {}", aggregator.listen));
        }
        parts.join(", ")
    }

    /// All times of the paper are divided by this.
    pub(crate) fn time_scale(&self) -> f64 {
        PERIOD.as_secs_f64() / self.controller.period.0.as_secs_f64()
    }
}

impl HttpSection {
    fn check(&self) -> Result<(), String> {
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        Err(format!(
            "http.listen: {} is not a loopback address, and nobody is asked for a password there",
            self.listen
        ))
    }
}

impl CacheSection {
    fn check(&self) -> Result<(), String> {
        if self.partitions.is_empty() {
            return Err("cache.partitions: name at least one backend".to_owned());
        }
        if let Some(name) = self.partitions.iter().find(|name| name.as_str() == OTHER) {
            return Err(format!("cache.partitions: `{name}` is what all other keys are called"));
        }
        let mut names: Vec<_> = self.partitions.iter().collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("cache.partitions: `{}` is there twice", twice[0]));
        }
        // Each partition keeps room for two of the largest values.
        let least = Bytes(2 * self.value_max.0.0.saturating_mul(names.len() as u64 + 1));
        if self.budget.0 < least {
            return Err(format!(
                "cache.budget: {} is too small for {} partitions and values of up to {}: write at least {least}, or a smaller `value_max`",
                self.budget.0,
                names.len() + 1,
                self.value_max.0
            ));
        }
        self.server()?.check().map_err(|error| {
            let key = match &error {
                CacheServerError::Range { what: "worker threads", .. } => "threads",
                CacheServerError::Range { what: "connections", .. } => "connections_max",
                CacheServerError::Separator(_) => "separator",
                CacheServerError::NoAddress => "listen",
                _ => "partitions",
            };
            format!("cache.{key}: {error}")
        })
    }

    /// What partitions are called in reports and decisions, in their order: the first is that of all other keys.
    pub(crate) fn names(&self) -> Vec<BackendName> {
        let other = OTHER.parse().expect("a name that backends can have");
        std::iter::once(other).chain(self.partitions.iter().cloned()).collect()
    }

    /// What the cache server is made of.
    pub(crate) fn server(&self) -> Result<CacheServerConfig, String> {
        let section = self;
        let inet = section.listen.iter().copied().map(Address::Inet);
        let addresses = inet.chain(section.unix.clone().map(Address::Unix));
        let listen = addresses.map(|address| Listen { address, partition: None }).collect();
        let mut config = CacheServerConfig::new(section.budget.0, listen);
        config.threads = section.threads.unwrap_or(config.threads);
        config.dispatch = section.dispatch.0;
        config.eviction = section.eviction.0;
        config.value_bytes_max = section.value_max.0;
        config.connections_max = section.connections_max;
        config.idle_timeout = section.idle_timeout.map(|time| Duration::from_nanos(time.0.0));
        config.partitioning = Partitioning::Prefix {
            separator: u8::try_from(section.separator).map_err(|_| {
                format!("cache.separator: `{}` is no ASCII character", section.separator)
            })?,
            known: section.partitions.clone(),
            created_max: 0,
        };
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
