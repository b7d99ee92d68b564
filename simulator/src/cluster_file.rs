//! A cluster in one TOML file: its nodes, its rules, who runs on it, who calls whom, and what goes wrong.
//!
//! Whatever could not run is refused before anything does, with the file, the line, the field and the reason. What a
//! file leaves out is as in [`crate::scenario`]: the shortest one is
//!
//! ```
//! # use meanfield_simulator::cluster_file::ClusterFile;
//! let text = r#"
//!     [[nodes]]
//!     cores = 8
//!     memory = "32Gi"
//!
//!     [[tenants]]
//!     function = "base64"
//! "#;
//! let (cluster, tenants) = ClusterFile::parse(text, "short.toml")?.build(1, 100)?;
//! assert!(cluster.observe(tenants[0].0).is_some());
//! # Ok::<(), meanfield_simulator::origin::Error>(())
//! ```

mod check;
mod format;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use meanfield_common::{
    invalid::Invalid,
    resources::{Bounds, Scale},
    slo::Slo,
};

use meanfield_traces::synth::Preset;

use crate::{
    anomaly::{self, Injection},
    cluster::{Cluster, Model, Spec, TenantId, TenantSpec},
    origin::{self, Error, LARGEST},
    scenario::{DAY_SECONDS, stream},
    workload::Workload,
};

/// The most rates that are drawn for all tenants together.
const MOST_RATES: usize = 50_000_000;

/// A running cluster, and its tenants with their names.
pub type Built = (Cluster, Vec<(TenantId, TenantSpec, String)>);

/// A cluster that can be built.
#[derive(Debug, Clone)]
pub struct ClusterFile {
    origin: String,
    /// Without what follows from a seed and a number of steps.
    spec: Spec,
    model: format::Model,
    seed: Option<u64>,
    tenants: Vec<Tenant>,
    calls: Vec<Call>,
    injection: Option<Injection>,
}

#[derive(Debug, Clone)]
struct Tenant {
    name: String,
    workload: Arc<Workload>,
    slo: Slo,
    bounds: Bounds,
    scale: Scale,
    arrivals: Arrivals,
}

#[derive(Debug, Clone)]
enum Arrivals {
    Mean(f64),
    Rates(Arc<[f64]>),
}

/// Between places in the list of tenants.
#[derive(Debug, Clone, Copy)]
struct Call {
    from: usize,
    to: usize,
    times: f64,
}

impl ClusterFile {
    /// A cluster from the text of a file that is called `origin`. Reads no other file: workloads that stand in files
    /// of their own are refused.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        Self::with(text, origin, &|path| Err(Error::unreadable(path, "is looked for only beside a cluster file")))
    }

    /// A cluster from a file. Paths of workloads are relative to its folder.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        let workload = |name: &str| {
            let path = folder.join(name);
            Workload::parse(&contents(&path)?, &path.display().to_string())
        };
        Self::with(&contents(path)?, &path.display().to_string(), &workload)
    }

    fn with(text: &str, origin: &str, workload: check::Workloads<'_>) -> Result<Self, Error> {
        let file: format::File = origin::read(text, origin)?;
        check::resolve(file, text, origin, workload)
    }

    /// The nodes and rules for so many steps.
    pub fn cluster(&self, seed: u64, steps: usize) -> Result<Spec, Error> {
        let mut spec = self.spec.clone();
        spec.model = self.model();
        spec.seed = self.seed.unwrap_or(seed);
        if let Some(injection) = &self.injection {
            let seconds = steps as f64 * spec.seconds;
            let targets = (spec.nodes.len(), self.tenants.len());
            let injected = anomaly::inject(injection, targets, seconds, seed).map_err(|error| self.refuse(error))?;
            spec.anomalies.extend(injected);
        }
        Ok(spec)
    }

    fn model(&self) -> Model {
        match self.model {
            format::Model::Fluid => Model::Fluid,
            format::Model::Events => Model::Events,
        }
    }

    /// The tenants by name, with arrivals drawn from a seed for so many steps.
    pub fn tenants(&self, seed: u64, steps: usize) -> Result<Vec<(String, TenantSpec)>, Error> {
        let most = MOST_RATES / self.tenants.len().max(1);
        if !(1..=most).contains(&steps) {
            return Err(self.refuse(Invalid::new("steps", steps, format!("within [1, {most}]"))));
        }
        let tenant = |(place, tenant): (usize, &Tenant)| {
            let arrivals = match &tenant.arrivals {
                Arrivals::Mean(mean) => {
                    let rng = &mut stream(seed, place);
                    Arc::from(Preset::Diurnal.generate_with_day(*mean, steps, self.spec.seconds, DAY_SECONDS, rng))
                }
                Arrivals::Rates(rates) => Arc::clone(rates),
            };
            let Tenant { name, workload, slo, bounds, scale, .. } = tenant.clone();
            (name, TenantSpec { workload, changes: Vec::new(), slo, bounds, scale, arrivals })
        };
        Ok(self.tenants.iter().enumerate().map(tenant).collect())
    }

    /// A running cluster with all its tenants, after one step, so that there is something to observe.
    pub fn build(&self, seed: u64, steps: usize) -> Result<Built, Error> {
        let tenants = self.tenants(seed, steps)?;
        let spec = self.cluster(seed, steps)?;
        self.assemble(spec, tenants).map_err(|error| self.refuse(error))
    }

    fn assemble(&self, spec: Spec, tenants: Vec<(String, TenantSpec)>) -> Result<Built, Invalid> {
        let mut cluster = Cluster::new(spec)?;
        let mut joined = Vec::with_capacity(tenants.len());
        for (name, spec) in tenants {
            joined.push((cluster.join(spec.clone())?, spec, name));
        }
        for Call { from, to, times } in &self.calls {
            cluster.call(joined[*from].0, joined[*to].0, *times)?;
        }
        cluster.warm_up();
        cluster.advance();
        Ok((cluster, joined))
    }

    fn refuse(&self, error: Invalid) -> Error {
        Error::invalid("", &self.origin, error)
    }
}

fn contents(path: &Path) -> Result<String, Error> {
    let refuse = |error| Error::unreadable(&path.display().to_string(), error);
    let mut text = String::new();
    // One byte more than is read, so that whoever parses it sees that it is too long.
    let mut limited = fs::File::open(path).map_err(refuse)?.take(LARGEST as u64 + 1);
    limited.read_to_string(&mut text).map_err(refuse)?;
    Ok(text)
}
