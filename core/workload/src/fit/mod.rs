//! A workload that looks like a recorded stream: backends, popularity, sizes, request types.
//!
//! Place in the flow: after a trace was read, when more requests of its kind are wanted than it has, or others. One pass over the stream; memory: 4 bytes for each
//! key, and the sets of backends that requests ask.
//!
//! What is not kept: order in time (popularity that moves, sessions), stages (all batches of a request are sent at once), the dependence of sizes on popularity,
//! and the shape of batch sizes beyond their mean and maximum.

mod popularity;
mod request_types;
mod sizes;

use robinhood_stats::Bytes;

use crate::popularity::Popularity;
use crate::request::{Key, Request, RequestStream};
use crate::spec::Workload;
use crate::trace::{Survey, Surveyor};

pub use popularity::PopularityFit;
use request_types::Sets;

/// Makes a [`Fit`] from requests that are handed to it.
#[derive(Debug, Default)]
pub struct Fitter {
    surveyor: Surveyor,
    /// Queries by key, by backend; saturating.
    counts: Vec<Vec<u32>>,
    sets: Sets,
}

/// A workload that was fitted to a stream.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The workload.
    pub workload: Workload,
    /// The figures of the stream.
    pub survey: Survey,
    /// How well popularity is described, in the order of the backends; `None` of a backend that was not queried.
    pub popularity: Vec<Option<PopularityFit>>,
    /// Requests whose set of backends was too seldom for a type of its own: they count for the type that is most alike.
    pub requests_merged: u64,
}

impl Fitter {
    /// A fitter that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a request of the stream.
    pub fn add<S: RequestStream>(&mut self, request: &Request, stream: &S) {
        self.surveyor.add(request, stream);
        for batch in request.stages().flatten() {
            let place = batch.backend.index();
            if self.counts.len() <= place {
                self.counts.resize_with(place + 1, Vec::new);
            }
            let counts = &mut self.counts[place];
            for key in request.keys(batch) {
                let key = key.0 as usize;
                if counts.len() <= key {
                    counts.resize(key + 1, 0);
                }
                counts[key] = counts[key].saturating_add(1);
            }
        }
        self.sets.add(request);
    }

    /// The workload of what was seen. `described` says who serves it, as for [`Workload::recorded`].
    pub fn finish<S: RequestStream>(self, name: &str, stream: &S, described: &Workload) -> Fit {
        let survey = self.surveyor.finish(stream);
        let mut workload = Workload::recorded(name, &survey, described);
        let mut fits = Vec::new();
        for (place, backend) in workload.backends.iter_mut().enumerate() {
            let counts = self.counts.get(place).map_or(&[][..], Vec::as_slice);
            let fit = popularity::fit(counts);
            if let Some(fit) = &fit {
                backend.catalogue = fit.catalogue;
                backend.popularity = fit.popularity.clone();
                let queried = (0..).zip(counts).filter(|(_, count)| **count > 0);
                let id = robinhood_stats::BackendId(place as u16);
                let sizes = queried.map(|(key, _)| stream.value_bytes(id, Key(key))).collect();
                backend.sizes = sizes::fit(sizes);
            }
            fits.push(fit);
        }
        let types = self.sets.request_types();
        workload.batch_queries_max = types.batch_queries_max;
        if !types.types.is_empty() {
            workload.request_types = types.types;
        }
        Fit { workload, survey, popularity: fits, requests_merged: types.requests_merged }
    }
}

impl Fit {
    /// Bytes of all objects that the stream asked for, of all backends together.
    pub fn objects_bytes(&self) -> Bytes {
        self.survey.backends.iter().map(|backend| backend.distinct_bytes).sum()
    }
}

impl PopularityFit {
    /// For people: `zipf 0.9`, or how many buckets.
    pub fn text(&self) -> String {
        match &self.popularity {
            Popularity::Zipf { exponent } => format!("zipf {exponent:.2}"),
            Popularity::Buckets(buckets) => format!("{} buckets", buckets.buckets().len()),
        }
    }
}

#[cfg(test)]
mod tests;
