//! Heartbeats in their compact form.

use uuid::Uuid;

use super::{Bytes, Malformed, body, bytes::put, head};
use crate::{
    action::{Action, Step},
    budget::Moving,
    identity::{AgentId, Epoch, Sequence},
    invalid::Invalid,
    scarcity::{Amount, Claim, Node, NodeId},
    state::LocalState,
    wire::Heartbeat,
};

const ROUND: u8 = 1;
const CLAIM: u8 = 2;
const DETAIL: u8 = 4;
const MOVING: u8 = 8;
/// Behind a claim only.
const NODE: u8 = 16;

/// Bytes of a heartbeat without what is optional, behind its flags.
const PLAIN: usize = 3 + 16 + 2 * 8 + 8 * 8;
const OF_ROUND: usize = 8;
const OF_CLAIM: usize = 7 * 8 + 4;
const OF_MOVING: usize = 2 * 4;
const OF_NODE: usize = 3 * 8;

/// Appends a batch.
pub fn write<'a>(out: &mut Vec<u8>, heartbeats: impl ExactSizeIterator<Item = (AgentId, &'a Heartbeat)>) {
    head(out, heartbeats.len());
    for (agent, beat) in heartbeats {
        let Heartbeat { epoch, sequence, round, state, action, reward, claim, detail, moving } = beat;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(round.is_some(), ROUND) | flag(claim.is_some(), CLAIM);
        let node = claim.and_then(|claim| claim.node);
        out.push(flags | flag(*detail, DETAIL) | flag(moving.is_some(), MOVING) | flag(node.is_some(), NODE));
        out.extend([action.cpu, action.memory, action.replicas].map(|step| step.sign() as u8));
        out.extend_from_slice(agent.0.as_bytes());
        out.extend_from_slice(&epoch.0.to_le_bytes());
        out.extend_from_slice(&sequence.0.to_le_bytes());
        let l = [
            state.slo_preservation,
            state.cpu_utilisation,
            state.memory_utilisation,
            state.arrival_change,
            state.cpu_limit,
            state.memory_limit,
            state.replicas,
        ];
        put(out, &l.map(|unit| unit.get()));
        put(out, &[reward.get()]);
        if let Some(round) = round {
            out.extend_from_slice(&round.to_le_bytes());
        }
        if let Some(Claim { wanted, held, offered, weight, pending, node_utilisation, node: _ }) = claim {
            for amount in [wanted, held] {
                put(out, &[amount.cores.get(), amount.memory_gib.get()]);
            }
            put(out, &[offered.get(), weight.get(), node_utilisation.get()]);
            out.extend_from_slice(&pending.get().to_le_bytes());
        }
        if let Some(Node { id, allocatable }) = node {
            out.extend_from_slice(&id.0.to_le_bytes());
            put(out, &[allocatable.cores.get(), allocatable.memory_gib.get()]);
        }
        if let Some(Moving { millicores, mebibytes }) = moving {
            out.extend_from_slice(&millicores.to_le_bytes());
            out.extend_from_slice(&mebibytes.to_le_bytes());
        }
    }
}

/// The heartbeats of a batch that was found to be whole.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    left: usize,
    bytes: Bytes<'a>,
}

impl<'a> Reader<'a> {
    /// Checks that the bytes are a batch from the first to the last, so that one which is not changes nothing.
    ///
    /// # Errors
    /// If they are not.
    pub fn new(batch: &'a [u8]) -> Result<Self, Malformed> {
        let (count, bytes) = body(batch)?;
        let mut rest = bytes;
        for number in 0..count {
            let flags = rest.u8().ok_or(Malformed::Short(number))?;
            let stray = flags & (CLAIM | NODE) == NODE;
            if stray || flags & !(ROUND | CLAIM | DETAIL | MOVING | NODE) != 0 {
                return Err(Malformed::Unknown(number));
            }
            let more = |flag, length| if flags & flag == 0 { 0 } else { length };
            let length = PLAIN + more(ROUND, OF_ROUND) + more(CLAIM, OF_CLAIM) + more(MOVING, OF_MOVING);
            rest.skip(length + more(NODE, OF_NODE)).ok_or(Malformed::Short(number))?;
        }
        if rest.0.is_empty() { Ok(Self { left: count, bytes }) } else { Err(Malformed::Long(rest.0.len())) }
    }
}

impl Iterator for Reader<'_> {
    type Item = (AgentId, Result<Heartbeat, Invalid>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let bytes = &mut self.bytes;
        let flags = bytes.u8()?;
        let steps = bytes.take::<3>()?;
        let agent = AgentId(Uuid::from_bytes(bytes.take()?));
        let (epoch, sequence) = (Epoch(bytes.u64()?), Sequence(bytes.u64()?));
        let (l, reward) = (bytes.floats::<7>()?, bytes.f64()?);
        let round = if flags & ROUND != 0 { Some(bytes.u64()?) } else { None };
        let claim = if flags & CLAIM != 0 { Some((bytes.floats::<7>()?, bytes.take()?)) } else { None };
        let node = if flags & NODE != 0 { Some((bytes.u64()?, bytes.floats::<2>()?)) } else { None };
        let moving = if flags & MOVING != 0 { Some((bytes.u32()?, bytes.u32()?)) } else { None };
        let heartbeat = || {
            Ok(Heartbeat {
                epoch,
                sequence,
                round,
                state: state(l)?,
                action: action(steps)?,
                reward: reward.try_into()?,
                claim: claim
                    .map(|(floats, pending)| read_claim(floats, u32::from_le_bytes(pending), node))
                    .transpose()?,
                detail: flags & DETAIL != 0,
                moving: moving.map(|(cpu, memory)| Moving::new(cpu.into(), memory.into())).transpose()?,
            })
        };
        Some((agent, heartbeat()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Reader<'_> {}

/// Says which field it was.
fn of(field: &'static str) -> impl Fn(Invalid) -> Invalid {
    move |invalid| Invalid { field: field.to_owned(), ..invalid }
}

fn state([sp, cpu, memory, change, cpu_limit, memory_limit, replicas]: [f64; 7]) -> Result<LocalState, Invalid> {
    Ok(LocalState {
        slo_preservation: sp.try_into().map_err(of("state.slo_preservation"))?,
        cpu_utilisation: cpu.try_into().map_err(of("state.cpu_utilisation"))?,
        memory_utilisation: memory.try_into().map_err(of("state.memory_utilisation"))?,
        arrival_change: change.try_into().map_err(of("state.arrival_change"))?,
        cpu_limit: cpu_limit.try_into().map_err(of("state.cpu_limit"))?,
        memory_limit: memory_limit.try_into().map_err(of("state.memory_limit"))?,
        replicas: replicas.try_into().map_err(of("state.replicas"))?,
    })
}

fn action(steps: [u8; 3]) -> Result<Action, Invalid> {
    let step = |place: usize, field| Step::try_from(i64::from(steps[place] as i8)).map_err(of(field));
    Ok(Action { cpu: step(0, "action.cpu")?, memory: step(1, "action.memory")?, replicas: step(2, "action.replicas")? })
}

fn read_node((id, [cores, memory]): (u64, [f64; 2])) -> Result<Node, Invalid> {
    let allocatable = Amount {
        cores: cores.try_into().map_err(of("claim.node.allocatable.cores"))?,
        memory_gib: memory.try_into().map_err(of("claim.node.allocatable.memory_gib"))?,
    };
    Ok(Node { id: NodeId(id), allocatable })
}

fn read_claim(floats: [f64; 7], pending: u32, node: Option<(u64, [f64; 2])>) -> Result<Claim, Invalid> {
    let [wanted_cores, wanted_memory, held_cores, held_memory, offered, weight, nodes] = floats;
    Ok(Claim {
        wanted: Amount {
            cores: wanted_cores.try_into().map_err(of("claim.wanted.cores"))?,
            memory_gib: wanted_memory.try_into().map_err(of("claim.wanted.memory_gib"))?,
        },
        held: Amount {
            cores: held_cores.try_into().map_err(of("claim.held.cores"))?,
            memory_gib: held_memory.try_into().map_err(of("claim.held.memory_gib"))?,
        },
        offered: offered.try_into().map_err(of("claim.offered"))?,
        weight: weight.try_into().map_err(of("claim.weight"))?,
        pending: u64::from(pending).try_into().map_err(of("claim.pending"))?,
        node_utilisation: nodes.try_into().map_err(of("claim.node_utilisation"))?,
        node: node.map(read_node).transpose()?,
    })
}
