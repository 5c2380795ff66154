//! The configuration file of `robinhood run`.
//!
//! Place in the flow: read once at the start. What is not known is refused with its line, what is not there has the default that
//! `configs/reference.toml` shows.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use robinhood_cache_server::{
    Address, CacheServerConfig, Dispatch, Eviction, Listen, Partitioning,
};
use robinhood_controller::{Mode, PolicyKind};
use robinhood_stats::{BackendName, Bytes, Nanos};
use serde::Deserialize;

use super::beside::BesideSection;
use super::fleet::{AggregatorSection, ReportsSection};
use crate::cache;
use crate::failure::Failure;

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

/// A value that is written as text, as on the command line: with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Text<T>(pub(crate) T);

/// What can be written as [`Text`].
pub(super) trait Parsed: Sized {
    fn parsed(text: &str) -> Result<Self, String>;
}

impl Parsed for Bytes {
    fn parsed(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: robinhood_stats::UnitError| error.to_string())
    }
}

impl Parsed for Nanos {
    fn parsed(text: &str) -> Result<Self, String> {
        crate::values::time_above_zero(text)
    }
}

impl Parsed for Dispatch {
    fn parsed(text: &str) -> Result<Self, String> {
        cache::dispatch(text)
    }
}

impl Parsed for Eviction {
    fn parsed(text: &str) -> Result<Self, String> {
        cache::eviction(text)
    }
}

impl Parsed for Mode {
    fn parsed(text: &str) -> Result<Self, String> {
        match text {
            "active" => Ok(Self::Active),
            "advise" => Ok(Self::Advise),
            _ => Err(format!("`{text}` is neither `active` nor `advise`")),
        }
    }
}

impl Parsed for PolicyKind {
    fn parsed(text: &str) -> Result<Self, String> {
        let policy = text.parse().map_err(|error| format!("{error}"))?;
        match policy {
            Self::Robinhood | Self::Fair | Self::Lama | Self::Equal => Ok(policy),
            _ => Err(format!("`{text}` does not run live: take robinhood, fair, lama or equal")),
        }
    }
}

impl<'de, T: Parsed> Deserialize<'de> for Text<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        T::parsed(&text).map(Self).map_err(serde::de::Error::custom)
    }
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
    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let named = |message: &dyn std::fmt::Display| {
            Failure::configuration(format!("{}: {message}", path.display()))
        };
        let bytes = std::fs::metadata(path).map_err(|error| named(&error))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(named(&format!(
                "{bytes} bytes are no configuration: the most is {FILE_BYTES_MAX}"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        Self::read(&text).map_err(|message| named(&message))
    }

    /// Reads the text of a file.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let [mut least, most] = PERIODS;
        if self.beside.is_some() {
            least = PERIOD_BESIDE_MIN;
        }
        let period = self.controller.period.0;
        if !(least..=most).contains(&period) {
            return Err(format!("controller.period: {period} is outside {least} to {most}"));
        }
        if !self.http.listen.ip().is_loopback() {
            let listen = self.http.listen;
            return Err(format!(
                "http.listen: {listen} is not a loopback address, and nobody is asked for a password there"
            ));
        }
        self.aggregator.iter().try_for_each(AggregatorSection::check)?;
        self.reports.iter().try_for_each(ReportsSection::check)?;
        match (&self.cache, &self.beside) {
            (Some(cache), None) => cache.check(),
            (None, Some(beside)) => beside.check(),
            (None, None) if self.aggregator.is_some() => match self.reports {
                Some(_) => Err("`[reports]` has no cache to go with it: add `[cache]` or `[beside]`, or leave it out".to_owned()),
                None => Ok(()),
            },
            (None, None) => Err(
                "missing section: `[cache]` for a cache server, `[beside]` for caches that run already, or `[aggregator]`"
                    .to_owned(),
            ),
            (Some(_), Some(_)) => {
                Err("`[cache]` and `[beside]` are both there: one process moves one cache"
                    .to_owned())
            }
        }
    }

    /// All times of the paper are divided by this.
    pub(crate) fn time_scale(&self) -> f64 {
        PERIOD.as_secs_f64() / self.controller.period.0.as_secs_f64()
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
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(format!("cache.partitions: `{}` is there twice", twice[0])),
            None => Ok(()),
        }
    }

    /// What partitions are called in reports and decisions, in their order: the first is that of all other keys.
    pub(crate) fn names(&self) -> Vec<BackendName> {
        let other = OTHER.parse().expect("a name that backends can have");
        std::iter::once(other).chain(self.partitions.iter().cloned()).collect()
    }

    /// What the cache server is made of.
    pub(crate) fn server(&self) -> Result<CacheServerConfig, Failure> {
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
            separator: u8::try_from(section.separator)
                .map_err(|_| Failure::configuration("cache.separator: an ASCII character"))?,
            known: section.partitions.clone(),
            created_max: 0,
        };
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[cache]\npartitions = [\"a\"]\n";

    #[test]
    fn the_reference_shows_the_defaults() {
        let reference = include_str!("../../../../configs/reference.toml");
        let read = RunConfig::read(reference).unwrap();
        let mut least = RunConfig::read(LEAST).unwrap();
        let partitions = read.cache.clone().unwrap().partitions;
        least.cache.as_mut().unwrap().partitions = partitions;
        assert_eq!(read, least);
    }

    #[test]
    fn the_reference_names_every_key() {
        let reference = include_str!("../../../../configs/reference.toml");
        // What has no default stands there as a comment.
        let all: String = reference
            .lines()
            .map(|line| line.strip_prefix("#= ").unwrap_or(line).to_owned() + "\n")
            .collect();
        let mut table: toml::Table = toml::from_str(&all).unwrap();
        let keys: usize = table.values().map(|section| section.as_table().unwrap().len()).sum();
        assert_eq!(keys, 11 + 4 + 4 + 3 + 6 + 5, "fields of the six sections");
        let error = RunConfig::read(&all).unwrap_err();
        assert!(error.contains("both there"), "{error}");
        let [cache, beside] = ["cache", "beside"].map(|name| table.remove(name).unwrap());
        for (name, section) in [("cache", cache), ("beside", beside)] {
            let mut one = table.clone();
            one.insert(name.to_owned(), section);
            RunConfig::read(&toml::to_string(&one).unwrap()).unwrap();
        }
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        for (text, reason) in [
            ("", "missing section: `[cache]`"),
            (
                "[cache]\npartitions = [\"a\"]\n[beside]\nkind = \"redis\"\n[beside.caches]\na = \"h:1\"\n",
                "both",
            ),
            (
                "[beside]\nkind = \"memcache\"\n[beside.caches]\na = \"h:1\"\n",
                "none of `memcached`",
            ),
            ("[beside]\nkind = \"memcached\"\n[beside.caches]\na = \"h\"\n", "line 4"),
            ("[beside]\nkind = \"memcached\"\n[beside.caches]\n", "at least one backend"),
            (
                "[beside]\nkind = \"server\"\n[beside.caches]\na = \"h:1\"\nb = \"h:2\"\n",
                "same address",
            ),
            (
                "[beside]\nkind = \"redis\"\nuser = \"u\"\n[beside.caches]\na = \"h:1\"\n",
                "password_file",
            ),
            (
                "[beside]\nkind = \"redis\"\n[beside.caches]\na = \"h:1\"\n[controller]\nperiod = \"500ms\"\n",
                "outside 1.00 s",
            ),
            ("[cache]\npartitions = []\n", "name at least one"),
            ("[cache]\npartitions = [\"a\", \"a\"]\n", "`a` is there twice"),
            ("[cache]\npartitions = [\"other\"]\n", "all other keys"),
            ("[cache]\npartitions = [\"A b\"]\n", "line 2"),
            ("[cache]\npartitions = [\"a\"]\nbudget = \"1\"\n", "line 3"),
            ("[cache]\npartitions = [\"a\"]\nbudgets = \"1GiB\"\n", "unknown field `budgets`"),
            (
                "[cache]\npartitions = [\"a\"]\n[controller]\nmode = \"on\"\n",
                "neither `active` nor",
            ),
            ("[cache]\npartitions = [\"a\"]\n[controller]\nperiod = \"1ms\"\n", "outside 50"),
            (
                "[cache]\npartitions = [\"a\"]\n[controller]\npolicy = \"shared\"\n",
                "does not run live",
            ),
            ("[cache]\npartitions = [\"a\"]\n[http]\nlisten = \"0.0.0.0:1\"\n", "not a loopback"),
        ] {
            let error = RunConfig::read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
