//! `robinhood workload fit`: from a trace to a workload file, and how like the trace its requests are.

use std::path::{Path, PathBuf};

use clap::Args;
use robinhood_cache::{StackConfig, StackDistances};
use robinhood_stats::{Bytes, Histogram};
use robinhood_workload::presets::Scale;
use robinhood_workload::{
    Fit, Fitter, Generator, Request, RequestStream, Survey, Surveyor, TraceOptions, TraceReader,
    file,
};

use super::trace_file::{Input, Progress};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

const EXAMPLES: &str = "\
Examples:
  robinhood workload fit requests.jsonl --output fitted.toml
  robinhood workload fit requests.rht --workload shop.toml --output fitted.toml
  robinhood simulate --workload fitted.toml --policy all";

/// Cache sizes at which hit ratios are compared, in percent of the bytes of the objects that a backend was asked for in the stream.
const SIZES_PERCENT: [u64; 8] = [2, 5, 10, 20, 40, 60, 80, 100];
/// With fewer objects of a backend, all count alike.
const FEW_OBJECTS: u64 = 1_000;
/// What each then counts: a multiple of the points, for whole percents.
const ALIKE_BYTES: u32 = 1_000;
/// Points of a curve, of which these are some.
const POINTS: usize = 100;
/// Keys that a curve holds at most; of more a sample.
const SAMPLES_MAX: usize = 1 << 20;
/// Short traces are compared with the mean of several streams, so that chance does not decide.
const SHORT_QUERIES: u64 = 200_000;
const STREAMS_OF_SHORT: u64 = 16;

/// Flags of `robinhood workload fit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FitArgs {
    /// The trace: a regular file, in JSON lines or binary
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The workload file to write
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Who serves the requests: a preset or a workload file, whose backends keep their service times where the names are the same
    #[arg(long, default_value = "onerf", value_name = "NAME|FILE")]
    workload: String,
    /// Size of the fleet of a preset [default: 1/8]
    #[arg(long, value_name = "RATIO")]
    scale: Option<Scale>,
    /// Count malformed lines, or damaged blocks, of the trace and go on
    #[arg(long)]
    skip_bad: bool,
}

/// Runs the command.
pub(super) fn run(args: &FitArgs) -> Result<(), Failure> {
    output::check_writable(&args.output)?;
    if args.trace.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(Failure::usage(format!(
            "{} is not a regular file: it is read twice",
            args.trace.display()
        )));
    }
    let described = super::load_workload(&args.workload, args.scale)?.workload;
    let name = args.trace.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut fitter = Fitter::new();
    let stream = pass(&args.trace, args.skip_bad, |request, stream| fitter.add(request, stream))?;
    let fit = fitter.finish(&name, &stream, &described);
    if fit.survey.queries == 0 {
        let trace = args.trace.display();
        return Err(Failure::failed(format!("{trace} has no query: there is nothing to fit")));
    }
    fit.workload.validate().map_err(Failure::failed)?;
    let mut curves = Curves::new(&fit, &fit.survey);
    pass(&args.trace, args.skip_bad, |request, stream| curves.add(request, stream))?;
    let own = curves.hit_ratios();
    let again = Again::generate(&fit)?;
    output::write_text(&args.output, &file::write(&fit.workload))?;
    output::say(&format!(
        "{}\n{}{}{}\nwritten: {}\n",
        backends(&fit).render(),
        comparison(&fit, &own, &again).render(),
        fanout(&fit, &again),
        verdict(&fit, &own, &again),
        args.output.display()
    ));
    Ok(())
}

/// A trace as a stream.
type Stream = TraceReader<std::io::BufReader<super::trace_file::MeteredFile>>;

/// Shows every request of the trace, and gives the stream at its end.
fn pass(
    path: &Path,
    skip_bad: bool,
    mut show: impl FnMut(&Request, &Stream),
) -> Result<Stream, Failure> {
    let input = Input::open(path)?;
    let options = TraceOptions { skip_bad, ..TraceOptions::default() };
    let mut stream = TraceReader::new(input.reader, &path.display().to_string(), options);
    let mut progress = Progress::new()?;
    let mut request = Request::new();
    while stream.next_into(&mut request).map_err(Failure::failed)? {
        show(&request, &stream);
        if !progress.goes_on(|| input.meter.share()) {
            return Err(Failure::failed("interrupted before the result"));
        }
    }
    Ok(stream)
}

/// Hit ratios of an LRU cache for each backend alone, at shares of the bytes that its objects have in the stream. Where these are few, all count alike: a
/// fitted workload draws other sizes from the same list, and the size of a single object would decide.
struct Curves {
    curves: Vec<StackDistances>,
    /// Whether all objects count alike.
    alike: Vec<bool>,
}

impl Curves {
    /// `survey` is that of the stream, `fit` says which backends have few objects.
    fn new(fit: &Fit, survey: &Survey) -> Self {
        let alike: Vec<bool> =
            fit.survey.backends.iter().map(|seen| seen.distinct_keys < FEW_OBJECTS).collect();
        let curve = |(backend, alike): (&robinhood_workload::BackendSurvey, &bool)| {
            let objects_bytes = match alike {
                true => backend.distinct_keys * u64::from(ALIKE_BYTES),
                false => backend.distinct_bytes.0,
            };
            StackDistances::new(StackConfig {
                // A multiple of the points, so that they lie at whole percents.
                reach: Bytes(objects_bytes.max(1).next_multiple_of(POINTS as u64)),
                points: POINTS,
                sampling_shift: 0,
                samples_max: SAMPLES_MAX,
            })
        };
        let curves = survey.backends.iter().zip(&alike).map(curve).collect();
        Self { curves, alike }
    }

    fn add<S: RequestStream>(&mut self, request: &Request, stream: &S) {
        for batch in request.stages().flatten() {
            let place = batch.backend.index();
            let (curve, alike) = (&mut self.curves[place], self.alike[place]);
            for (key, _) in
                request.keys(batch).iter().zip(request.cacheable(batch)).filter(|(_, may)| **may)
            {
                curve.handle_query(u64::from(key.0), || {
                    if alike { ALIKE_BYTES } else { stream.value_bytes(batch.backend, *key) }
                });
            }
        }
    }

    /// By backend, at each of the sizes; empty of one without queries that may be cached.
    fn hit_ratios(mut self) -> Vec<Vec<f64>> {
        let of = |curve: &mut StackDistances| {
            let points = curve.take_counts().points();
            let at = |percent: u64| points.get(percent as usize).map(|point| 1.0 - point.1);
            SIZES_PERCENT.into_iter().filter_map(at).collect()
        };
        self.curves.iter_mut().map(of).collect()
    }
}

/// What requests of the fitted workload look like.
struct Again {
    /// As of [`Curves::hit_ratios`], means over the streams.
    hit_ratios: Vec<Vec<f64>>,
    fanout: Histogram,
    batch_queries_mean: Vec<f64>,
    request_share: Vec<f64>,
}

impl Again {
    /// As many requests as the trace has, of a short one several times as many.
    fn generate(fit: &Fit) -> Result<Self, Failure> {
        let streams = if fit.survey.queries < SHORT_QUERIES { STREAMS_OF_SHORT } else { 1 };
        let mut sums: Vec<Vec<f64>> = Vec::new();
        let mut survey = None;
        for seed in 1..=streams {
            let mut surveyor = Surveyor::new();
            let stream = Named::generate(fit, seed, |request, stream| {
                surveyor.add(request, stream);
            })?;
            let seen = surveyor.finish(&stream);
            let mut curves = Curves::new(fit, &seen);
            Named::generate(fit, seed, |request, stream| curves.add(request, stream))?;
            let ratios = curves.hit_ratios();
            if sums.is_empty() {
                sums = ratios;
            } else {
                let both = sums.iter_mut().flatten().zip(ratios.iter().flatten());
                both.for_each(|(sum, ratio)| *sum += ratio);
            }
            survey = survey.or(Some(seen));
        }
        let survey = survey.expect("at least one stream");
        sums.iter_mut().flatten().for_each(|sum| *sum /= streams as f64);
        let share = |backend: &robinhood_workload::BackendSurvey| {
            backend.requests as f64 / survey.requests as f64
        };
        Ok(Self {
            hit_ratios: sums,
            batch_queries_mean: survey.backends.iter().map(|b| b.batch_queries_mean()).collect(),
            request_share: survey.backends.iter().map(share).collect(),
            fanout: survey.fanout,
        })
    }
}

/// A generator with the names that a survey asks for.
struct Named {
    generator: Generator,
    names: Vec<robinhood_stats::BackendName>,
}

impl Named {
    /// Shows as many requests as the trace has, and gives the stream at its end.
    fn generate(
        fit: &Fit,
        seed: u64,
        mut show: impl FnMut(&Request, &Self),
    ) -> Result<Self, Failure> {
        let generator = Generator::new(&fit.workload, seed).map_err(Failure::failed)?;
        let mut stream = Self { generator, names: fit.workload.names().cloned().collect() };
        let mut request = Request::new();
        for _ in 0..fit.survey.requests {
            stream.generator.generate(&mut request);
            show(&request, &stream);
        }
        Ok(stream)
    }
}

impl RequestStream for Named {
    fn next_into(&mut self, request: &mut Request) -> Result<bool, robinhood_workload::TraceError> {
        self.generator.generate(request);
        Ok(true)
    }

    fn backends(&self) -> &[robinhood_stats::BackendName] {
        &self.names
    }

    fn value_bytes(
        &self,
        backend: robinhood_stats::BackendId,
        key: robinhood_workload::Key,
    ) -> u32 {
        self.generator.value_bytes(backend, key)
    }
}

/// What was fitted, backend by backend.
fn backends(fit: &Fit) -> Table {
    let headings = ["backend", "queries", "keys seen", "catalogue", "popularity", "sizes", "of"];
    let mut table = Table::new(headings);
    let rows = fit.survey.backends.iter().zip(&fit.workload.backends).zip(&fit.popularity);
    for ((seen, backend), popularity) in rows {
        let sizes = match &backend.sizes {
            robinhood_workload::SizeSpec::LogNormal { .. } => "log-normal",
            robinhood_workload::SizeSpec::Fixed(_) => "one",
            robinhood_workload::SizeSpec::Discrete(_) => "list",
        };
        table.row([
            seen.name.to_string(),
            seen.queries.to_string(),
            seen.distinct_keys.to_string(),
            backend.catalogue.to_string(),
            popularity.as_ref().map_or("-".to_owned(), robinhood_workload::PopularityFit::text),
            sizes.to_owned(),
            Bytes(backend.sizes.mean_bytes() as u64).to_string(),
        ]);
    }
    table
}

/// Trace and fitted workload side by side: batches, chance to be asked, hit ratios.
fn comparison(fit: &Fit, own: &[Vec<f64>], again: &Again) -> Table {
    let sizes = SIZES_PERCENT.map(|percent| format!("{percent} %"));
    let headings = ["backend", "asked by", "mean batch"].map(str::to_owned);
    let mut table = Table::new(headings.into_iter().chain(sizes));
    for (place, backend) in fit.survey.backends.iter().enumerate() {
        let share = backend.requests as f64 / fit.survey.requests as f64;
        let asked = format!("{:.1} {:.1} %", share * 100.0, again.request_share[place] * 100.0);
        let batch =
            format!("{:.2} {:.2}", backend.batch_queries_mean(), again.batch_queries_mean[place]);
        let hits = (0..SIZES_PERCENT.len()).map(|size| {
            let at = |ratios: &[Vec<f64>]| ratios[place].get(size).copied();
            match (at(own), at(&again.hit_ratios)) {
                (Some(a), Some(b)) => format!("{:.1} {:.1}", a * 100.0, b * 100.0),
                _ => "-".to_owned(),
            }
        });
        table.row([backend.name.to_string(), asked, batch].into_iter().chain(hits));
    }
    table
}

fn fanout(fit: &Fit, again: &Again) -> String {
    let line = |of: &Histogram| {
        let at = |quantile| of.quantile(quantile).unwrap_or(0);
        format!(
            "mean {:.2}, P50 {}, P90 {}, P99 {}",
            of.mean().unwrap_or(0.0),
            at(0.5),
            at(0.9),
            at(0.99)
        )
    };
    format!(
        "first the trace, then the fitted workload; hit ratios in percent, of an LRU cache for the backend alone with so much of the bytes of its objects (of backends with fewer than {FEW_OBJECTS} objects: of their number)\n\
         fanout of the trace: {}\nfanout, fitted: {}\n",
        line(&fit.survey.fanout),
        line(&again.fanout)
    )
}

/// The largest difference of the hit ratios, of backends with enough queries to tell.
fn verdict(fit: &Fit, own: &[Vec<f64>], again: &Again) -> String {
    /// Fewer say a hit ratio to two points at best.
    const QUERIES_MIN: u64 = 2_000;
    let mut worst: Option<(f64, usize, u64)> = None;
    for (place, backend) in fit.survey.backends.iter().enumerate() {
        let pairs = own[place].iter().zip(&again.hit_ratios[place]).zip(SIZES_PERCENT);
        for ((a, b), percent) in pairs.filter(|_| backend.queries >= QUERIES_MIN) {
            let points = (a - b).abs() * 100.0;
            if worst.is_none_or(|(most, ..)| points > most) {
                worst = Some((points, place, percent));
            }
        }
    }
    let merged = match fit.requests_merged {
        0 => String::new(),
        some => format!(
            "{some} requests asked sets of backends that are too seldom for a type of their own, and count for the type most alike\n"
        ),
    };
    match worst {
        Some((points, place, percent)) => format!(
            "hit ratios of backends with at least {QUERIES_MIN} queries differ by at most {points:.1} points ({} at {percent} %)\n{merged}",
            fit.survey.backends[place].name
        ),
        None => {
            format!("no backend has {QUERIES_MIN} queries: too few to compare hit ratios\n{merged}")
        }
    }
}
