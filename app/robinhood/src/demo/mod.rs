//! `robinhood demo`: two complete stacks on the same live requests, drawn while they run.

pub(crate) mod frame;
mod html;
mod page;
mod report;
mod state;
pub(crate) mod view;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use robinhood_controller::{Mode, PolicyKind, Sight};
use robinhood_stats::{Nanos, Rate};
use robinhood_testbed::{CacheKind, StackError, StackKind};
use robinhood_testbed::{Experiment, ExperimentConfig, ExperimentError, Phase, Source, Summary};
use robinhood_workload::presets;
use robinhood_workload::{Record, TraceFormat, TraceRecords, TraceSpeed};

use html::Course;
use page::Watched;
use robinhood_dashboard::{Dashboard, Source as _};

use crate::cli::DemoArgs;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::{interrupt, output};

/// The name of the first stack, which sets the objective.
const REFERENCE: &str = "shared";
/// All times of the paper are divided by this in a demo of two minutes; a shorter one is compressed more, in proportion.
pub(crate) const TIME_SCALE: f64 = 10.0;
const TIME_SCALE_SECONDS: f64 = 120.0;
/// The control period must not fall below the 50 ms that a cache in the own process allows.
const TIME_SCALE_MAX: f64 = 100.0;
/// Time between two pictures.
const REDRAW: Duration = Duration::from_millis(250);

/// Runs the command.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    output::check_files(&[("--json", &args.json), ("--svg", &args.svg), ("--html", &args.html)])?;
    if args.advise && args.policy == PolicyKind::Shared {
        return Err(Failure::usage(
            "--advise is about a controller, and --policy shared has none: leave one of them out",
        ));
    }
    check_live(args.policy)?;
    let stop = interrupt::stop_flag()?;
    let config = config(args)?;
    let (time_scale, second) = (config.time_scale, config.stacks[1].0.clone());
    eprintln!(
        "seed {}, time scale {time_scale}: the paper's times (5 s period, 60 s window) are divided by it",
        args.seed
    );
    let experiment = Arc::new(Experiment::new(config, &mut announce).map_err(failure)?);
    let watched = Watched::new(experiment.clone(), args.seed);
    let dashboard = if args.no_page { None } else { page::serve(args.port, &watched) };
    let address = dashboard.as_ref().map(Dashboard::url).unwrap_or_default();
    let mut course = args.html.as_ref().map(|_| Course::default());
    let summary = std::thread::scope(|scope| {
        let running = scope.spawn(|| experiment.run());
        let draw = || frame::of(&watched.state(), &address);
        let mut sample = || {
            if let Some(course) = &mut course {
                course.handle_state(&watched.state());
            }
        };
        let is_over = || running.is_finished();
        watch(&experiment, &draw, &mut sample, &is_over, &|| stop.load(Ordering::Relaxed));
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
    .map_err(failure)?;
    let notes = report::notes(&experiment, args.trace.is_some(), watched.commands());
    // First the files: a closed standard output must not lose them, and a full disk not the tables.
    let mut written = write_files(args, &summary, &experiment, &second);
    if let (Some(path), Some(course)) = (&args.html, &course) {
        let page = html::page(&summary, &experiment, course, (REFERENCE, &second), &notes);
        written = written.and(page.and_then(|page| output::write_text(path, &page)));
    }
    output::say(&report::tables(&summary, REFERENCE, &second));
    output::say(&notes);
    written?;
    conclude(&summary)
}

/// Refuses a policy that needs what a live stack does not measure.
pub(crate) fn check_live(policy: PolicyKind) -> Result<(), Failure> {
    if policy.sight() == Sight::Reports {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{policy}` needs {}, which only the simulator measures: choose another policy, or `robinhood simulate`",
        policy.sight()
    )))
}

fn config(args: &DemoArgs) -> Result<ExperimentConfig, Failure> {
    let measured = measured(args)?;
    let workload = match args.cache {
        CacheKind::Process | CacheKind::Server => presets::demo(measured),
        CacheKind::Memcached | CacheKind::Redis => presets::demo_in_pages(measured),
    };
    let mode = if args.advise { Mode::Advise } else { Mode::Active };
    let second = match args.policy {
        PolicyKind::Shared => "shared-control",
        policy => policy.as_str(),
    };
    let source = match &args.trace {
        None => Source::Generated(workload),
        Some(path) => Source::Trace {
            path: path.clone(),
            speed: TraceSpeed::Rate(match args.rate {
                Some(rate) => rate,
                None => Rate(requests(path)? as f64 / measured.as_secs_f64()),
            }),
            skip_bad: args.skip_bad,
            described: workload,
        },
    };
    Ok(ExperimentConfig {
        source,
        seed: args.seed,
        stacks: vec![
            (REFERENCE.to_owned(), StackKind::Shared),
            (second.to_owned(), StackKind::of(args.policy, mode)),
        ],
        cache: args.cache,
        budget: args.budget,
        time_scale: (TIME_SCALE * TIME_SCALE_SECONDS / measured.as_secs_f64())
            .clamp(TIME_SCALE, TIME_SCALE_MAX),
    })
}

/// Length of the run: as asked for, or what a trace at a given rate needs.
fn measured(args: &DemoArgs) -> Result<Nanos, Failure> {
    match (&args.trace, args.rate) {
        (Some(path), Some(rate)) => Ok(Nanos::from_secs_f64(requests(path)? as f64 / rate.0)),
        _ => Ok(Nanos::from_secs(u64::from(args.seconds))),
    }
}

/// Requests of a trace, at least one. Lines are counted and not looked at, which is much faster; a binary trace is read.
fn requests(path: &Path) -> Result<usize, Failure> {
    let cannot =
        |error| Failure::failed(format!("cannot read the trace {}: {error}", path.display()));
    if !path.metadata().map_err(cannot)?.is_file() {
        return Err(Failure::usage(format!(
            "{} is not a regular file: a trace is read twice",
            path.display()
        )));
    }
    let open = || File::open(path).map(BufReader::new).map_err(cannot);
    let mut records = TraceRecords::new(open()?, &path.display().to_string(), true);
    let (mut record, mut requests) = (Record::new(), 0);
    while records.next_into(&mut record).map_err(Failure::failed)? {
        requests += 1;
        if records.format() == Some(TraceFormat::JsonLines) {
            return lines(open()?).map_err(cannot);
        }
    }
    Ok(requests.max(1))
}

/// Lines of a text, at least one.
fn lines(mut text: impl BufRead) -> io::Result<usize> {
    let mut lines = 0;
    loop {
        let part = text.fill_buf()?;
        if part.is_empty() {
            return Ok(lines.max(1));
        }
        lines += part.iter().filter(|&&byte| byte == b'\n').count();
        let read = part.len();
        text.consume(read);
    }
}

/// Says what takes time before a stack runs.
pub(crate) fn announce(phase: Phase) {
    match phase {
        Phase::Building => eprintln!("building the data of the backends"),
        Phase::Checking => eprintln!("measuring what this machine can do"),
        Phase::Filling => eprintln!("filling the caches from the stream's own prefix"),
        Phase::Ready | Phase::Running | Phase::Draining | Phase::Done => {}
    }
}

/// Draws until the run is over, or hands Ctrl-C on to it.
fn watch(
    experiment: &Experiment,
    frame: &dyn Fn() -> view::Frame,
    sample: &mut dyn FnMut(),
    over: &dyn Fn() -> bool,
    interrupted: &dyn Fn() -> bool,
) {
    let mut screen = Screen::open();
    while !over() {
        let quit = match &mut screen {
            Some(screen) => screen.wants_to_quit(REDRAW),
            None => {
                std::thread::sleep(REDRAW);
                false
            }
        };
        if quit || interrupted() {
            experiment.stop();
        }
        sample();
        if let Some(screen) = &mut screen {
            let frame = frame();
            screen.draw(|canvas, colour| view::draw(canvas, &frame, colour));
        }
    }
}

fn write_files(
    args: &DemoArgs,
    summary: &Summary,
    experiment: &Experiment,
    second: &str,
) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        output::write_json(path, &report::Document::new(summary))?;
    }
    if let Some(path) = &args.svg {
        output::write_text(path, &report::chart(summary, experiment, REFERENCE, second).render())?;
    }
    Ok(())
}

/// An invalid run says so in its exit code; an interrupted one did what it was asked.
fn conclude(summary: &Summary) -> Result<(), Failure> {
    if summary.valid || summary.setting.interrupted {
        return Ok(());
    }
    Err(Failure::failed("the run is not valid, see the doubts above: do not use its figures"))
}

/// How a command ends that cannot prepare or run a stack.
pub(crate) fn failure(error: ExperimentError) -> Failure {
    match error {
        ExperimentError::Stack(
            StackError::BudgetBelowFloors { .. }
            | StackError::Cache { .. }
            | StackError::Control { .. },
        ) => Failure::configuration(error),
        _ => Failure::failed(error),
    }
}
