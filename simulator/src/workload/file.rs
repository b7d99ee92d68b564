//! A workload as a TOML file: the sixteen segments, the twelve functions, and whatever a user brings.

use meanfield_common::{identity::Category, invalid::Invalid, resources::Bytes};
use serde::Deserialize;

use super::{Distribution, Input, Objective, Workload};
use crate::origin::{self, Error, quantity};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    category: Category,
    input: Option<Input>,
    request: Request,
    pod: Pod,
    #[serde(default)]
    client: Client,
    load: Load,
    #[serde(default)]
    slo: Objective,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    cpu_ms: f64,
    distribution: Shape,
    /// With a lognormal distribution, and only there.
    variation: Option<f64>,
    #[serde(default)]
    io_mb: f64,
    #[serde(default)]
    network_mb: f64,
    #[serde(deserialize_with = "quantity")]
    memory: Bytes,
    #[serde(default)]
    memory_traffic_mb: f64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Fixed,
    Exponential,
    Lognormal,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pod {
    #[serde(deserialize_with = "quantity")]
    memory: Bytes,
    slots: u32,
    startup_seconds: f64,
    #[serde(default)]
    warmup_seconds: f64,
    #[serde(default = "one")]
    cold: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    timeout_seconds: f64,
    retries: u32,
}

impl Default for Client {
    fn default() -> Self {
        Self { timeout_seconds: 30.0, retries: 0 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    cores: f64,
}

impl Workload {
    /// A workload from the text of a file that is called `origin`. Refuses whatever could not run.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        let file: File = origin::read(text, origin)?;
        let invalid = |error| Error::invalid(text, origin, error);
        let workload = file.into_workload().map_err(invalid)?;
        workload.check().map_err(invalid)?;
        Ok(workload)
    }
}

impl File {
    fn into_workload(self) -> Result<Workload, Invalid> {
        let Self { name, category, input, request, pod, client, load, slo } = self;
        let distribution = match (request.distribution, request.variation) {
            (Shape::Fixed, None) => Distribution::Fixed,
            (Shape::Exponential, None) => Distribution::Exponential,
            (Shape::Lognormal, Some(variation)) => Distribution::Lognormal { variation },
            (_, variation) => {
                let value = variation.map_or("nothing".to_owned(), |variation| variation.to_string());
                let bound = "given with a lognormal distribution and only there";
                return Err(Invalid::new("request.variation", value, bound));
            }
        };
        Ok(Workload {
            name,
            category,
            input,
            cpu_ms: request.cpu_ms,
            distribution,
            io_mb: request.io_mb,
            network_mb: request.network_mb,
            traffic_mb: request.memory_traffic_mb,
            memory_idle: pod.memory,
            memory_request: request.memory,
            slots: pod.slots,
            startup: pod.startup_seconds,
            warmup: pod.warmup_seconds,
            cold: pod.cold,
            timeout: client.timeout_seconds,
            retries: client.retries,
            demand: load.cores,
            objective: slo,
        })
    }
}
