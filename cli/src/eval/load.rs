//! What arrives in an experiment: a generator's days, or days that somebody recorded.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use meanfield_common::{digest::Digest, invalid::Invalid};
use meanfield_simulator::scenario::{Scenario, TALLEST};
use meanfield_traces::{
    import::{self, Options},
    synth::Preset,
    trace::Trace,
};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::tuning;

const DAY: f64 = 86_400.0;

/// The part of the cores that all tenants together ask for in their highest step, at the most. Whoever owns a cluster has
/// chosen its nodes for its load; where there is more to do than that, scarcity is what is measured.
pub const PEAK: f64 = 0.7;

/// The load of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    Made(Preset),
    Recorded(Recorded),
}

/// Recorded days: half of them for tuning, the others for what counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    name: String,
    tuning: Arc<[Trace]>,
    counted: Arc<[Trace]>,
}

impl Load {
    /// Days from a file in any format that `meanfield trace` reads. Series are cut into days; those with too little in
    /// them or with a count far above their mean are left out.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let imported = import::read(file, &Options::default())?;
        let mut days = Vec::new();
        for series in imported.traces {
            let length = (DAY / series.interval) as usize;
            for (day, counts) in series.counts.chunks_exact(length.max(1)).enumerate() {
                let trace = Trace::new(format!("{}/{day}", series.name), None, series.interval, counts.to_vec())?;
                let highest = counts.iter().copied().fold(0.0, f64::max) / series.interval;
                if trace.is_busy() && highest <= TALLEST * trace.mean_rate() {
                    days.push(trace);
                }
            }
        }
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().replace([',', '"'], "_"));
        if days.len() < 2 {
            let usable = format!(
                "at least 2 (a usable one has 1440 requests, ten levels, and no count above {TALLEST} times their mean)"
            );
            Err(Invalid::new("usable days", days.len(), usable))?;
        }
        let half = |first: usize| days.iter().skip(first).step_by(2).cloned().collect();
        Ok(Self::Recorded(Recorded { name, tuning: half(0), counted: half(1) }))
    }

    /// What was asked for: recorded days, generators, or the usual ones.
    pub fn asked(recorded: &[std::path::PathBuf], made: &[Preset], usual: &[Preset]) -> anyhow::Result<Vec<Self>> {
        let made = if made.is_empty() && recorded.is_empty() { usual } else { made };
        let mut loads: Vec<_> = made.iter().copied().map(Self::Made).collect();
        for file in recorded {
            loads.push(Self::read(file).with_context(|| format!("--recorded {}", file.display()))?);
        }
        // Twice the same days would look like more of them.
        let mut once = Vec::new();
        for load in loads {
            if !once.contains(&load) {
                once.push(load);
            }
        }
        Ok(once)
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Made(preset) => preset.name(),
            Self::Recorded(recorded) => &recorded.name,
        }
    }

    /// The scenario under this load, for a day's seed as others number them and as the simulator draws from it.
    pub fn onto(&self, scenario: Scenario, day: u64, seed: u64) -> anyhow::Result<Scenario> {
        let scenario = match self {
            Self::Made(preset) => scenario.with_load(*preset),
            Self::Recorded(Recorded { tuning, counted, .. }) => {
                scenario.with_recorded(if day >= tuning::SEEDS { tuning.clone() } else { counted.clone() })?
            }
        };
        Ok(if scenario.pressure(seed)?.0 > PEAK { scenario.with_peak(PEAK, seed)? } else { scenario })
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Made(preset) => serializer.serialize_str(preset.name()),
            // Results are kept by what they came from: another file of the same name is not the same days.
            Self::Recorded(Recorded { name, tuning, counted }) => {
                let counts = |traces: &[Trace]| {
                    let counts = traces.iter().flat_map(|trace| &trace.counts);
                    Digest::of(&counts.flat_map(|count| count.to_le_bytes()).collect::<Vec<u8>>())
                };
                let mut fields = serializer.serialize_struct("Recorded", 3)?;
                fields.serialize_field("file", name)?;
                fields.serialize_field("days", &(tuning.len(), counted.len()))?;
                fields.serialize_field("counts", &(counts(tuning), counts(counted)))?;
                fields.end()
            }
        }
    }
}
