//! `robinhood reproduce`: the paper's evaluation in virtual time, beside the paper's numbers.
//!
//! [`experiments`] says which runs there are, [`runs`] makes them and [`state`] keeps them, [`measure`] reads numbers off them, [`claims`] are the paper's, and
//! [`check`] holds one against the other; [`page`] and [`document`] say it.

mod args;
mod check;
mod claims;
mod document;
mod experiments;
mod measure;
mod page;
mod pictures;
mod runs;
mod space;
mod state;
mod table1;

use std::time::Instant;

pub(crate) use args::ReproduceArgs;

use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::simulate::seed_list;
use crate::workers;
use check::Check;
use document::{Document, Timing};
use experiments::Plan;
use measure::Source;
use runs::{Records, Runner};
use state::State;
use table1::Structure;

/// Runs the command.
pub(crate) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    output::check_files(&[("--json", &args.json), ("--html", &args.html)])?;
    let plan = Plan::new(args);
    let jobs = plan.jobs();
    let started = Instant::now();
    let mut records = Records::new();
    if !jobs.is_empty() {
        let state = State::open(&args.state)?;
        let stop = interrupt::stop_flag()?;
        let threads = args.threads.map_or_else(workers::cores, |threads| threads.get().into());
        let runner = Runner { plan: &plan, state: &state, threads, stop };
        eprintln!(
            "{}, seed {}; runs that are done are kept in {}",
            plan.fleet(),
            seed_list(&plan.seeds),
            args.state.display()
        );
        runner.obtain(&jobs, &mut records)?;
        if plan.parts.contains(&args::Part::Space) {
            space::search(&runner, &mut records)?;
        }
    }
    let structure = Structure::draw(plan.seeds[0]);
    let source = Source { plan: &plan, records: &records, structure: &structure };
    let checks: Vec<Check> = plan
        .parts
        .iter()
        .flat_map(|&part| claims::of(part))
        .filter_map(|claim| Check::of(claim, &source))
        .collect();
    let wall_seconds = started.elapsed().as_secs_f64();
    eprintln!("{wall_seconds:.0} s");
    let timing = (!args.no_timing).then_some(Timing { wall_seconds });
    let document = Document::new(&plan, &checks, &records, timing);
    if let Some(path) = &args.json {
        output::write_json(path, &document)?;
    }
    if let Some(path) = &args.html {
        output::write_text(path, &page::page(&source, &checks, &document)?)?;
    }
    let agree = checks.iter().filter(|check| check.agrees()).count();
    output::say(&format!("{}\n{agree} of {} agree\n", page::table(&checks).render(), checks.len()));
    Ok(())
}
