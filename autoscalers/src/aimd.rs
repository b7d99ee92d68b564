//! AIMD: limits and replicas grow by a step while the SLO is violated, and shrink by a factor while there is slack.
//!
//! The baseline that FIRM is compared with. The paper fixes the direction, additive up and multiplicative down, and
//! that each container's limits are controlled so. The rest had to be chosen, and is set in [`Options`]:
//!
//! - how large the steps are, and by which factor limits shrink;
//! - from where on latency counts as slack: between there and the SLO nothing changes, or the limits would never rest;
//! - replicas as a third lever: the paper speaks of limits only;
//! - dropped requests and kills for memory as violations: the latency of what was served does not show them;
//! - that no limit shrinks below what is used: it would only cause the next violation.

use meanfield_common::{
    invalid::{Invalid, within},
    observation::Observation,
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
};

/// How the steps are set.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The 99th percentile of latency that must not be exceeded, in milliseconds.
    pub slo: f64,
    /// Below this share of the SLO latency leaves slack.
    pub slack: f64,
    /// What is added to each lever; one with a step of 0 is left alone altogether.
    pub increase: Scale,
    /// What remains of each lever after shrinking.
    pub decrease: f64,
    /// Within which the levers stay.
    pub bounds: Bounds,
}

impl Options {
    /// Steps of 100 millicores, 64 MiB and one replica, shrinking by a tenth below 70 % of the SLO.
    #[must_use]
    pub fn new(slo: f64, bounds: Bounds) -> Self {
        let limit = Resources { cpu: MilliCores(100), memory: Bytes::mebi(64) };
        Self { slo, slack: 0.7, increase: Scale { replicas: 1, limit }, decrease: 0.9, bounds }
    }
}

/// The controller of one workload. It remembers nothing: what was observed holds all it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Aimd {
    options: Options,
}

impl Aimd {
    /// A controller, unless the options make no sense.
    pub fn new(options: Options) -> Result<Self, Invalid> {
        within("slo", options.slo, 1e-3, 1e9)?;
        within("slack", options.slack, 0.0, 1.0)?;
        within("decrease", options.decrease, 0.0, 1.0)?;
        Ok(Self { options })
    }

    /// The scale for the next step, after one that was observed.
    #[must_use]
    pub fn decide(&self, observed: &Observation) -> Scale {
        let Options { slo, slack, increase: step, decrease, ref bounds } = self.options;
        let violated = observed.latency_p99.is_some_and(|latency| latency > slo)
            || observed.dropped > 0.0
            || observed.oom_kills > 0;
        // Without requests there is nothing but slack.
        let slack = observed.latency_p99.is_none_or(|latency| latency < slo * slack);
        let now = observed.scale;
        let next = if violated {
            Scale {
                replicas: now.replicas.saturating_add(step.replicas),
                limit: Resources {
                    cpu: MilliCores(now.limit.cpu.0.saturating_add(step.limit.cpu.0)),
                    memory: Bytes(now.limit.memory.0.saturating_add(step.limit.memory.0)),
                },
            }
        } else if slack {
            let shrink = |value: u64, step: u64, used: u64| {
                let shrunk = (value as f64 * decrease) as u64;
                if step == 0 { value } else { shrunk.max(used).min(value) }
            };
            let cpu_used = observed.cpu_used.0.div_ceil(u64::from(observed.ready).max(1));
            Scale {
                replicas: shrink(now.replicas.into(), step.replicas.into(), 0) as u32,
                limit: Resources {
                    cpu: MilliCores(shrink(now.limit.cpu.0, step.limit.cpu.0, cpu_used)),
                    memory: Bytes(shrink(now.limit.memory.0, step.limit.memory.0, observed.memory_peak.0)),
                },
            }
        } else {
            now
        };
        bounds.clamp(&next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds() -> Bounds {
        Bounds::new(1..=10, MilliCores(100)..=MilliCores(2000), Bytes::mebi(64)..=Bytes::mebi(1024)).unwrap()
    }

    fn scale(replicas: u32, cpu: u64, memory: u64) -> Scale {
        Scale { replicas, limit: Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(memory) } }
    }

    fn observed(scale: Scale, latency: Option<f64>) -> Observation {
        Observation { scale, latency_p99: latency, ..Observation::default() }
    }

    fn aimd() -> Aimd {
        Aimd::new(Options::new(200.0, bounds())).unwrap()
    }

    #[test]
    fn grows_by_a_step_when_violated() {
        assert_eq!(aimd().decide(&observed(scale(2, 500, 256), Some(201.0))), scale(3, 600, 320));
        let dropped = Observation { dropped: 1.0, ..observed(scale(2, 500, 256), Some(10.0)) };
        assert_eq!(aimd().decide(&dropped), scale(3, 600, 320));
        let killed = Observation { oom_kills: 1, ..observed(scale(2, 500, 256), None) };
        assert_eq!(aimd().decide(&killed), scale(3, 600, 320));
    }

    #[test]
    fn shrinks_by_a_factor_when_there_is_slack() {
        assert_eq!(aimd().decide(&observed(scale(10, 1000, 500), Some(139.0))), scale(9, 900, 450));
        assert_eq!(aimd().decide(&observed(scale(10, 1000, 500), None)), scale(9, 900, 450));
    }

    #[test]
    fn rests_between_slack_and_the_slo() {
        for latency in [140.0, 170.0, 200.0] {
            assert_eq!(aimd().decide(&observed(scale(2, 500, 256), Some(latency))), scale(2, 500, 256));
        }
    }

    #[test]
    fn shrinks_no_limit_below_its_use() {
        let busy = Observation {
            ready: 2,
            cpu_used: MilliCores(960),
            memory_peak: Bytes::mebi(250),
            ..observed(scale(2, 500, 256), Some(10.0))
        };
        assert_eq!(aimd().decide(&busy), scale(1, 480, 250));
    }

    #[test]
    fn a_lever_without_a_step_is_left_alone() {
        let increase = scale(0, 100, 0);
        let aimd = Aimd::new(Options { increase, ..Options::new(200.0, bounds()) }).unwrap();
        assert_eq!(aimd.decide(&observed(scale(4, 500, 256), Some(500.0))), scale(4, 600, 256));
        assert_eq!(aimd.decide(&observed(scale(4, 500, 256), Some(1.0))), scale(4, 450, 256));
    }

    #[test]
    fn senseless_options_are_refused() {
        let field = |change: fn(&mut Options)| {
            let mut options = Options::new(200.0, bounds());
            change(&mut options);
            Aimd::new(options).unwrap_err().field
        };
        assert_eq!(field(|options| options.slo = f64::NAN), "slo");
        assert_eq!(field(|options| options.slack = 1.1), "slack");
        assert_eq!(field(|options| options.decrease = -0.1), "decrease");
    }

    proptest! {
        #[test]
        fn stays_within_the_bounds(
            replicas: u32, cpu: u64, memory: u64, latency: Option<f64>, dropped: f64, ready: u32, used: u64, peak: u64
        ) {
            let observed = Observation {
                scale: Scale { replicas, limit: Resources { cpu: MilliCores(cpu), memory: Bytes(memory) } },
                latency_p99: latency,
                dropped,
                ready,
                cpu_used: MilliCores(used),
                memory_peak: Bytes(peak),
                ..Observation::default()
            };
            prop_assert!(bounds().contains(&aimd().decide(&observed)));
        }
    }
}
