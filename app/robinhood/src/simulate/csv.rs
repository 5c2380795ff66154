//! The course of runs as CSV: one row for each observation of the service level and for each backend in each control period.

use std::io::{self, Write};

use robinhood_simulator::{ControlPoint, LatencyPoint};
use robinhood_stats::BackendName;

use super::Run;

/// Columns, described in `docs/simulate.md`.
const HEADER: &str = "policy,seed,second,backend,p50_ms,p90_ms,p99_ms,tail_ms,hit_ratio,load,miss_p99_ms,cache_share,rbc_share,capacity";

/// Writes the rows of all runs. Names of policies and backends need no quotes: their alphabet has no comma.
pub(super) fn write(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    for run in runs {
        let of_run = format!("{},{}", run.policy, run.seed);
        for point in &run.outcome.series.latency {
            requests(&of_run, point, out)?;
        }
        for point in &run.outcome.series.control {
            for (id, backend) in run.outcome.backends.iter().enumerate() {
                backend_at(&of_run, point, id, &backend.name, out)?;
            }
        }
    }
    out.flush()
}

fn requests(of_run: &str, point: &LatencyPoint, out: &mut dyn Write) -> io::Result<()> {
    let LatencyPoint { at_s, p50_ms, p90_ms, p99_ms, tail_ms } = point;
    writeln!(out, "{of_run},{at_s},,{p50_ms:.3},{p90_ms:.3},{p99_ms:.3},{tail_ms:.3},,,,,,")
}

fn backend_at(
    of_run: &str,
    point: &ControlPoint,
    id: usize,
    name: &BackendName,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "{of_run},{},{name},,,,,", point.at_s)?;
    if let Some(hit_ratio) = point.hit_ratio[id] {
        write!(out, "{hit_ratio:.5}")?;
    }
    write!(out, ",{:.5},", point.load[id])?;
    if let Some(p99_ms) = point.miss_p99_ms[id] {
        write!(out, "{p99_ms:.3}")?;
    }
    writeln!(
        out,
        ",{:.5},{:.5},{:.5}",
        point.cache_share[id], point.rbc_share[id], point.capacity[id]
    )
}
