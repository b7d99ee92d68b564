//! The central clairvoyant: it knows every rate, plans what each tenant needs, and serves the most valuable needs first.

use meanfield_agent::{
    guard::{self, Verdict},
    yardstick,
};
use meanfield_common::{
    resources::{MilliCores, Scale},
    scarcity::{
        Amount, Capacity, Claim, Cores, Gibibytes, Pods, Share,
        allocation::{Need, Outcome, Slot, allocate},
    },
};
use meanfield_simulator::{
    cluster::{Spec, TenantSpec},
    scenario::{Scenario, Start},
};

/// The size of its pods: that with which everybody starts.
const SIZE: MilliCores = MilliCores(1500);

/// A plan for each tenant, step by step.
pub fn plans(scenario: &Scenario, seed: u64, capacity: &Capacity) -> anyhow::Result<Vec<Vec<Scale>>> {
    let cluster = scenario.cluster();
    let tenants = (0..scenario.tenants()).map(|place| scenario.tenant(place, seed, Start::Sized));
    let tenants: Vec<TenantSpec> = tenants.collect::<Result<_, _>>()?;
    let mut plans: Vec<_> = tenants.iter().map(|tenant| yardstick::replicas_of(tenant, &cluster, SIZE)).collect();
    let names = (0..tenants.len()).map(|place| format!("{place:05}").parse());
    let mut slots: Vec<_> = names.map(|name| name.map(Slot::new)).collect::<Result<_, _>>()?;
    let (mut order, mut outcome) = (Vec::new(), Outcome::default());
    for step in 0..scenario.steps() {
        // The first entry of a plan is for the second step.
        let later = (step + 1) % scenario.steps();
        for (place, ((slot, plan), tenant)) in slots.iter_mut().zip(&plans).zip(&tenants).enumerate() {
            let demand = tenant.arrivals[later] * tenant.workload.cpu_seconds();
            slot.need = Some(Need::from(&claim(&plan[step], demand, scenario, place, &cluster)));
        }
        outcome = allocate(capacity, &mut slots, &mut order, outcome, 1.0, 0.0);
        for ((slot, plan), tenant) in slots.iter().zip(&mut plans).zip(&tenants) {
            let Some(grant) = &slot.grant else { continue };
            let verdict = Verdict { scale: plan[step], clip: None };
            let request = requested(plan[step].limit.cpu, &cluster);
            plan[step] = guard::cut(&tenant.bounds, verdict, request, grant).scale;
        }
    }
    Ok(plans)
}

fn requested(limit: MilliCores, cluster: &Spec) -> MilliCores {
    MilliCores((limit.0 as f64 / cluster.overcommit).ceil() as u64)
}

/// What a plan claims.
fn claim(scale: &Scale, demand: f64, scenario: &Scenario, place: usize, cluster: &Spec) -> Claim {
    let replicas = f64::from(scale.replicas);
    let amount = Amount {
        cores: Cores::clamped(replicas * requested(scale.limit.cpu, cluster).cores()),
        memory_gib: Gibibytes::clamped(replicas * scale.limit.memory.as_mebi() / 1024.0),
    };
    Claim {
        wanted: amount,
        held: amount,
        // A plan needs no evidence.
        offered: Cores::clamped(demand.max(amount.cores.get())),
        weight: scenario.weight(place),
        pending: Pods::default(),
        node_utilisation: Share::clamped(0.0),
        node: None,
    }
}
