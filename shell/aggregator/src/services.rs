//! All services of an aggregator: what arrives finds its collector here, on whatever way it came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use robinhood_blocking::{CollectorConfig, ConfigError, Delta, ServiceName};
use robinhood_intake::Intake;
use robinhood_stats::{Instant, Nanos};

use crate::config::AggregatorConfig;
use crate::refusals::{Reason, Refusals};
use crate::service::Service;

/// Slots of a control period: a snapshot is taken once a slot.
const SLOTS_PER_PERIOD: u32 = 5;
/// A sender counts for no more than so many times the median sender.
const SENDER_TIMES_MAX: u32 = 3;
/// A service that nothing was heard of for so long makes room for another.
const SILENT: Nanos = Nanos::from_secs(3_600);

/// Collectors by service, bounded, for several threads.
#[derive(Debug)]
pub struct Services {
    template: CollectorConfig,
    objective: Option<Nanos>,
    services_max: usize,
    by_name: Mutex<BTreeMap<ServiceName, Service>>,
    refusals: Refusals,
    epoch: std::time::Instant,
}

impl Services {
    /// No service yet. Of the settings, addresses and token are not looked at.
    ///
    /// # Errors
    /// When the period or the number of senders cannot be.
    pub fn new(config: &AggregatorConfig) -> Result<Self, ConfigError> {
        let defaults = CollectorConfig::default();
        let time_scale = defaults.period.as_secs_f64() / config.period.as_secs_f64();
        let mut template = defaults.scaled_down(time_scale);
        template.slots_per_period = SLOTS_PER_PERIOD;
        template.senders_max = config.senders_max;
        template.sender_times_max = Some(SENDER_TIMES_MAX);
        robinhood_blocking::Collector::new(template.clone())?;
        Ok(Self {
            template,
            objective: config.objective,
            services_max: config.services_max,
            by_name: Mutex::default(),
            refusals: Refusals::default(),
            epoch: std::time::Instant::now(),
        })
    }

    /// What was refused since the start.
    pub const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Deltas that were counted, of the services that are held now.
    pub fn accepted(&self) -> u64 {
        self.ask_all(|service, now| service.view(now).deltas).into_iter().sum()
    }

    /// Counts a delta.
    ///
    /// # Errors
    /// Why nothing of it was counted, and the same for people.
    pub fn handle_delta(&self, delta: &Delta) -> Result<(), (Reason, String)> {
        // Before a service comes into being for it.
        if let Err(error) = delta.check() {
            return Err(self.refuse(Reason::Malformed, &error));
        }
        let now = self.now();
        let mut services = self.lock();
        let service = self.find(&mut services, now, &delta.service)?;
        match service.handle_delta(now, delta) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.refuse(error.into(), &error)),
        }
    }

    /// Whether a service is held.
    pub(crate) fn knows(&self, name: &ServiceName) -> bool {
        self.lock().contains_key(name)
    }

    /// Where lines of a service's finished requests are counted.
    ///
    /// # Errors
    /// When there are too many services.
    pub(crate) fn intake(&self, name: &ServiceName) -> Result<Arc<Intake>, (Reason, String)> {
        let now = self.now();
        let mut services = self.lock();
        Ok(self.find(&mut services, now, name)?.intake().clone())
    }

    fn find<'a>(
        &self,
        services: &'a mut BTreeMap<ServiceName, Service>,
        now: Instant,
        name: &ServiceName,
    ) -> Result<&'a mut Service, (Reason, String)> {
        if !services.contains_key(name) {
            if services.len() >= self.services_max {
                services.retain(|_, service| now.since(service.heard()) < SILENT);
            }
            if services.len() >= self.services_max {
                let most = self.services_max;
                let error = format!("`{name}` is one service too many: {most} are counted here");
                return Err(self.refuse(Reason::TooManyServices, &error));
            }
            let config = CollectorConfig { service: name.clone(), ..self.template.clone() };
            let service = Service::new(config, now).expect("the settings were checked");
            services.insert(name.clone(), service);
        }
        Ok(services.get_mut(name).expect("it was there or was added"))
    }

    /// Counts a refusal, and says it.
    pub(crate) fn refuse(&self, reason: Reason, error: &dyn std::fmt::Display) -> (Reason, String) {
        self.refusals.count(reason);
        (reason, error.to_string())
    }

    /// Time between two ticks.
    pub(crate) fn slot(&self) -> Nanos {
        Nanos(self.template.period.0 / u64::from(SLOTS_PER_PERIOD))
    }

    /// What the P99 should stay below, if that is known.
    pub(crate) const fn objective(&self) -> Option<Nanos> {
        self.objective
    }

    /// Once a slot: takes the snapshots that are told until the next tick.
    pub(crate) fn tick(&self) {
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let (now, slot) = (self.now(), self.slot());
        self.lock().values_mut().for_each(|service| service.tick(now, slot, unix_s));
    }

    /// Asks one service, if it is known.
    pub(crate) fn ask<T>(
        &self,
        name: &ServiceName,
        question: impl FnOnce(&Service, Instant) -> T,
    ) -> Option<T> {
        let now = self.now();
        self.lock().get(name).map(|service| question(service, now))
    }

    /// Asks all services, in order of name.
    pub(crate) fn ask_all<T>(&self, question: impl Fn(&Service, Instant) -> T) -> Vec<T> {
        let now = self.now();
        self.lock().values().map(|service| question(service, now)).collect()
    }

    /// The time of all collectors, since the start.
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServiceName, Service>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
