//! `meanfield eval simppo-*`: the publication's tables beside ours.
//!
//! `isolated` trains each function alone, `joint` twelve agents at once with every variant, `churn` adds and takes away
//! agents, `scale` compares 12 with 110 and more. All of it is simulated, in the fluid model, and served on days that
//! nobody trained on. docs/simppo.md says what each figure means.

mod churn;
mod convergence;
mod isolated;
mod joint;
mod page;
mod run;
mod scale;

use meanfield_learner::{Family, Variant};

use crate::args::{EvalArgs, Experiment};

/// How much is run.
struct Scope<'a> {
    args: &'a EvalArgs,
    seeds: u64,
}

impl Scope<'_> {
    /// Each family with each seed.
    fn each(&self) -> impl Iterator<Item = (Family, u64)> + use<> {
        let seeds = self.seeds;
        Family::ALL.into_iter().flat_map(move |family| (1..=seeds).map(move |seed| (family, seed)))
    }

    /// Every variant.
    fn variants(&self) -> &'static [Variant] {
        &Variant::ALL
    }

    fn alone_episodes(&self, family: Family) -> usize {
        match (self.args.quick, family) {
            (true, _) => 50,
            (false, Family::Paper) => 350,
            (false, Family::Default) => 150,
        }
    }

    /// Episodes of twelve agents; a queue's are four times as long.
    fn joint_episodes(&self, family: Family) -> usize {
        match (self.args.quick, family) {
            (true, Family::Paper) => 60,
            (true, Family::Default) => 40,
            (false, Family::Paper) => 400,
            (false, Family::Default) => 120,
        }
    }
}

/// A family by its name.
fn family(name: &str) -> Family {
    if name == Family::Paper.name() { Family::Paper } else { Family::Default }
}

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 5 });
    let scope = Scope { args, seeds };
    match args.experiment {
        Experiment::SimppoJoint => joint::run(&scope),
        Experiment::SimppoChurn => churn::run(&scope),
        Experiment::SimppoScale => scale::run(&scope),
        _ => isolated::run(&scope),
    }
}
