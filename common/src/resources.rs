//! CPU and memory, requests and limits, and the bounds an operator sets on scaling.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, within};

/// Thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct MilliCores(pub u64);

impl MilliCores {
    /// As cores.
    #[must_use]
    pub fn cores(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// Bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// So many mebibytes.
    #[must_use]
    pub const fn mebi(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }

    /// As mebibytes.
    #[must_use]
    pub fn as_mebi(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }
}

impl fmt::Display for MilliCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1 << 20) { write!(f, "{}Mi", self.0 >> 20) } else { write!(f, "{}", self.0) }
    }
}

/// Splits a Kubernetes quantity such as `1.5Gi` into its number and the factor of its suffix.
fn quantity(field: &str, text: &str, suffixes: &[(&str, f64)]) -> Result<f64, Invalid> {
    let bound = || {
        let known: Vec<_> = suffixes.iter().map(|(suffix, _)| *suffix).filter(|suffix| !suffix.is_empty()).collect();
        format!("a positive number with an optional suffix of {}", known.join(", "))
    };
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let factor = suffixes.iter().find(|(known, _)| *known == suffix).map(|(_, factor)| factor);
    match (number.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) => within(field, (number * factor).round(), 1.0, 1e18)
            .map_err(|_| Invalid::new(field, format!("{text:?}"), bound())),
        _ => Err(Invalid::new(field, format!("{text:?}"), bound())),
    }
}

impl FromStr for MilliCores {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Ok(Self(quantity("cpu", text, &[("", 1000.0), ("m", 1.0)])? as u64))
    }
}

impl FromStr for Bytes {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let kibi = 1024.0_f64;
        let suffixes =
            [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("Ki", kibi), ("Mi", kibi.powi(2)), ("Gi", kibi.powi(3))];
        Ok(Self(quantity("memory", text, &suffixes)? as u64))
    }
}

/// An amount of CPU and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// CPU.
    pub cpu: MilliCores,
    /// Memory.
    pub memory: Bytes,
}

/// What one replica reserves (`request`) and may use at most (`limit`): two levers, never one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Allocation {
    request: Resources,
    limit: Resources,
}

impl Allocation {
    /// An allocation whose limit is nowhere below its request.
    pub fn new(request: Resources, limit: Resources) -> Result<Self, Invalid> {
        if request.cpu > limit.cpu {
            return Err(Invalid::new("request.cpu", request.cpu, format!("at most the limit {}", limit.cpu)));
        }
        if request.memory > limit.memory {
            let bound = format!("at most the limit {}", limit.memory);
            return Err(Invalid::new("request.memory", request.memory, bound));
        }
        Ok(Self { request, limit })
    }

    /// What the scheduler sets aside.
    #[must_use]
    pub fn request(&self) -> Resources {
        self.request
    }

    /// What the kernel allows at most.
    #[must_use]
    pub fn limit(&self) -> Resources {
        self.limit
    }
}

/// How large a workload is: replicas, and the limit of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Number of replicas.
    pub replicas: u32,
    /// Limits of each replica.
    pub limit: Resources,
}

/// The hard bounds within which a workload may be scaled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    replicas: RangeInclusive<u32>,
    cpu: RangeInclusive<MilliCores>,
    memory: RangeInclusive<Bytes>,
}

impl Bounds {
    /// Bounds with a positive lower end and an upper end that is not below it.
    pub fn new(
        replicas: RangeInclusive<u32>,
        cpu: RangeInclusive<MilliCores>,
        memory: RangeInclusive<Bytes>,
    ) -> Result<Self, Invalid> {
        fn check<T: PartialOrd + fmt::Display>(field: &str, range: &RangeInclusive<T>, one: &T) -> Result<(), Invalid> {
            if range.start() < one {
                return Err(Invalid::new(format!("{field}.min"), range.start(), format!("at least {one}")));
            }
            if range.end() < range.start() {
                let bound = format!("at least the minimum {}", range.start());
                return Err(Invalid::new(format!("{field}.max"), range.end(), bound));
            }
            Ok(())
        }
        check("replicas", &replicas, &1)?;
        check("cpu", &cpu, &MilliCores(1))?;
        check("memory", &memory, &Bytes(1))?;
        Ok(Self { replicas, cpu, memory })
    }

    /// The range of replica counts.
    #[must_use]
    pub fn replicas(&self) -> &RangeInclusive<u32> {
        &self.replicas
    }

    /// The range of CPU limits.
    #[must_use]
    pub fn cpu(&self) -> &RangeInclusive<MilliCores> {
        &self.cpu
    }

    /// The range of memory limits.
    #[must_use]
    pub fn memory(&self) -> &RangeInclusive<Bytes> {
        &self.memory
    }

    /// Whether a scale is legal.
    #[must_use]
    pub fn contains(&self, scale: &Scale) -> bool {
        self.replicas.contains(&scale.replicas)
            && self.cpu.contains(&scale.limit.cpu)
            && self.memory.contains(&scale.limit.memory)
    }

    /// The legal scale nearest to `scale`, lever by lever.
    #[must_use]
    pub fn clamp(&self, scale: &Scale) -> Scale {
        fn cut<T: Ord + Copy>(value: T, range: &RangeInclusive<T>) -> T {
            value.clamp(*range.start(), *range.end())
        }
        Scale {
            replicas: cut(scale.replicas, &self.replicas),
            limit: Resources { cpu: cut(scale.limit.cpu, &self.cpu), memory: cut(scale.limit.memory, &self.memory) },
        }
    }

    /// A scale as shares of the upper bounds: CPU limit, memory limit, replicas, each within [0, 1].
    #[must_use]
    pub fn shares(&self, scale: &Scale) -> [f64; 3] {
        let share = |value: u64, most: u64| (value as f64 / most as f64).clamp(0.0, 1.0);
        [
            share(scale.limit.cpu.0, self.cpu.end().0),
            share(scale.limit.memory.0, self.memory.end().0),
            share(scale.replicas.into(), (*self.replicas.end()).into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds::new(1..=10, MilliCores(100)..=MilliCores(2000), Bytes::mebi(64)..=Bytes::mebi(1024)).unwrap()
    }

    fn scale(replicas: u32, cpu: u64, memory: u64) -> Scale {
        Scale { replicas, limit: Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(memory) } }
    }

    #[test]
    fn limits_at_their_bounds_are_legal_and_one_beyond_is_not() {
        let bounds = bounds();
        for legal in [scale(1, 100, 64), scale(10, 2000, 1024)] {
            assert!(bounds.contains(&legal));
            assert_eq!(bounds.clamp(&legal), legal);
        }
        for (illegal, nearest) in [
            (scale(0, 100, 64), scale(1, 100, 64)),
            (scale(11, 2000, 1024), scale(10, 2000, 1024)),
            (scale(1, 99, 64), scale(1, 100, 64)),
            (scale(1, 100, 1025), scale(1, 100, 1024)),
        ] {
            assert!(!bounds.contains(&illegal));
            assert_eq!(bounds.clamp(&illegal), nearest);
        }
        assert_eq!(bounds.shares(&scale(10, 2000, 1024)), [1.0, 1.0, 1.0]);
        assert_eq!(bounds.shares(&scale(5, 1000, 512)), [0.5, 0.5, 0.5]);
    }

    #[test]
    fn impossible_bounds_are_refused() {
        let cpu = MilliCores(100)..=MilliCores(2000);
        let memory = Bytes::mebi(64)..=Bytes::mebi(1024);
        let field = |result: Result<Bounds, Invalid>| result.unwrap_err().field;
        assert_eq!(field(Bounds::new(0..=3, cpu.clone(), memory.clone())), "replicas.min");
        #[allow(clippy::reversed_empty_ranges)] // what the test is about
        let reversed = 4..=3;
        assert_eq!(field(Bounds::new(reversed, cpu, memory.clone())), "replicas.max");
        assert_eq!(field(Bounds::new(1..=3, MilliCores(0)..=MilliCores(5), memory)), "cpu.min");
    }

    #[test]
    fn a_request_never_exceeds_its_limit() {
        let small = Resources { cpu: MilliCores(100), memory: Bytes::mebi(64) };
        let large = Resources { cpu: MilliCores(200), memory: Bytes::mebi(128) };
        assert!(Allocation::new(small, large).is_ok());
        assert_eq!(Allocation::new(large, small).unwrap_err().field, "request.cpu");
    }

    #[test]
    fn quantities_read_as_kubernetes_writes_them() {
        assert_eq!("250m".parse(), Ok(MilliCores(250)));
        assert_eq!("1.5".parse(), Ok(MilliCores(1500)));
        assert_eq!("256Mi".parse(), Ok(Bytes::mebi(256)));
        assert_eq!("1.5Gi".parse(), Ok(Bytes::mebi(1536)));
        assert_eq!("2M".parse(), Ok(Bytes(2_000_000)));
        for bad in ["", "m", "-1", "0", "1x", "1e400", "NaN", "1.2.3"] {
            assert!(bad.parse::<MilliCores>().is_err(), "{bad:?}");
            assert!(bad.parse::<Bytes>().is_err(), "{bad:?}");
        }
    }
}
