//! Latency in closed form: requests that share cores.
//!
//! A pod with c cores runs its requests at once, one thread each: n of them go at full speed while n <= c and share the
//! cores beyond that (processor sharing). c < 1 is one slow core. In such a queue the mean stretch of a request depends
//! on the load only, not on how service times vary:
//!
//! ```text
//! stretch = 1 + C / (k (1 - rho))        C = rho^(sqrt(2 (k + 1)) - 1), Sakasegawa's form of Erlang's C
//! ```
//!
//! and for one core and a request of one mean service time its variance is known as well (Yashkov). Seen as the share of
//! time that cores are short, the same formula carries over to k cores:
//!
//! ```text
//! v = ((stretch - 1) / stretch)^2 / C * 2 (e^-u - 1 + u) / u^2        u = 1 - rho
//! ```
//!
//! Latency is then taken as lognormal with that mean and with the variances of stretch and service time multiplied up:
//! within some per cent of simulated requests (docs/simulator.md has the table). Several pods behind a load balancer that
//! knows how busy they are act as one large pod, nearly; see [`pooled`]. Pods with few slots are computed state by state.

mod latency;

pub use latency::{Latency, Shape};

/// Above this utilisation the stationary formulas say nothing about a step of seconds; the backlog takes over.
pub const HIGHEST_UTILISATION: f64 = 0.97;

/// The shares of requests above the two percentiles.
const ABOVE: [f64; 2] = [0.5, 0.01];

/// How requests find a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balancing {
    /// The one with the fewest requests.
    #[default]
    LeastConnections,
    /// One after the other.
    RoundRobin,
    /// Any.
    Random,
}

/// Cores of the one pod that would be as fast as `pods` of so many cores each behind a load balancer.
///
/// A perfect one would make them one pod; the exponents were fitted to simulated requests.
#[must_use]
pub fn pooled(balancing: Balancing, cores: f64, pods: f64) -> f64 {
    let exponent = match balancing {
        Balancing::LeastConnections => 0.93,
        Balancing::RoundRobin => 0.7,
        Balancing::Random => 0.0,
    };
    cores.max(1.0) * pods.max(1.0).powf(exponent)
}

/// Where requests run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Station {
    /// Cores that requests share; at least 1 (a smaller pod is a slower one).
    pub cores: f64,
    /// Requests that may run at once; others wait.
    pub slots: f64,
    /// Mean seconds on a core of their own, at this station's speed.
    pub seconds: f64,
    /// Standard deviation of that over its mean.
    pub variation: f64,
    /// Seconds of each request elsewhere (disk, network), which hold a slot.
    pub elsewhere: f64,
}

/// Up to so many slots a station is computed state by state; with more, slots and cores hardly get in each other's way.
const FEW: usize = 16;

/// Where fewer requests than this find all slots taken, slots are taken to be free.
const KEPT: f64 = 1e-4;

impl Station {
    /// Requests per second at most.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        if self.few() {
            return self.fastest_flow();
        }
        (self.cores.max(1.0) / self.seconds).min(self.slots / (self.seconds + self.elsewhere))
    }

    /// Latency at so much of the capacity.
    #[must_use]
    pub fn latency(&self, utilisation: f64) -> Latency {
        self.measure(utilisation, 1.0).0
    }

    /// Latency at so much of the capacity, and how many requests are inside at the worst moment among so many arrivals.
    ///
    /// Crowds of n beyond the cores come with probability C rho^n, and about every 1/(1 - rho)-th arrival finds the
    /// station anew: the largest of so many geometric numbers.
    #[must_use]
    pub fn measure(&self, utilisation: f64, requests: f64) -> (Latency, f64) {
        let load = utilisation.clamp(0.0, HIGHEST_UTILISATION);
        let cores = self.cores.max(1.0);
        let square = self.variation * self.variation;
        if self.few() {
            return (self.latency_with_few_slots(load), if load > 0.0 { self.slots } else { 0.0 });
        }
        // Where slots are scarcer than cores, the cores are never all busy.
        let work = load * (self.capacity() * self.seconds / cores).min(1.0);
        let (logarithm, exponent) = (work.ln(), exponent(cores));
        let short = (exponent * logarithm).exp();
        let mut mean = self.seconds * (1.0 + short / (cores * (1.0 - work)));
        let mut variability = self.variability(mean, short, work);
        let others = cores * work / self.seconds * self.elsewhere;
        let fill = ((cores * work / self.seconds * mean + others) / self.slots).min(HIGHEST_UTILISATION);
        if let Some(kept) = waits_at_least(KEPT, self.slots, fill) {
            let wait = (mean + self.elsewhere) * (1.0 + square) / 2.0 / (self.slots * (1.0 - fill));
            let variance = variability * mean * mean + kept * (2.0 - kept) * wait * wait;
            mean += kept * wait;
            variability = variance / (mean * mean);
        }
        let most = if work > 0.0 {
            let tries = (requests * (1.0 - work)).max(1.0).ln();
            let crowd = (exponent * logarithm + tries).max(0.0) / -logarithm;
            (cores + crowd + others + 3.0 * others.sqrt()).min(self.slots)
        } else {
            0.0
        };
        (Latency { mean, variability, constant: self.elsewhere }, most)
    }

    /// The last of [`Station::flows`] alone: the constants before the last two are not needed for it.
    fn fastest_flow(&self) -> f64 {
        let (slots, cores) = (self.slots as usize, self.cores.max(1.0));
        let (mut on_cores, mut elsewhere) = ([1.0; FEW + 1], [1.0; FEW + 1]);
        let ratio = self.elsewhere / self.seconds;
        for n in 1..=slots {
            on_cores[n] = on_cores[n - 1] / cores.min(n as f64);
            elsewhere[n] = elsewhere[n - 1] * ratio / n as f64;
        }
        let constant = |n: usize| (0..=n).map(|k| on_cores[k] * elsewhere[n - k]).sum::<f64>();
        constant(slots - 1) / constant(slots) / self.seconds
    }

    fn few(&self) -> bool {
        self.slots >= 1.0 && self.slots <= FEW as f64 && self.seconds > 0.0
    }

    /// Requests per second that leave while so many are inside, for each number of taken slots: the throughput of the
    /// closed network of cores and elsewhere with that many customers, from its normalising constants.
    fn flows(&self) -> [f64; FEW + 1] {
        let (slots, cores) = (self.slots as usize, self.cores.max(1.0));
        let (mut on_cores, mut elsewhere, mut constants) = ([1.0; FEW + 1], [1.0; FEW + 1], [1.0; FEW + 1]);
        let mut flows = [0.0; FEW + 1];
        // Everything is in units of the time on a core: the constants then stay far from the ends of the range.
        let ratio = self.elsewhere / self.seconds;
        for n in 1..=slots {
            on_cores[n] = on_cores[n - 1] / cores.min(n as f64);
            elsewhere[n] = elsewhere[n - 1] * ratio / n as f64;
            constants[n] = (0..=n).map(|k| on_cores[k] * elsewhere[n - k]).sum();
            flows[n] = constants[n - 1] / constants[n] / self.seconds;
        }
        flows
    }

    /// The same with few slots: the number inside is a birth-death process, and who finds all slots taken waits.
    fn latency_with_few_slots(&self, load: f64) -> Latency {
        let (slots, cores) = (self.slots as usize, self.cores.max(1.0));
        let flows = self.flows();
        let rate = load * flows[slots];
        let (mut weight, mut total, mut inside) = (1.0, 1.0, 0.0);
        for (n, flow) in flows.iter().enumerate().take(slots).skip(1) {
            weight *= rate / flow;
            total += weight;
            inside += n as f64 * weight;
        }
        let full = weight * load / (1.0 - load);
        total += full;
        inside += self.slots * full;
        let kept = full / total;
        let stay = if rate > 0.0 { inside / total / rate } else { self.seconds + self.elsewhere };
        let mut mean = (stay - self.elsewhere).max(self.seconds);
        let work = rate * self.seconds / cores;
        let variability = self.variability(mean, waits(cores, work), work);
        let wait = (1.0 + self.variation * self.variation) / 2.0 / (flows[slots] * (1.0 - load));
        let variance = variability * mean * mean + kept * (2.0 - kept) * wait * wait;
        mean += kept * wait;
        Latency { mean, variability: variance / (mean * mean), constant: self.elsewhere }
    }

    /// Squared coefficient of variation of the time on the cores, from its mean, the chance that they are short, and
    /// their utilisation.
    fn variability(&self, mean: f64, short: f64, work: f64) -> f64 {
        let stretched = 1.0 - self.seconds / mean;
        let spread = if short > 0.0 { stretched * stretched / short * memory(1.0 - work) } else { 0.0 };
        (1.0 + self.variation * self.variation) * (1.0 + spread) - 1.0
    }
}

/// The probability that all of `cores` are busy (Erlang's C, in Sakasegawa's form for any number of cores).
fn waits(cores: f64, load: f64) -> f64 {
    load.powf(exponent(cores))
}

fn exponent(cores: f64) -> f64 {
    (2.0 * (cores + 1.0)).sqrt() - 1.0
}

/// [`waits`] if it is more than `least`. Most are far from that, and a bound on the logarithm tells without a power:
/// ln x <= 2 (x - 1) / (x + 1) below 1.
fn waits_at_least(least: f64, cores: f64, load: f64) -> Option<f64> {
    if exponent(cores) * 2.0 * (load - 1.0) < least.ln() * (load + 1.0) {
        return None;
    }
    Some(waits(cores, load)).filter(|waits| *waits > least)
}

/// How much of a moment's crowding lasts for a whole request: 2 (e^-u - 1 + u) / u^2.
fn memory(u: f64) -> f64 {
    2.0 * ((-u).exp() - 1.0 + u) / (u * u)
}

/// How far the 99th percentile of so many requests strays from the true one, in standard deviations of a normal number:
/// the usual limit law of a sample quantile, sqrt(p (1 - p) / n) over the density there. Below a hundred requests the
/// percentile is their maximum, which strays no further.
#[must_use]
pub fn sampling_error(requests: f64) -> f64 {
    const DENSITY: f64 = 0.026_652_142_203_458_08;
    (ABOVE[1] * (1.0 - ABOVE[1]) / requests.max(100.0)).sqrt() / DENSITY
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

/// P(Z > z) for a standard normal Z; error below 2e-7 (Abramowitz and Stegun 7.1.26).
#[must_use]
pub fn normal_tail(z: f64) -> f64 {
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
    waits(servers, load) / (servers * (1.0 - load))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(cores: f64, variation: f64) -> Station {
        Station { cores, slots: 1e6, seconds: 0.02, variation, elsewhere: 0.0 }
    }

    /// Processor sharing on one core: the mean is s/(1-rho) whatever the distribution.
    #[test]
    fn the_mean_on_one_core_is_that_of_processor_sharing() {
        for variation in [0.0, 0.5, 1.0, 2.0] {
            for load in [0.0, 0.3, 0.6, 0.9, 0.95] {
                let latency = station(1.0, variation).latency(load);
                assert!((latency.mean() - 0.02 / (1.0 - load)).abs() < 1e-9, "{variation} {load}: {latency:?}");
            }
        }
    }

    /// M/M/1-PS: the squared coefficient of variation of latency is (2 + rho) / (2 - rho).
    #[test]
    fn the_variance_on_one_core_is_near_that_of_mm1_ps() {
        for load in [0.0, 0.2, 0.5, 0.8, 0.95] {
            let exact = (2.0 + load) / (2.0 - load);
            let ours = station(1.0, 1.0).latency(load).variability;
            assert!((ours / exact - 1.0).abs() < 0.12, "{load}: {ours} {exact}");
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
    fn without_load_only_the_service_time_varies() {
        let [median, high] = Station { elsewhere: 0.5, ..station(2.0, 0.6) }.latency(0.0).percentiles();
        let deviation = 1.36_f64.ln();
        let exact = 0.02 * (-deviation / 2.0).exp();
        assert!((median - 0.5 - exact).abs() < 1e-12);
        assert!((high - 0.5 - exact * (latency::Z99 * deviation.sqrt()).exp()).abs() < 1e-12);
    }

    #[test]
    fn scarce_slots_make_requests_wait() {
        let roomy = Station { elsewhere: 0.2, ..station(1.0, 0.5) };
        let scarce = Station { slots: 8.0, ..roomy };
        assert!(scarce.latency(0.1).mean() < 1.01 * roomy.latency(0.1).mean());
        // Slots of a fifth of a second and more: 8 of them let hardly more than 30 requests a second through, where the
        // core could do 50.
        assert!((28.0..34.0).contains(&scarce.capacity()) && (roomy.capacity() - 50.0).abs() < 1e-9);
        assert!(scarce.latency(0.95).percentiles()[1] > 1.5 * roomy.latency(0.6).percentiles()[1]);
    }

    /// One slot, nothing elsewhere: M/G/1, first come, first served. As many slots as cores: M/M/k.
    #[test]
    fn few_slots_are_the_textbook_queues() {
        for (load, variation) in [(0.3, 0.0), (0.5, 1.0), (0.8, 0.5)] {
            let one = Station { slots: 1.0, ..station(1.0, variation) };
            assert!((one.capacity() - 50.0).abs() < 1e-9);
            let exact = 0.02 + load * 0.02 * (1.0 + variation * variation) / (2.0 * (1.0 - load));
            assert!((one.latency(load).mean() / exact - 1.0).abs() < 1e-9, "Pollaczek and Khinchine at {load}");
        }
        for (servers, load) in [(2_u32, 0.5), (4, 0.8), (8, 0.9)] {
            let many = Station { slots: servers.into(), ..station(servers.into(), 1.0) };
            let exact = 0.02 * (1.0 + erlang_c(servers, load) / (f64::from(servers) * (1.0 - load)));
            assert!((many.latency(load).mean() / exact - 1.0).abs() < 1e-9, "Erlang's C, {servers} at {load}");
        }
        // Two customers between a core and an equally long stay elsewhere: the core is busy 4/5 of the time.
        let closed = Station { slots: 2.0, elsewhere: 0.02, ..station(1.0, 1.0) };
        assert!((closed.capacity() - 0.8 / 0.02).abs() < 1e-9);
    }

    #[test]
    fn percentiles_and_tail_agree() {
        let latency = Station { elsewhere: 0.01, ..station(1.5, 0.6) }.latency(0.7);
        let [median, high] = latency.percentiles();
        assert!((latency.beyond(median) - 0.5).abs() < 1e-6);
        assert!((latency.beyond(high) - 0.01).abs() < 1e-6);
        assert_eq!((latency.beyond(0.0), Latency::constant(1.0).beyond(2.0)), (1.0, 0.0));
    }

    #[test]
    fn a_mixture_has_the_mean_and_variance_of_its_parts() {
        let fast = station(1.0, 0.5).latency(0.5);
        let alone = Latency::mixture(&[(3.0, fast)]);
        assert!((alone.mean() - fast.mean()).abs() < 1e-12 && (alone.spread() - fast.spread()).abs() < 1e-12);
        let slow = fast.slower(3.0).later(0.1);
        let both = Latency::mixture(&[(0.75, fast), (0.25, slow)]);
        let mean = 0.75 * fast.mean() + 0.25 * slow.mean();
        assert!((both.mean() - mean).abs() < 1e-12);
        let variance = |part: &Latency| part.variability * part.mean * part.mean;
        let exact = 0.75 * (variance(&fast) + (fast.mean() - mean).powi(2))
            + 0.25 * (variance(&slow) + (slow.mean() - mean).powi(2));
        assert!((variance(&both) / exact - 1.0).abs() < 1e-9);
        assert_eq!(Latency::mixture(&[]), Latency::constant(0.0));
    }

    #[test]
    fn pods_behind_a_good_load_balancer_are_nearly_one() {
        assert_eq!(pooled(Balancing::Random, 1.5, 4.0), 1.5);
        assert!((5.0..6.0).contains(&pooled(Balancing::LeastConnections, 1.5, 4.0)));
        assert_eq!(pooled(Balancing::LeastConnections, 0.5, 1.0), 1.0);
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
