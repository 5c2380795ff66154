//! The tail over time as one line of blocks for each policy, against the objective.

use robinhood_simulator::LatencyPoint;

use super::Run;

/// Cells of a line.
const CELLS: usize = 60;
/// Cells up to the fourth are within the objective, the others above.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line for each run, or nothing when there is nothing to draw.
pub(super) fn of(runs: &[&Run], percentile: f64) -> String {
    let width = runs.iter().map(|run| run.policy.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    for run in runs {
        let Some(objective) = run.objective else { continue };
        if run.outcome.series.latency.is_empty() {
            continue;
        }
        let line = cells(&run.outcome.series.latency, objective.as_millis_f64());
        if text.is_empty() {
            text.push_str(&format!(
                "P{percentile} over time, the worst of each cell; {} and lower is within the objective of {objective}\n",
                BLOCKS[3]
            ));
        }
        text.push_str(&format!("{:width$}  {line}\n", run.policy.as_str()));
    }
    text
}

/// The highest observation of each cell as a block of so many quarters of the objective, at least one and at most eight.
fn cells(points: &[LatencyPoint], objective_ms: f64) -> String {
    let cells = CELLS.min(points.len());
    let block = |cell: usize| {
        let part = &points[cell * points.len() / cells..(cell + 1) * points.len() / cells];
        let worst_ms = part.iter().map(|point| point.tail_ms).fold(0.0, f64::max);
        let quarters = (worst_ms / objective_ms * 4.0).ceil();
        BLOCKS[quarters.clamp(1.0, BLOCKS.len() as f64) as usize - 1]
    };
    (0..cells).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tails_ms: &[f64]) -> String {
        let point = |(second, &tail_ms)| LatencyPoint {
            at_s: second as f64,
            p50_ms: 1.0,
            p90_ms: 2.0,
            p99_ms: 3.0,
            tail_ms,
        };
        cells(&tails_ms.iter().enumerate().map(point).collect::<Vec<_>>(), 100.0)
    }

    #[test]
    fn half_the_height_is_the_objective_and_a_cell_shows_its_worst() {
        assert_eq!(line(&[0.0, 25.0, 26.0, 100.0, 100.1, 150.0, 175.1, 10_000.0]), "▁▁▂▄▅▆██");
        let mut long = vec![10.0; 6_000];
        long[0] = 120.0;
        long[5_999] = 300.0;
        assert_eq!(line(&long), format!("▅{}█", "▁".repeat(58)));
        assert_eq!(line(&[]), "");
    }
}
