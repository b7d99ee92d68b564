//! Waiting times and latency percentiles in closed form.
//!
//! A pod with c cores serves requests of one thread each: c < 1 is one slow server, c >= 1 is c servers of full
//! speed. Waiting follows M/G/k in Sakasegawa's approximation, which is exact for M/M/1 and also defined for
//! fractional k. A percentile of the sum of waiting and service adds their deviations in quadrature, within 8 % of
//! the exact M/M/1 answer over the whole load range (see the tests).

/// Above this utilisation the stationary formulas say nothing about a step of seconds; the backlog takes over.
pub const HIGHEST_UTILISATION: f64 = 0.97;

/// The z-scores of the two percentiles that are reported.
const Z: [f64; 2] = [0.0, 2.326_347_874_040_841];
/// The shares of requests above the two percentiles.
const ABOVE: [f64; 2] = [0.5, 0.01];

/// A service-time distribution: lognormal with a given coefficient of variation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Squared coefficient of variation.
    variability: f64,
    /// The two percentiles over the mean.
    factors: [f64; 2],
}

impl Service {
    /// A distribution whose standard deviation is `variation` times its mean.
    #[must_use]
    pub fn new(variation: f64) -> Self {
        let variance = (1.0 + variation * variation).ln();
        let factors = Z.map(|z| (z * variance.sqrt() - variance / 2.0).exp());
        Self { variability: variation * variation, factors }
    }
}

/// The queue of one pod over one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Mean latency in seconds.
    pub mean: f64,
    /// Median and 99th percentile of latency in seconds.
    pub percentiles: [f64; 2],
}

impl Queue {
    /// The stationary queue of a pod.
    ///
    /// `seconds`: mean time on the CPU with this pod's speed; `cores`: how many requests it can run at once, at
    /// least one; `elsewhere`: mean time outside the CPU; `utilisation`: offered work over capacity.
    #[must_use]
    pub fn stationary(service: &Service, seconds: f64, cores: f64, elsewhere: f64, utilisation: f64) -> Self {
        let servers = cores.max(1.0);
        let load = utilisation.clamp(0.0, HIGHEST_UTILISATION);
        // The probability of having to wait, and the mean wait of those who do.
        let waits = load.powf((2.0 * (servers + 1.0)).sqrt() - 1.0);
        let wait = seconds * (1.0 + service.variability) / 2.0 / (servers * (1.0 - load));
        let mean = seconds + elsewhere;
        let percentiles = std::array::from_fn(|which| {
            // P(W > t) = waits * exp(-t / wait)
            let waiting = wait * (waits / ABOVE[which]).max(1.0).ln();
            let deviation = mean * service.factors[which] - mean;
            if which == 0 { mean + deviation + waiting } else { mean + deviation.hypot(waiting) }
        });
        Self { mean: mean + waits * wait, percentiles }
    }
}

/// How long requests wait for a backlog that moves in a straight line, as seen by the requests of one step.
///
/// The backlog starts at `from` seconds of work and ends at `to`; a draining one may be gone after `share` of the
/// step. Returns the median and the 99th percentile.
#[must_use]
pub fn backlog_delay(from: f64, to: f64, share: f64) -> [f64; 2] {
    let (low, high) = (from.min(to), from.max(to));
    ABOVE.map(|above| {
        let affected = share.clamp(0.0, 1.0);
        if affected <= above { 0.0 } else { low + (high - low) * (1.0 - above / affected) }
    })
}

/// One part of a mixture of lognormal latencies, given by its median and its 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// How much of the traffic takes this path.
    pub weight: f64,
    /// Median and 99th percentile in seconds.
    pub percentiles: [f64; 2],
}

impl Part {
    /// The share of this part's requests that take longer than `seconds`.
    fn beyond(&self, seconds: f64) -> f64 {
        let [median, high] = self.percentiles;
        let spread = (high / median).ln() / Z[1];
        if spread <= 1e-9 {
            return if seconds < median { 1.0 } else { 0.0 };
        }
        normal_tail((seconds / median).ln() / spread)
    }
}

/// The share of all requests of a mixture that take longer than `seconds`.
#[must_use]
pub fn share_beyond(parts: &[Part], seconds: f64) -> f64 {
    let weight: f64 = parts.iter().map(|part| part.weight).sum();
    if weight <= 0.0 {
        return 0.0;
    }
    parts.iter().map(|part| part.weight * part.beyond(seconds)).sum::<f64>() / weight
}

/// Median and 99th percentile of a mixture.
#[must_use]
pub fn mixture_percentiles(parts: &[Part]) -> [f64; 2] {
    std::array::from_fn(|which| {
        let each = || parts.iter().map(|part| part.percentiles[which]);
        let (mut low, mut high) = (each().fold(f64::INFINITY, f64::min), each().fold(0.0, f64::max));
        // A mixture's percentile lies between those of its parts; halving in log space 14 times leaves less than
        // a ten-thousandth of the bracket.
        for _ in 0..14 {
            if high <= low * 1.0005 {
                break;
            }
            let middle = (low * high).sqrt();
            if share_beyond(parts, middle) > ABOVE[which] { low = middle } else { high = middle }
        }
        high
    })
}

/// P(Z > z) for a standard normal Z; error below 2e-7 (Abramowitz and Stegun 7.1.26).
fn normal_tail(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial =
        t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let upper = polynomial * (-x * x).exp() / 2.0;
    if z >= 0.0 { upper } else { 1.0 - upper }
}

/// The mean wait for one of `cores` cores over the mean time on it, at the given utilisation (M/M/k).
///
/// This is how neighbours slow each other down on a node that is not even full: their bursts collide.
#[must_use]
pub fn contention(cores: f64, utilisation: f64) -> f64 {
    let load = utilisation.clamp(0.0, HIGHEST_UTILISATION);
    let servers = cores.max(1.0);
    load.powf((2.0 * (servers + 1.0)).sqrt() - 1.0) / (servers * (1.0 - load))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In M/M/1 latency is exponential: the q-quantile is s/(1-rho) ln(1/(1-q)).
    #[test]
    fn the_99th_percentile_is_that_of_mm1() {
        // An exponential service time's 99th percentile is ln(100) = 4.6 times its mean.
        let exponential = Service { variability: 1.0, factors: [2.0_f64.ln(), 100.0_f64.ln()] };
        for load in [0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95] {
            let queue = Queue::stationary(&exponential, 0.02, 1.0, 0.0, load);
            let exact = 0.02 / (1.0 - load) * 100.0_f64.ln();
            assert!((queue.percentiles[1] / exact - 1.0).abs() < 0.08, "{load}: {queue:?} {exact}");
            let mean = 0.02 / (1.0 - load);
            assert!((queue.mean / mean - 1.0).abs() < 1e-9, "{load}: {queue:?} {mean}");
        }
    }

    /// Pollaczek-Khinchine: mean wait = rho s (1 + cv^2) / (2 (1 - rho)).
    #[test]
    fn the_mean_is_that_of_mg1() {
        for (variation, load) in [(0.0, 0.5), (0.5, 0.8), (2.0, 0.6)] {
            let queue = Queue::stationary(&Service::new(variation), 0.1, 1.0, 0.0, load);
            let exact = 0.1 + load * 0.1 * (1.0 + variation * variation) / (2.0 * (1.0 - load));
            assert!((queue.mean - exact).abs() < 1e-12);
        }
    }

    /// Erlang's C by its recursion, an independent way to the probability of waiting.
    fn erlang_c(servers: u32, load: f64) -> f64 {
        let offered = load * f64::from(servers);
        let blocking = (1..=servers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
        blocking / (1.0 - load * (1.0 - blocking))
    }

    #[test]
    fn contention_is_near_erlang_c() {
        for servers in [1, 2, 4, 8, 16] {
            for load in [0.5, 0.7, 0.9] {
                let exact = erlang_c(servers, load) / (f64::from(servers) * (1.0 - load));
                let ours = contention(f64::from(servers), load);
                // Sakasegawa is known to be off by a few hundredths of a service time at most.
                assert!((ours - exact).abs() < 0.05 * (1.0 + exact), "{servers} at {load}: {ours} {exact}");
            }
        }
    }

    #[test]
    fn a_mixture_lies_between_its_parts_and_counts_its_tail() {
        let fast = Part { weight: 0.9, percentiles: [0.010, 0.030] };
        let slow = Part { weight: 0.1, percentiles: [0.200, 0.600] };
        let [median, high] = mixture_percentiles(&[fast, slow]);
        assert!((0.010..0.013).contains(&median), "{median}");
        // One in ten is slow, so the 99th percentile of all is the 90th of the slow.
        let ninetieth = 0.2 * (3.0_f64.ln() / Z[1] * 1.281_551_6).exp();
        assert!((high / ninetieth - 1.0).abs() < 0.01, "{high} {ninetieth}");
        assert!((share_beyond(&[fast, slow], high) - 0.01).abs() < 1e-4);
        assert_eq!(mixture_percentiles(&[fast]), [0.010, 0.030]);
    }

    #[test]
    fn backlog_delay_of_a_straight_line() {
        let near = |seen: [f64; 2], exact: [f64; 2]| seen.iter().zip(exact).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(backlog_delay(0.0, 2.0, 1.0), [1.0, 1.98]));
        assert!(near(backlog_delay(2.0, 0.0, 0.25), [0.0, 1.92]));
        assert!(near(backlog_delay(2.0, 0.0, 0.005), [0.0, 0.0]));
        assert!(near(backlog_delay(0.0, 0.0, 1.0), [0.0, 0.0]));
    }

    #[test]
    fn the_normal_tail_is_right() {
        for (z, exact) in [(0.0, 0.5), (1.0, 0.158_655_254), (2.326_347_9, 0.01), (-1.0, 0.841_344_746), (5.0, 2.87e-7)]
        {
            assert!((normal_tail(z) - exact).abs() < 2e-7, "{z}");
        }
    }
}
