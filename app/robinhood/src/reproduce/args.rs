//! The flags of `robinhood reproduce`, and the parts of the evaluation by name.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use robinhood_workload::presets::Scale;

use crate::values::{self, Seeds};

const EXAMPLES: &str = "\
Examples:
  robinhood reproduce --html report.html                 the whole evaluation; the same line again goes on after Ctrl-C
  robinhood reproduce --only fig8,fig9 --seed 1..3       two figures, three seeds
  robinhood reproduce --only table1                      no simulation needed
  robinhood reproduce --time-scale 50 --html look.html   a look at the report in a minute; its figures are not the paper's";

/// Flags of `robinhood reproduce`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// Size of the fleet: application servers and backend servers shrink together
    #[arg(long, default_value = "1/8", value_name = "RATIO")]
    pub(crate) scale: Scale,
    /// One seed, a range with both ends or a list: figures are drawn for the first, checks go by the median
    #[arg(long, default_value = "1", value_name = "SEEDS")]
    pub(crate) seed: Seeds,
    /// Parts of the evaluation, separated by commas [default: all]
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', value_enum)]
    pub(crate) only: Vec<Part>,
    /// Folder for runs that are done, so that an interrupted command goes on where it was
    #[arg(long, value_name = "DIR", default_value = "robinhood-reproduce")]
    pub(crate) state: PathBuf,
    /// Run so many times faster: for a look, as caches then fill too slowly for what happens
    #[arg(long, default_value_t = 1.0, value_name = "X", value_parser = values::reproduction_time_scale)]
    pub(crate) time_scale: f64,
    /// Runs at once; the results do not depend on it [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroU16>,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the figures and checks as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Leave the part out that differs from run to run, so that equal seeds give equal bytes
    #[arg(long)]
    pub(crate) no_timing: bool,
}

/// A part of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// Structure of the workload
    Table1,
    /// The policies
    Table2,
    /// Latencies of the backends with spikes, and hit ratios (also Figure 2)
    #[value(alias = "fig2")]
    Fig7,
    /// Request P99 over time, main experiment
    Fig3,
    /// Which objective would have been missed how often
    Fig8,
    /// Who blocks, at three moments
    Fig9,
    /// Backend 7 gets slower
    Fig10,
    /// Backend 1 gets slower
    Fig11,
    /// Capacities on a random walk
    Fig12,
    /// Where the cache of `robinhood` was
    Fig13,
    /// How much cache fixed limits would need (section 5.5)
    Space,
    /// What other backends pay (section 5.6)
    Load,
}
