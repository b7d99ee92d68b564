//! How a request's demand follows from the size of what it brings along.
//!
//! A request costs a fixed part, which the platform takes to receive and answer it, and a part that grows with a power
//! of its input's size: bytes of a file linearly, pixels of a picture with the square of its side, a product of
//! matrices with the cube of their dimension. Sizes vary between requests, and so does the work.

use meanfield_common::resources::Bytes;
use serde::Deserialize;

use crate::workload::{Distribution, Workload};

/// CPU milliseconds to receive and answer a request, whatever its size.
pub const HANDLING_MS: f64 = 1.0;

/// What requests bring along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// Files or objects, by their bytes.
    File,
    /// A table, by its items.
    Table,
    /// Floating-point arithmetic, by its operations.
    Operations,
    /// A square picture, by its side.
    Image,
    /// Text, by its bytes.
    Text,
    /// Square matrices that are multiplied, by their dimension.
    Matrix,
}

/// With which power of its size an input costs each resource.
struct Powers {
    cpu: i32,
    /// Disk and network: what has to be moved from or to elsewhere.
    moved: i32,
    /// Memory, and traffic on the memory bus.
    memory: i32,
}

impl Input {
    fn powers(self) -> Powers {
        match self {
            // Each byte and each item is read, looked at and held once.
            Self::File | Self::Text | Self::Table => Powers { cpu: 1, moved: 1, memory: 1 },
            // Arithmetic on a few numbers: more of it needs more time and nothing else.
            Self::Operations => Powers { cpu: 1, moved: 0, memory: 0 },
            // Side squared is pixels.
            Self::Image => Powers { cpu: 2, moved: 2, memory: 2 },
            // n^3 multiplications of n^2 numbers.
            Self::Matrix => Powers { cpu: 3, moved: 2, memory: 2 },
        }
    }
}

/// Sizes of inputs, each as likely as the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes<'a>(pub &'a [f64]);

impl Sizes<'_> {
    fn moment(self, power: i32) -> f64 {
        self.0.iter().map(|size| size.powi(power)).sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Squared coefficient of variation of work that grows with a power of the size.
    fn variability(self, power: i32) -> f64 {
        let mean = self.moment(power);
        (self.moment(2 * power) / (mean * mean) - 1.0).max(0.0)
    }
}

impl Workload {
    /// The same program with as many requests, but inputs of other sizes; itself, when they bring nothing along.
    #[must_use]
    pub fn resized(&self, from: Sizes<'_>, to: Sizes<'_>) -> Self {
        let Some(input) = self.input else { return self.clone() };
        let powers = input.powers();
        let times = |power: i32| to.moment(power) / from.moment(power);
        let handling = self.cpu_ms.min(HANDLING_MS);
        let cpu_ms = handling + (self.cpu_ms - handling) * times(powers.cpu);
        Self {
            cpu_ms,
            demand: self.demand * cpu_ms / self.cpu_ms,
            distribution: self.distribution.remixed(from.variability(powers.cpu), to.variability(powers.cpu)),
            io_mb: self.io_mb * times(powers.moved),
            network_mb: self.network_mb * times(powers.moved),
            traffic_mb: self.traffic_mb * times(powers.memory),
            memory_request: Bytes((self.memory_request.0 as f64 * times(powers.memory)).ceil() as u64),
            ..self.clone()
        }
    }
}

impl Distribution {
    /// Work is a product of its size and of how hard it is, independent of each other; only the sizes change. Both
    /// arguments are squared coefficients of variation.
    fn remixed(self, from: f64, to: f64) -> Self {
        let Self::Lognormal { variation } = self else { return self };
        let inherent = (1.0 + variation * variation) / (1.0 + from);
        Self::Lognormal { variation: (inherent * (1.0 + to) - 1.0).max(0.0).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::named;

    #[test]
    fn matrices_cost_the_cube_in_time_and_the_square_in_memory() {
        let small = named("model-serving").unwrap();
        let large = small.resized(Sizes(&[50.0]), Sizes(&[150.0]));
        assert!(((large.cpu_ms - HANDLING_MS) / (small.cpu_ms - HANDLING_MS) - 27.0).abs() < 1e-9);
        assert!((large.traffic_mb / small.traffic_mb - 9.0).abs() < 1e-9);
        assert_eq!(large.memory_request.0, 9 * small.memory_request.0);
        assert!((large.mean_rate() / small.mean_rate() - 1.0).abs() < 1e-12);
        assert_eq!((large.memory_idle, large.slots), (small.memory_idle, small.slots));
    }

    #[test]
    fn a_narrower_mix_of_sizes_varies_less_and_the_same_mix_changes_nothing() {
        let text = named("text-processing").unwrap();
        let mixed = Sizes(&[250.0, 500.0, 1000.0]);
        let same = text.resized(mixed, mixed);
        assert!((same.distribution.variation() - text.distribution.variation()).abs() < 1e-12);
        let narrow = text.resized(mixed, Sizes(&[500.0]));
        assert!(narrow.distribution.variation() < text.distribution.variation());
        let web = named("web-serving").unwrap();
        assert_eq!(web.resized(mixed, Sizes(&[1e9])), *web, "it brings nothing along");
    }
}
