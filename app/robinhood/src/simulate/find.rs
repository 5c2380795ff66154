//! How much cache a policy needs to violate the objective as seldom as another one does with the cache as it is.
//!
//! Found by bisection, seed by seed: it takes it that a policy which does with less does with more too.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::ValueEnum;
use robinhood_controller::PolicyKind;
use robinhood_stats::Bytes;
use serde::Serialize;

use super::plan::Plan;
use super::sweep::{needs_objective, with_budget};
use super::{Failed, Job, check, introduce, pool};
use crate::cli::SimulateArgs;
use crate::failure::Failure;
use crate::html::{Page, figure};
use crate::search::{self, least_percent};
use crate::svg::{Across, Chart, Curve, Upright};
use crate::table::Table;
use crate::workers;
use crate::{interrupt, output};

/// The least budget that is tried, in percent of the cache as it is.
const FROM_PERCENT: u32 = 10;

/// What can be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wanted {
    /// The cache of each application server.
    Budget,
}

/// What a policy needs with one seed.
#[derive(Serialize)]
struct Found {
    policy: PolicyKind,
    seed: u64,
    /// What it is held against, 0 to 1.
    mark_violation_ratio: f64,
    /// Of the cache as it is; null when nothing that was tried is enough.
    needed_percent: Option<u32>,
    needed_bytes: Option<u64>,
    tried: Vec<Tried>,
}

/// One run on the way.
#[derive(Clone, Copy, Serialize)]
struct Tried {
    budget_percent: u32,
    slo_violation_ratio: f64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    workload: &'a str,
    scale: String,
    seeds: &'a [u64],
    as_good_as: PolicyKind,
    cache_bytes_per_server: u64,
    up_to_percent: u32,
    found: &'a [Found],
}

/// Runs the command.
pub(super) fn run(args: &SimulateArgs, plan: &Plan) -> Result<(), Failure> {
    needs_objective(plan, "--find")?;
    let mark = args.as_good_as.expect("--find requires it");
    let mut marks = plan.clone();
    marks.policies = vec![mark];
    for plan in [plan, &marks] {
        check::check(plan).map_err(Failure::configuration)?;
    }
    let stop = interrupt::stop_flag()?;
    introduce(plan);
    let started = Instant::now();
    let draw = std::io::stderr().is_terminal();
    let marks = marks_of(&marks, stop, draw)?;
    let mut found = searches(plan, &marks, args.up_to, stop, draw)?;
    // As typed, whichever thread was first.
    let jobs = plan.jobs();
    found.sort_by_key(|found| jobs.iter().position(|&job| job == (found.seed, found.policy)));
    eprintln!("{:.1} s", started.elapsed().as_secs_f64());
    let document = Document {
        schema: "robinhood.simulate-find/1",
        workload: &plan.workload.name,
        scale: plan.scale.to_string(),
        seeds: &plan.seeds,
        as_good_as: mark,
        cache_bytes_per_server: plan.workload.cache_per_server.0,
        up_to_percent: args.up_to,
        found: &found,
    };
    if let Some(path) = &args.json {
        output::write_json(path, &document)?;
    }
    if let Some(path) = &args.html {
        output::write_text(path, &page(plan, &document)?)?;
    }
    output::say(&format!("{}{}", table(&document).render(), summary(plan, &document)));
    Ok(())
}

/// What the policies are held against: its violations, seed by seed.
fn marks_of(plan: &Plan, stop: &AtomicBool, draw: bool) -> Result<Vec<(u64, f64)>, Failure> {
    let results = pool::run(std::slice::from_ref(plan), stop, draw);
    let (runs, failed) = results.into_iter().next().expect("one result for the one plan");
    if let Some(failed) = failed.first() {
        return Err(failed.failure(""));
    }
    let complete = runs.iter().filter(|run| run.outcome.complete);
    let marks: Vec<(u64, f64)> =
        complete.map(|run| (run.seed, run.outcome.slo_violation_ratio)).collect();
    if marks.len() < plan.seeds.len() {
        return Err(Failure::failed("interrupted before the first result"));
    }
    Ok(marks)
}

/// All searches, several at once.
fn searches(
    plan: &Plan,
    marks: &[(u64, f64)],
    up_to: u32,
    stop: &AtomicBool,
    draw: bool,
) -> Result<Vec<Found>, Failure> {
    let range = FROM_PERCENT..=up_to;
    let tries = f64::from(search::tries_max(&range));
    let results = workers::run(&plan.jobs(), plan.threads, stop, draw, |&(seed, policy), part| {
        let mark = marks.iter().find(|(of, _)| *of == seed).expect("every seed has its mark").1;
        let mut tried = Vec::new();
        let needed_percent = least_percent(range.clone(), |percent| {
            let before = tried.len() as f64;
            let mut reach = |share: f64| part.reach((before + share) / tries);
            let ratio = violations(plan, (seed, policy), percent, stop, &mut reach)?;
            tried.push(Tried { budget_percent: percent, slo_violation_ratio: ratio });
            Ok(ratio <= mark)
        })?;
        tried.sort_by_key(|tried| tried.budget_percent);
        let bytes =
            |percent| with_budget(plan, f64::from(percent) / 100.0).workload.cache_per_server;
        Ok(Found {
            policy,
            seed,
            mark_violation_ratio: mark,
            needed_percent,
            needed_bytes: needed_percent.map(|percent| bytes(percent).0),
            tried,
        })
    });
    let found = results.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    if found.len() < plan.jobs().len() {
        return Err(Failure::failed("interrupted before the result"));
    }
    Ok(found)
}

/// Violations of one run with so much cache.
fn violations(
    plan: &Plan,
    job: Job,
    percent: u32,
    stop: &AtomicBool,
    reach: &mut dyn FnMut(f64),
) -> Result<f64, Failure> {
    let plan = with_budget(plan, f64::from(percent) / 100.0);
    let run = pool::alone(&plan, job, &mut |share| {
        reach(share);
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .map_err(|error| Failed { job, error }.failure(""))?;
    match run {
        Some(run) if run.outcome.complete => Ok(run.outcome.slo_violation_ratio),
        Some(run) if run.outcome.source_error.is_some() => {
            let error = run.outcome.source_error.expect("it is there");
            Err(Failure::failed(error))
        }
        _ => Err(Failure::failed("interrupted before the result")),
    }
}

/// A row for each policy and seed.
fn table(document: &Document<'_>) -> Table {
    let headings = ["policy", "seed", "mark", "with the cache as it is", "needs", "of cache"];
    let mut table = Table::new(headings);
    for found in document.found {
        let as_it_is = found.tried.iter().find(|tried| tried.budget_percent == 100);
        let percent = |ratio: f64| format!("{:.2} %", ratio * 100.0);
        table.row([
            found.policy.to_string(),
            found.seed.to_string(),
            percent(found.mark_violation_ratio),
            as_it_is.map_or("-".to_owned(), |tried| percent(tried.slo_violation_ratio)),
            found.needed_percent.map_or_else(
                || format!("over {} %", document.up_to_percent),
                |percent| format!("{percent} %"),
            ),
            found.needed_bytes.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string()),
        ]);
    }
    table
}

/// A sentence for each policy.
fn summary(plan: &Plan, document: &Document<'_>) -> String {
    let mut text = String::new();
    for &policy in &plan.policies {
        let of_policy = || document.found.iter().filter(|found| found.policy == policy);
        let mut needed: Vec<u32> = of_policy().filter_map(|found| found.needed_percent).collect();
        needed.sort_unstable();
        let lacking = of_policy().count() - needed.len();
        let mark = document.as_good_as;
        if let (Some(least), Some(most)) = (needed.first(), needed.last()) {
            text += &format!(
                "{policy} needs {} % of the cache to be as good as {mark} (median of {} seeds, {least} to {most} %)\n",
                needed[needed.len() / 2],
                needed.len()
            );
        }
        if lacking > 0 {
            text += &format!(
                "{policy}: with {lacking} of {} seeds {} % of the cache are not enough to be as good as {mark}\n",
                of_policy().count(),
                document.up_to_percent
            );
        }
    }
    text
}

fn page(plan: &Plan, document: &Document<'_>) -> Result<String, Failure> {
    let charts = plan.policies.iter().map(|&policy| chart(policy, document));
    let table = table(document).html("Least cache that is enough, in steps of 5 %");
    let page = Page {
        title: &format!("Cache for the tail of {}: {}", document.as_good_as, plan.workload.name),
        subtitle: &format!(
            "How much cache other policies need to be over the objective as seldom as {}. Seeds: {}.",
            document.as_good_as,
            super::seed_list(&plan.seeds)
        ),
        sections: format!(
            "<section>\n<h2>Needed</h2>\n{table}<p>{}</p>\n{}</section>\n",
            crate::svg::escape(&summary(plan, document)),
            charts.collect::<String>()
        ),
        json_id: "robinhood-simulate",
    };
    page.render(document)
}

/// What was tried, seed by seed.
fn chart(policy: PolicyKind, document: &Document<'_>) -> String {
    const CURVES_MAX: usize = 4;
    let of_policy: Vec<&Found> =
        document.found.iter().filter(|found| found.policy == policy).take(CURVES_MAX).collect();
    let names: Vec<String> = of_policy.iter().map(|found| format!("seed {}", found.seed)).collect();
    let point =
        |tried: &Tried| (f64::from(tried.budget_percent), tried.slo_violation_ratio * 100.0);
    let curve = |(found, name): (&&Found, &'_ String)| {
        (name.clone(), found.tried.iter().map(point).collect::<Vec<_>>())
    };
    let curves: Vec<(String, Vec<(f64, f64)>)> = of_policy.iter().zip(&names).map(curve).collect();
    let chart = Chart {
        title: &format!("Violations of {policy} by its cache"),
        subtitle: "Runs on the way to the least that is enough.".to_owned(),
        y_label: "percent of the time",
        across: Across::Percent(f64::from(document.up_to_percent)),
        upright: Upright::Linear,
        rule: None,
        spans: Vec::new(),
        curves: curves
            .iter()
            .map(|(name, points)| Curve { name, points: points.clone() })
            .collect(),
    };
    figure(&format!("find-{policy}"), &chart)
}
