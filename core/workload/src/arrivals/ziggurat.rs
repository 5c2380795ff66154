//! Exponential and generalised Pareto numbers without a logarithm for each.
//!
//! Place in the flow: under the random gaps between requests, where a draw must cost less than what it times.
//!
//! Method: the ziggurat (Marsaglia and Tsang, Journal of Statistical Software 5(8), 2000). The area under the density is covered by layers of equal area; a random
//! place in a random layer is almost always under the density, which one comparison shows. Deviations: the density is the generalised Pareto one, of
//! which the exponential is a case; what lies beyond the lowest layer is generalised Pareto again and is drawn by its inverse; the width of
//! the lowest layer is found by bisection, as it depends on the shape.

use crate::draws::Sequence;

const LAYERS: usize = 256;

/// Draws numbers with mean 1.
#[derive(Clone, Debug)]
pub(super) struct Ziggurat {
    law: Pareto,
    /// Right ends of the layers from the lowest, widest one to the top, where it is zero. The lowest is as wide as if what lies beyond the second were in it.
    ends: Box<[f64; LAYERS + 1]>,
    /// The density at each end; the lowest layer begins at zero.
    heights: Box<[f64; LAYERS + 1]>,
}

/// The generalised Pareto distribution with mean 1.
#[derive(Clone, Copy, Debug)]
struct Pareto {
    shape: f64,
    scale: f64,
}

impl Pareto {
    fn is_exponential(self) -> bool {
        self.shape < 1e-12
    }

    fn density(self, x: f64) -> f64 {
        if self.is_exponential() {
            return libm::exp(-x);
        }
        let power = -1.0 / self.shape - 1.0;
        libm::exp(power * libm::log1p(self.shape * x / self.scale)) / self.scale
    }

    /// The number with this density.
    fn with_density(self, density: f64) -> f64 {
        if self.is_exponential() {
            return -libm::log(density);
        }
        let power = -self.shape / (1.0 + self.shape);
        libm::expm1(power * libm::log(density * self.scale)) * self.scale / self.shape
    }

    /// The number that is exceeded with the probability `e^-exponential`, beyond `start` for those that exceed it.
    fn beyond(self, start: f64, exponential: f64) -> f64 {
        if self.is_exponential() {
            return start + exponential;
        }
        let scale = self.scale + self.shape * start;
        start + scale * libm::expm1(self.shape * exponential) / self.shape
    }
}

impl Ziggurat {
    /// Numbers with this shape, from 0 to below 1.
    pub(super) fn new(shape: f64) -> Self {
        let law = Pareto { shape, scale: 1.0 - shape };
        // The logarithm of the probability of what lies beyond the second layer: about a 256th, less what is in the lowest layer beside it.
        let (mut few, mut many) = (-10.0, -3.0);
        for _ in 0..64 {
            let middle = (few + many) / 2.0;
            match Self::stacked(law, middle) {
                Some(_) => few = middle,
                None => many = middle,
            }
        }
        Self::stacked(law, few).expect("thin layers fit under the top")
    }

    /// The layers when what lies beyond the second one has this probability; `None` when they are too large to fit under the density's top.
    fn stacked(law: Pareto, log_probability: f64) -> Option<Self> {
        let (mut ends, mut heights) = (Box::new([0.0; LAYERS + 1]), Box::new([0.0; LAYERS + 1]));
        let top = law.density(0.0);
        ends[1] = law.beyond(0.0, -log_probability);
        heights[1] = law.density(ends[1]);
        let area = ends[1] * heights[1] + libm::exp(log_probability);
        ends[0] = area / heights[1];
        for layer in 1..LAYERS - 1 {
            heights[layer + 1] = heights[layer] + area / ends[layer];
            if heights[layer + 1] >= top {
                return None;
            }
            ends[layer + 1] = law.with_density(heights[layer + 1]);
        }
        heights[LAYERS] = top;
        // The last layer is what is left below the top: never more than the others, and when the widths are right, as much.
        let left = (top - heights[LAYERS - 1]) * ends[LAYERS - 1];
        (left >= area * (1.0 - 1e-12)).then_some(Self { law, ends, heights })
    }

    /// The next number; `drawn` counts the random numbers that have been used of `draws`, mostly one for each.
    #[inline]
    pub(super) fn draw(&self, draws: &Sequence, drawn: &mut u64) -> f64 {
        loop {
            let bits = draws.bits(*drawn);
            *drawn += 1;
            let layer = bits as usize % LAYERS;
            let x = (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0) * self.ends[layer];
            if x < self.ends[layer + 1] {
                return x;
            }
            if let Some(x) = self.draw_beside(layer, x, draws, drawn) {
                return x;
            }
        }
    }

    /// For places that are not below the next layer: one to five in a hundred.
    #[cold]
    fn draw_beside(&self, layer: usize, x: f64, draws: &Sequence, drawn: &mut u64) -> Option<f64> {
        let index = *drawn;
        *drawn += 1;
        if layer == 0 {
            return Some(self.law.beyond(self.ends[1], draws.exponential(index, 1.0)));
        }
        let (low, high) = (self.heights[layer], self.heights[layer + 1]);
        (low + draws.unit(index) * (high - low) < self.law.density(x)).then_some(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::{Draws, Purpose};

    const SHAPES: [f64; 8] = [0.0, 1e-14, 1e-9, 0.154971, 0.4, 0.6, 0.9, 0.999];

    #[test]
    fn all_layers_have_the_same_area_and_cover_the_density() {
        for shape in SHAPES {
            let Ziggurat { law, ends, heights } = Ziggurat::new(shape);
            let area = ends[0] * heights[1];
            for layer in 1..LAYERS {
                let found = (heights[layer + 1] - heights[layer]) * ends[layer];
                assert!((found / area - 1.0).abs() < 1e-6, "{shape}, {layer}: {found} for {area}");
                assert!(ends[layer] < ends[layer - 1]);
                let height = law.density(ends[layer]);
                assert!((height / heights[layer] - 1.0).abs() < 1e-9, "{shape}, {layer}");
            }
            assert_eq!((ends[LAYERS], heights[LAYERS]), (0.0, law.density(0.0)));
        }
    }

    #[test]
    fn numbers_have_their_distribution_into_the_tail() {
        const COUNT: usize = 1_000_000;
        for shape in SHAPES {
            let ziggurat = Ziggurat::new(shape);
            let draws = Draws::new(1).of_request(Purpose::ClientArrival, 0);
            let mut drawn = 0;
            let mut sample: Vec<f64> =
                (0..COUNT).map(|_| ziggurat.draw(&draws, &mut drawn)).collect();
            sample.sort_by(f64::total_cmp);
            for above in
                [0.999, 0.9, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01, 0.004, 0.002, 1e-3, 1e-4, 1e-5]
            {
                let end = ziggurat.law.beyond(0.0, -libm::log(above));
                let found = (COUNT - sample.partition_point(|&x| x <= end)) as f64;
                let expected = above * COUNT as f64;
                let error = (expected * (1.0 - above)).sqrt();
                assert!(
                    (found - expected).abs() < 5.0 * error,
                    "shape {shape}: {found} above {end} instead of {expected}"
                );
            }
            assert!((drawn as f64) < 1.1 * COUNT as f64, "{drawn} random numbers");
        }
    }
}
