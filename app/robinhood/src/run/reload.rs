//! The configuration read again at a hangup signal: what can change while it runs does, the rest is named.
//!
//! Place in the flow: the command's thread, between two looks. A file with a mistake changes nothing.

use std::path::Path;

use robinhood_controller::Mode;
use robinhood_dashboard::{Action, Command, Source};
use robinhood_stats::Nanos;

use super::config::{RunConfig, Text};
use super::watched::Watched;

/// Reads the file and carries out what differs from `running`, which then says what runs.
pub(crate) fn reload(path: &Path, running: &mut RunConfig, watched: Option<&Watched>) {
    let config = match RunConfig::load(path).and_then(|new| new.check_secrets().map(|()| new)) {
        Ok(config) => config,
        Err(failure) => {
            tracing::error!("reload: nothing changes: {failure}");
            return;
        }
    };
    let (mode, objective) = (config.controller.mode, config.controller.objective);
    let objective_before = running.controller.objective;
    let mut done = Vec::new();
    if let Some(watched) = watched {
        // Somebody may have pressed a button since the file was read.
        let runs = watched.control().view().map_or(running.controller.mode.0, |view| view.mode);
        if mode.0 != runs {
            let action = match mode.0 {
                Mode::Active => Action::Activate,
                Mode::Advise => Action::Advise,
            };
            match watched.command(&Command { stack: None, action }) {
                Ok(()) => {
                    running.controller.mode = mode;
                    done.push("controller.mode");
                }
                Err(refused) => tracing::error!("reload: controller.mode stays: {}", refused.0),
            }
        }
        if objective != running.controller.objective {
            watched.set_objective(objective.map(|objective| objective.0));
            running.controller.objective = objective;
            done.push("controller.objective");
        }
    }
    let later = needs_restart(running, &config, objective_before);
    match (done.is_empty(), later.is_empty()) {
        (true, true) => tracing::info!("reload: the file says what runs already"),
        (false, _) => tracing::info!("reload: changed {}", done.join(", ")),
        (true, false) => {}
    }
    if !later.is_empty() {
        tracing::warn!("reload: takes a restart: {}", later.join(", "));
    }
}

/// What differs and cannot change now.
fn needs_restart(
    running: &RunConfig,
    config: &RunConfig,
    objective_before: Option<Text<Nanos>>,
) -> Vec<&'static str> {
    let (old, new) = (&running.controller, &config.controller);
    let watches_nothing = running.cache.is_none() && running.beside.is_none();
    let aggregates = running.aggregator.is_some();
    let differs = [
        ("[cache]", running.cache != config.cache),
        ("[beside]", running.beside != config.beside),
        ("[aggregator]", running.aggregator != config.aggregator),
        ("[reports]", running.reports != config.reports),
        ("[http]", running.http != config.http),
        ("[log]", running.log != config.log),
        ("controller.policy", old.policy != new.policy),
        ("controller.period", old.period != new.period),
        // What nobody has taken: a process without a controller, or its aggregator.
        ("controller.mode", watches_nothing && old.mode != new.mode),
        ("controller.objective of the aggregator", aggregates && objective_before != new.objective),
    ];
    differs.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
}
