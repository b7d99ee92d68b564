//! `meanfield eval`: experiments whose tables stand in the docs.
//!
//! `baselines` runs every rule-based autoscaler, the reactive queue model and the yardsticks over the same simulated
//! days; `regimes` goes from plenty to overload, with and without coordination; `simppo-*` stand beside the tables of a
//! publication; `fluid` compares the two models of the simulator. A report folder holds every result; what is there already is
//! not computed again.

mod baselines;
pub mod cell;
pub mod contestant;
mod corrections;
mod fluid;
mod forecast;
mod layers;
pub mod load;
mod networks;
pub mod regimes;
mod report;
mod simppo;
mod statistics;
pub mod tuning;
pub mod workers;

use meanfield_common::invalid::within;

use crate::args::{EvalArgs, Experiment};

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    within("--limits", args.limits, 1.0, 100.0)?;
    match args.experiment {
        Experiment::Baselines => baselines::run(args),
        Experiment::Fluid => fluid::run(args),
        Experiment::Layers | Experiment::Frontier | Experiment::Shift => layers::run(args),
        Experiment::Forecast => forecast::run(args),
        Experiment::Regimes => regimes::run(args),
        Experiment::SimppoIsolated | Experiment::SimppoJoint | Experiment::SimppoChurn | Experiment::SimppoScale => {
            simppo::run(args)
        }
    }
}
