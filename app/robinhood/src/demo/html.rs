//! A demo as one HTML file: the figures of the table, the P99, and the course of blocking and of the caches.

use robinhood_dashboard::{Phase, Stack, State};
use robinhood_testbed::{Experiment, Summary};

use super::report;
use crate::failure::Failure;
use crate::html::course::{Moment, Pictures, order};
use crate::html::{Page, figure, pair};
use crate::svg::escape;

/// Moments that are kept; of more, every second goes.
const MOMENTS_MAX: usize = 2_000;

/// What the pictures need of the run, taken while it lasts.
#[derive(Default)]
pub(crate) struct Course {
    names: Vec<String>,
    moments: Vec<Sample>,
    /// Moments that were offered since the last one that was kept, and how many are left out between two.
    skipped: usize,
    left_out: usize,
}

struct Sample {
    at_s: f64,
    /// RBC and cache by backend, stack by stack.
    stacks: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Course {
    /// Takes a moment of a running demo.
    pub(crate) fn handle_state(&mut self, state: &State) {
        let Some(first) = state.stacks.first().filter(|_| state.phase == Phase::Running) else {
            return;
        };
        if self.skipped < self.left_out {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        if self.moments.len() == MOMENTS_MAX {
            let mut place = 0;
            self.moments.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.left_out = self.left_out * 2 + 1;
        }
        self.names = first.backends.iter().map(|backend| backend.name.clone()).collect();
        let shares = |stack: &Stack| {
            let backends = stack.backends.iter();
            (
                backends.clone().map(|backend| backend.rbc_share).collect(),
                backends.map(|backend| backend.cache_share).collect(),
            )
        };
        let stacks = state.stacks.iter().map(shares).collect();
        self.moments.push(Sample { at_s: state.elapsed_s, stacks });
    }

    /// The course of one stack.
    fn of(&self, stack: usize) -> Vec<Moment<'_>> {
        let moments = self.moments.iter().filter_map(|sample| {
            let (rbc, cache) = sample.stacks.get(stack)?;
            Some(Moment { at_s: sample.at_s, rbc, cache })
        });
        moments.collect()
    }
}

/// The page of a run of the stacks `first` and `second`, in the order of the course; `notes` is what is said below the table.
pub(crate) fn page(
    summary: &Summary,
    experiment: &Experiment,
    course: &Course,
    (first, second): (&str, &str),
    notes: &str,
) -> Result<String, Failure> {
    let stacks = [first, second].map(|name| (name, &summary.stacks[name]));
    let setting = &summary.setting;
    let chart = report::chart(summary, experiment, first, second);
    let comparison = report::comparison(&stacks).html("The same live requests");
    let backends = report::backends(&stacks).html("At the end of the run");
    let sections = [
        verdict(summary),
        section("Comparison", &comparison),
        section("The tail over time", &figure("tail", &chart)),
        section("Backends", &backends),
        section(
            "Why: who blocked, and what the cache did",
            &courses(course, summary, [second, first]),
        ),
        decisions(summary, second),
        section("What was run", &(asked(summary) + &lines(notes))),
    ];
    let page = Page {
        title: &format!("Demo: {first} and {second}"),
        subtitle: &format!(
            "{} for {:.0} s on the same live requests, seed {}, time scale {}, {} of cache each.",
            setting.workload, setting.seconds, setting.seed, setting.time_scale, setting.budget
        ),
        sections: sections.concat(),
        json_id: "robinhood-demo",
    };
    page.render(&report::Document::new(summary))
}

fn section(title: &str, content: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n{content}</section>\n")
}

fn lines(text: &str) -> String {
    text.lines().map(|line| format!("<p>{}</p>\n", escape(line))).collect()
}

fn verdict(summary: &Summary) -> String {
    let (class, headline) = match summary.valid {
        true => ("valid", "VALID: nothing forbids to use these figures"),
        false => ("invalid", "INVALID: do not use these figures"),
    };
    let doubts =
        summary.doubts.iter().map(|doubt| format!("<li>{}</li>\n", escape(&doubt.to_string())));
    let doubts: String = doubts.collect();
    let interrupted =
        if summary.setting.interrupted { "<p>The run was interrupted.</p>\n" } else { "" };
    let list = if doubts.is_empty() { doubts } else { format!("<ul>\n{doubts}</ul>\n") };
    format!(
        "<section class=\"verdict {class}\" aria-label=\"Verdict\">\n<strong>{headline}</strong>\n{interrupted}{list}</section>\n"
    )
}

/// Of the stack with a controller, then of the reference, which stands first in the course.
fn courses(course: &Course, summary: &Summary, names: [&str; 2]) -> String {
    let moments = [course.of(1), course.of(0)];
    let order = order(course.names.len(), moments.iter().flatten());
    let pictures =
        Pictures { names: &course.names, order: &order, seconds: summary.setting.seconds };
    let draw = |((number, name), moments): ((usize, &str), &Vec<Moment<'_>>)| {
        pictures.draw(&format!("course-{number}"), name, moments)
    };
    (0..).zip(names).zip(&moments).map(draw).collect()
}

/// The newest decisions, newest first.
fn decisions(summary: &Summary, stack: &str) -> String {
    let lines = summary.stacks[stack].decisions.iter().rev();
    let lines: String = lines.map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    match lines.is_empty() {
        true => String::new(),
        false => section("Decisions, the newest first", &format!("<ol>\n{lines}</ol>\n")),
    }
}

fn asked(summary: &Summary) -> String {
    let (setting, generator) = (&summary.setting, &summary.generator);
    let objective = summary.objective_ms.map_or("none: the run was too short".to_owned(), |ms| {
        format!(
            "{ms:.1} ms, 1.5 times the median P99 of {} in the calm first third",
            summary.reference
        )
    });
    let late = generator.lateness_us.p99.map_or("-".to_owned(), |us| format!("{us:.0} us"));
    let pairs = [
        ("objective", objective),
        ("workload", setting.workload.clone()),
        ("seed", setting.seed.to_string()),
        ("requests due", generator.scheduled.to_string()),
        ("requests sent", format!("{}, late by {late} at P99", generator.sent)),
        ("processors", format!("{:.0} % used by the demo", summary.machine.cpu_share * 100.0)),
    ];
    let pairs: String = pairs.iter().map(|(name, value)| pair(name, value)).collect();
    format!("<dl>\n{pairs}</dl>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_dashboard::Backend;

    #[test]
    fn a_course_keeps_the_whole_of_a_long_run_in_bounded_memory() {
        let mut course = Course::default();
        let backend = Backend { name: "ads".to_owned(), rbc_share: 0.5, ..Backend::default() };
        let stack = Stack { backends: vec![backend], ..Stack::default() };
        let mut state =
            State { phase: Phase::Running, stacks: vec![stack.clone(), stack], ..State::default() };
        for quarter in 0..100_000 {
            state.elapsed_s = f64::from(quarter) / 4.0;
            course.handle_state(&state);
        }
        let moments = course.of(1);
        assert!((MOMENTS_MAX / 2..=MOMENTS_MAX).contains(&moments.len()), "{}", moments.len());
        assert!(moments[0].at_s == 0.0 && moments.last().unwrap().at_s > 24_900.0);
        let gaps = moments.windows(2).map(|pair| pair[1].at_s - pair[0].at_s);
        let (least, most) = gaps.fold((f64::MAX, 0.0_f64), |(a, b), gap| (a.min(gap), b.max(gap)));
        assert!(most <= 2.0 * least, "evenly: {least} to {most}");
        state.phase = Phase::Draining;
        let known = course.moments.len();
        course.handle_state(&state);
        assert_eq!(course.moments.len(), known, "only while requests come");
    }
}
