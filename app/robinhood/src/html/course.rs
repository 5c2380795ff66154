//! The course of RBC and of a cache by backend, as two pictures of shares.

use super::captioned;
use crate::svg::{BANDS_MAX, Band, Shares};

/// The most moments of a picture.
const POINTS_MAX: usize = 240;

/// Shares by backend at one moment.
pub(crate) struct Moment<'a> {
    pub(crate) at_s: f64,
    /// From 0 to 1, in the order of the names, as below.
    pub(crate) rbc: &'a [f64],
    pub(crate) cache: &'a [f64],
}

/// What a picture shows of a backend at a moment.
type Share = fn(&Moment<'_>, usize) -> f64;

/// Pictures of one stack or run on a page where all have the same backends.
pub(crate) struct Pictures<'a> {
    /// Names of the backends.
    pub(crate) names: &'a [String],
    /// From [`order`], so that a backend has one colour on the page.
    pub(crate) order: &'a [usize],
    /// Length of the axis.
    pub(crate) seconds: f64,
}

impl Pictures<'_> {
    /// Who blocked the tail, and where the cache was. `id` must be unique on the page.
    pub(crate) fn draw(&self, id: &str, of: &str, moments: &[Moment<'_>]) -> String {
        let who = self.picture(
            &format!("{id}-rbc"),
            &format!("Who makes requests slow: {of}"),
            "Share of the request blocking count by backend; what is missing to 100 % falls on time outside all queries, or is not known yet.",
            moments,
            |moment, backend| moment.rbc[backend],
        );
        who + &self.draw_cache(id, of, moments)
    }

    /// Where the cache was. `id` must be unique on the page.
    pub(crate) fn draw_cache(&self, id: &str, of: &str, moments: &[Moment<'_>]) -> String {
        self.picture(
            &format!("{id}-cache"),
            &format!("Where the cache is: {of}"),
            "Share of the cache by backend: of limits, or of use where all share one cache.",
            moments,
            |moment, backend| moment.cache[backend],
        )
    }

    fn picture(
        &self,
        id: &str,
        title: &str,
        subtitle: &str,
        moments: &[Moment<'_>],
        of: Share,
    ) -> String {
        let moments = thinned(moments);
        let shares = Shares {
            title,
            subtitle,
            seconds: self.seconds,
            at_s: moments.iter().map(|moment| moment.at_s).collect(),
            bands: bands(self.names, self.order, &moments, of),
        };
        captioned(&shares.inline(id), title, subtitle)
    }
}

/// Evenly fewer, the last one kept.
fn thinned<'a>(moments: &'a [Moment<'a>]) -> Vec<&'a Moment<'a>> {
    let every = moments.len().div_ceil(POINTS_MAX).max(1);
    moments.iter().rev().step_by(every).rev().collect()
}

/// Backends by how much they blocked on the whole, most first; of equals by their share of the cache.
pub(crate) fn order<'a>(
    backends: usize,
    moments: impl Iterator<Item = &'a Moment<'a>>,
) -> Vec<usize> {
    let mut weights = vec![(0.0, 0.0); backends];
    for moment in moments {
        for (weight, (rbc, cache)) in weights.iter_mut().zip(moment.rbc.iter().zip(moment.cache)) {
            weight.0 += rbc;
            weight.1 += cache;
        }
    }
    let mut order: Vec<usize> = (0..backends).collect();
    order.sort_by(|&a, &b| {
        let (a, b): ((f64, f64), (f64, f64)) = (weights[a], weights[b]);
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    order
}

/// A band for each of the first backends, and one for the others together.
fn bands(names: &[String], order: &[usize], moments: &[&Moment<'_>], of: Share) -> Vec<Band> {
    // One backend needs no name that stands for several.
    let own = if order.len() <= BANDS_MAX + 1 { order.len() } else { BANDS_MAX };
    let (own, others) = order.split_at(own);
    let mut bands: Vec<Band> = own
        .iter()
        .map(|&backend| Band {
            name: names[backend].clone(),
            shares: moments.iter().map(|moment| of(moment, backend)).collect(),
        })
        .collect();
    if !others.is_empty() {
        let sum = |moment: &&Moment<'_>| others.iter().map(|&backend| of(moment, backend)).sum();
        let name = format!("{} others", others.len());
        bands.push(Band { name, shares: moments.iter().map(sum).collect() });
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_block_most_have_bands_of_their_own_and_the_rest_shares_one() {
        let names: Vec<String> = (0..8).map(|number| format!("b{number}")).collect();
        let rbc: Vec<f64> = (0..8).map(|number| f64::from(number) / 28.0).collect();
        let moment = Moment { at_s: 1.0, rbc: &rbc, cache: &[0.125; 8] };
        let order = order(8, std::iter::once(&moment));
        assert_eq!(order, [7, 6, 5, 4, 3, 2, 1, 0]);
        let bands = bands(&names, &order, &[&moment], |moment, backend| moment.cache[backend]);
        let found: Vec<(&str, f64)> =
            bands.iter().map(|band| (band.name.as_str(), band.shares[0])).collect();
        let own = ["b7", "b6", "b5", "b4", "b3"].map(|name| (name, 0.125));
        assert_eq!(found[..5], own);
        assert_eq!(found[5..], [("3 others", 0.375)]);
    }

    #[test]
    fn a_long_course_is_thinned_and_keeps_its_end() {
        let moment = |second: u32| Moment { at_s: f64::from(second), rbc: &[], cache: &[] };
        let moments: Vec<Moment<'_>> = (0..10_000).map(moment).collect();
        let thin = thinned(&moments);
        assert!(thin.len() <= POINTS_MAX && thin.len() > POINTS_MAX / 2, "{}", thin.len());
        assert_eq!(thin.last().unwrap().at_s, 9_999.0);
        assert_eq!(thinned(&moments[..7]).len(), 7);
    }
}
