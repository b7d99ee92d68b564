//! Batches in their compact form read back as written, and what is no batch is refused.

#![allow(clippy::unwrap_used)] // helpers of tests may fail as tests do

use meanfield_common::{
    action::{Action, Step},
    batch::binary::{self, Malformed, Reader},
    budget::Moving,
    digest::Digest,
    identity::{AgentId, Epoch, Sequence},
    mean_field::{AuxiliaryState, Detail, Kind, Moments},
    scarcity::{Amount, Claim, Cores, Gibibytes, Grant, Headroom, Node, NodeId, Pods, Scarcity, Share, Weight},
    state::{LocalState, Unit},
    wire::{Answer, Directives, Heartbeat, Lifecycle},
};
use proptest::prelude::*;

fn moving() -> impl Strategy<Value = Option<Moving>> {
    prop::option::of((0..=1_u64 << 30, 0..=1_u64 << 30))
        .prop_map(|of| of.map(|(cpu, memory)| Moving::clamped(cpu, memory)))
}

fn heartbeat() -> impl Strategy<Value = (AgentId, Heartbeat)> {
    let numbers = (any::<u128>(), any::<u64>(), any::<u64>(), any::<Option<u64>>());
    let shape = (prop::array::uniform7(-1.0..=1.0_f64), prop::array::uniform3(-1..=1_i64), -1e6..=1e6_f64);
    let claim = prop::option::of((
        prop::array::uniform5(0.0..=1e6_f64),
        0.001..=1000.0_f64,
        0..=1_000_000_u32,
        any::<Option<u64>>(),
    ));
    (numbers, shape, claim, any::<bool>(), moving()).prop_map(
        |((id, epoch, sequence, round), (l, action, reward), claim, detail, moving)| {
            let [
                slo_preservation,
                cpu_utilisation,
                memory_utilisation,
                arrival_change,
                cpu_limit,
                memory_limit,
                replicas,
            ] = l.map(Unit::clamped);
            let [cpu, memory, horizontal] = action.map(|step| Step::try_from(step).unwrap());
            let claim = claim.map(|([a, b, c, d, offered], weight, pending, node)| Claim {
                wanted: Amount { cores: Cores::clamped(a), memory_gib: Gibibytes::clamped(b) },
                held: Amount { cores: Cores::clamped(c), memory_gib: Gibibytes::clamped(d) },
                offered: Cores::clamped(offered),
                weight: Weight::clamped(weight),
                pending: Pods::clamped(pending),
                node_utilisation: Share::clamped(weight / 1000.0),
                node: node.map(|id| Node {
                    id: NodeId(id),
                    allocatable: Amount { cores: Cores::clamped(d), memory_gib: Gibibytes::clamped(a) },
                }),
            });
            let beat = Heartbeat {
                epoch: Epoch(epoch),
                sequence: Sequence(sequence),
                round,
                state: LocalState {
                    slo_preservation,
                    cpu_utilisation,
                    memory_utilisation,
                    arrival_change,
                    cpu_limit,
                    memory_limit,
                    replicas,
                },
                action: Action { cpu, memory, replicas: horizontal },
                reward: reward.try_into().unwrap(),
                claim,
                detail,
                moving,
            };
            (AgentId(uuid::Uuid::from_u128(id)), beat)
        },
    )
}

fn moments() -> impl Strategy<Value = Moments> {
    prop::array::uniform3(-1e9..1e9_f64).prop_map(|[sum, mean, std]| Moments { sum, mean, std })
}

fn answer() -> impl Strategy<Value = Answer> {
    let fields = || prop::array::uniform6(moments());
    // A grant that grants nothing is none.
    let grant = || {
        (prop::option::of(0.0..1e6_f64), prop::option::of(0.0..1e6_f64)).prop_map(|(cores, gib)| {
            (cores.is_some() || gib.is_some())
                .then_some(Grant { cores: cores.map(Cores::clamped), memory_gib: gib.map(Gibibytes::clamped) })
        })
    };
    let told = (grant(), grant(), any::<Option<u64>>(), any::<bool>());
    let scarcity = prop::option::of((prop::array::uniform6(-2.0..2.0_f64), told));
    let detail = (1..8_u8, prop::array::uniform7(-1.0..1.0_f64), fields(), prop::array::uniform3(-2.0..2.0_f64));
    let detail = prop::option::of(detail);
    let rest = (prop::option::of(-1e6..1e6_f64), any::<bool>(), prop::option::of(any::<[u8; 32]>()));
    let lifecycle = prop::option::of(prop::sample::select(&Lifecycle::ALL[..]));
    let orders = (any::<bool>(), lifecycle, moving());
    let all = (any::<(u64, u64)>(), fields(), scarcity, detail, rest, orders);
    all.prop_map(|(numbers, fields, scarcity, detail, rest, (fallback, lifecycle, allowance))| {
        let [cpu_limit, memory_limit, vertical, horizontal, slo_preservation, utilisation] = fields;
        let detail = detail.map(|(parts, states, fields, percentiles)| Detail {
            states: (parts & 1 > 0).then_some(states),
            categories: (parts & 2 > 0).then_some([1, 2, 3].map(|others| Kind { others, fields })),
            percentiles: (parts & 4 > 0).then_some([percentiles; 6]),
        });
        let scarcity = scarcity.map(|([free, load, saturation, unscheduled, memory, price], told)| Scarcity {
            headroom: Headroom { free, load, saturation, unscheduled, memory },
            price,
            grant: told.0,
            advice: told.1,
            valid_ms: told.2,
            nodes: told.3,
        });
        Answer {
            sequence: Sequence(numbers.0),
            auxiliary: AuxiliaryState {
                others: numbers.1,
                cpu_limit,
                memory_limit,
                vertical,
                horizontal,
                slo_preservation,
                utilisation,
                detail: detail.map(Box::new),
            },
            team_reward: rest.0,
            directives: Directives { paused: rest.1, fallback, lifecycle },
            scarcity,
            forecast: rest.2.map(Digest::from),
            allowance,
            models: (numbers.0 % 2 == 0).then_some(numbers.1),
        }
    })
}

proptest! {
    #[test]
    fn heartbeats_read_back_as_written(beats in prop::collection::vec(heartbeat(), 0..20)) {
        let mut bytes = Vec::new();
        binary::write(&mut bytes, beats.iter().map(|(agent, beat)| (*agent, beat)));
        let read: Vec<_> = Reader::new(&bytes).unwrap().collect();
        prop_assert_eq!(read, beats.into_iter().map(|(agent, beat)| (agent, Ok(beat))).collect::<Vec<_>>());
        for cut in 0..bytes.len() {
            prop_assert!(Reader::new(&bytes[..cut]).is_err());
        }
        bytes.push(0);
        prop_assert_eq!(Reader::new(&bytes).unwrap_err(), Malformed::Long(1));
    }

    #[test]
    fn answers_read_back_as_written(all in prop::collection::vec(prop::result::maybe_ok(answer(), ".{0,300}"), 0..8)) {
        let mut bytes = Vec::new();
        binary::head(&mut bytes, all.len());
        for one in &all {
            match one {
                Ok(answer) => binary::taken(&mut bytes, answer),
                Err(detail) => binary::refused(&mut bytes, "stale-epoch", detail),
            }
        }
        let read = binary::answers(&bytes).unwrap();
        let read: Vec<_> = read.into_iter().map(|one| one.map_err(|refused| refused.detail)).collect();
        prop_assert_eq!(read, all);
        for cut in 0..bytes.len() {
            prop_assert!(binary::answers(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), count in 0..4_u8) {
        let bytes = [&[1, 0, 0, 0, count, 0, 0, 0], &bytes[..]].concat();
        if let Ok(batch) = Reader::new(&bytes) {
            prop_assert_eq!(batch.count(), usize::from(count));
        }
        let _ = binary::answers(&bytes);
    }
}
