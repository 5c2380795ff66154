//! The demo's page: the experiment as a source of the dashboard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use robinhood_controller::Mode;
use robinhood_dashboard::{
    Action, Command, Dashboard, DashboardConfig, DashboardError, Refused, Source, State,
};
use robinhood_testbed::{Experiment, Stack};

use super::state;

/// The experiment, for readers of the page.
pub(crate) struct Watched {
    experiment: Arc<Experiment>,
    seed: u64,
    commands: AtomicU64,
}

impl Watched {
    pub(crate) fn new(experiment: Arc<Experiment>, seed: u64) -> Arc<Self> {
        Arc::new(Self { experiment, seed, commands: AtomicU64::new(0) })
    }

    /// How often somebody paused, resumed or switched a controller by hand.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Relaxed)
    }
}

impl Source for Watched {
    fn state(&self) -> State {
        state::of(&self.experiment.view(), self.seed)
    }

    fn command(&self, command: &Command) -> Result<(), Refused> {
        let is_meant = |stack: &&Arc<Stack>| {
            command.stack.as_ref().is_none_or(|name| name.as_str() == stack.name())
        };
        let order = |stack: &Arc<Stack>| match &command.action {
            Action::Pause { reason } => stack.pause(reason.clone()),
            Action::Resume => stack.resume(),
            Action::Advise => stack.set_mode(Mode::Advise),
            Action::Activate => stack.set_mode(Mode::Active),
        };
        let told = self.experiment.stacks().iter().filter(is_meant).filter(|s| order(s)).count();
        if told == 0 {
            return Err(Refused("no stack of that name has a controller".to_owned()));
        }
        self.commands.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Serves the page, on another port when the one that was asked for is taken. A demo without a page is still a demo.
pub(crate) fn serve(port: u16, watched: &Arc<Watched>) -> Option<Dashboard> {
    let start = |port| {
        let config = DashboardConfig { port, ..DashboardConfig::default() };
        Dashboard::start(&config, watched.clone())
    };
    let started = match start(port) {
        Err(DashboardError::Bind { source, .. }) if port != 0 => start(0).inspect(|_| {
            eprintln!("port {port} cannot be had ({source}), so the page has another one");
        }),
        started => started,
    };
    match started {
        Ok(dashboard) => {
            eprintln!("page: {}", dashboard.url());
            Some(dashboard)
        }
        Err(error) => {
            eprintln!("no page: {error}");
            None
        }
    }
}
