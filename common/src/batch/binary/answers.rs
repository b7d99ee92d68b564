//! Answers in their compact form.

use super::{Bytes, Malformed, body, bytes::put};
use crate::{
    budget::Moving,
    digest::Digest,
    identity::Sequence,
    mean_field::{AuxiliaryState, Detail, Kind, Moments},
    scarcity::{Cores, Gibibytes, Grant, Headroom, Scarcity},
    wire::{Answer, Directives, Lifecycle},
};

const REFUSED: u8 = 0;
const TAKEN: u8 = 1;

const PAUSED: u32 = 1;
const TEAM: u32 = 2;
const SCARCITY: u32 = 4;
const CORES: u32 = 8;
const MEMORY: u32 = 16;
const FORECAST: u32 = 32;
const DETAIL: u32 = 64;
const FALLBACK: u32 = 128;
/// Times 0 for none, or one more than the place among all states.
const LIFECYCLE: u32 = 256;
const ALLOWANCE: u32 = 1024;
const MODELS: u32 = 2048;
const ADVISED_CORES: u32 = 4096;
const ADVISED_MEMORY: u32 = 8192;
const VALID: u32 = 16384;
const NODES: u32 = 32768;
/// Every bit that means something.
const KNOWN: u32 = 65535;

/// The parts of details.
const STATES: u8 = 1;
const CATEGORIES: u8 = 2;
const PERCENTILES: u8 = 4;

/// Why one heartbeat was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The kind of problem, such as `stale-epoch`.
    pub kind: String,
    /// What was wrong.
    pub detail: String,
}

/// Appends that a heartbeat was refused. Texts are cut to what fits.
pub fn refused(out: &mut Vec<u8>, kind: &str, detail: &str) {
    let cut = |text: &str, most: usize| text[..text.floor_char_boundary(most)].to_owned();
    let (kind, detail) = (cut(kind, u8::MAX.into()), cut(detail, u16::MAX.into()));
    out.extend_from_slice(&[REFUSED, kind.len() as u8]);
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(&(detail.len() as u16).to_le_bytes());
    out.extend_from_slice(detail.as_bytes());
}

/// Appends that a heartbeat was taken.
pub fn taken(out: &mut Vec<u8>, answer: &Answer) {
    let Answer { sequence, auxiliary, team_reward, directives, scarcity, forecast, allowance, models } = answer;
    let grant = scarcity.and_then(|scarcity| scarcity.grant);
    let (cores, memory) = (grant.and_then(|grant| grant.cores), grant.and_then(|grant| grant.memory_gib));
    let advice = scarcity.and_then(|scarcity| scarcity.advice);
    let advised = (advice.and_then(|advice| advice.cores), advice.and_then(|advice| advice.memory_gib));
    let valid = scarcity.and_then(|scarcity| scarcity.valid_ms);
    let flags = [
        (directives.paused, PAUSED),
        (team_reward.is_some(), TEAM),
        (scarcity.is_some(), SCARCITY),
        (cores.is_some(), CORES),
        (memory.is_some(), MEMORY),
        (forecast.is_some(), FORECAST),
        (auxiliary.detail.is_some(), DETAIL),
        (directives.fallback, FALLBACK),
        (allowance.is_some(), ALLOWANCE),
        (models.is_some(), MODELS),
        (advised.0.is_some(), ADVISED_CORES),
        (advised.1.is_some(), ADVISED_MEMORY),
        (valid.is_some(), VALID),
        (scarcity.is_some_and(|scarcity| scarcity.nodes), NODES),
    ];
    let flags = flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag);
    let wanted = Lifecycle::ALL.iter().position(|state| directives.lifecycle == Some(*state));
    let flags = flags | (LIFECYCLE * wanted.map_or(0, |place| place as u32 + 1));
    out.push(TAKEN);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&sequence.0.to_le_bytes());
    out.extend_from_slice(&auxiliary.others.to_le_bytes());
    let AuxiliaryState { cpu_limit, memory_limit, vertical, horizontal, slo_preservation, utilisation, .. } = auxiliary;
    for one in [cpu_limit, memory_limit, vertical, horizontal, slo_preservation, utilisation] {
        put(out, &moments(one));
    }
    put(out, team_reward.as_slice());
    if let Some(Scarcity { headroom, price, .. }) = scarcity {
        let Headroom { free, load, saturation, unscheduled, memory } = headroom;
        put(out, &[*free, *load, *saturation, *unscheduled, *memory, *price]);
    }
    put(out, cores.map(Cores::get).as_slice());
    put(out, memory.map(Gibibytes::get).as_slice());
    put(out, advised.0.map(Cores::get).as_slice());
    put(out, advised.1.map(Gibibytes::get).as_slice());
    if let Some(valid) = valid {
        out.extend_from_slice(&valid.to_le_bytes());
    }
    if let Some(digest) = forecast {
        out.extend_from_slice(digest.bytes());
    }
    if let Some(Moving { millicores, mebibytes }) = allowance {
        out.extend_from_slice(&millicores.to_le_bytes());
        out.extend_from_slice(&mebibytes.to_le_bytes());
    }
    if let Some(models) = models {
        out.extend_from_slice(&models.to_le_bytes());
    }
    let Some(Detail { states, categories, percentiles }) = auxiliary.detail.as_deref() else { return };
    let parts = [(states.is_some(), STATES), (categories.is_some(), CATEGORIES), (percentiles.is_some(), PERCENTILES)];
    out.push(parts.iter().filter(|(there, _)| *there).fold(0, |parts, (_, part)| parts | part));
    put(out, states.as_ref().map_or(&[], <[f64; 7]>::as_slice));
    for Kind { others, fields } in categories.iter().flatten() {
        out.extend_from_slice(&others.to_le_bytes());
        put(out, fields.map(|one| moments(&one)).as_flattened());
    }
    put(out, percentiles.as_ref().map_or(&[], |all| all.as_flattened()));
}

fn moments(one: &Moments) -> [f64; 3] {
    [one.sum, one.mean, one.std]
}

/// Reads all answers.
///
/// # Errors
/// If the bytes are not answers from the first to the last.
pub fn answers(bytes: &[u8]) -> Result<Vec<Result<Answer, Refused>>, Malformed> {
    let (count, mut bytes) = body(bytes)?;
    let mut answers = Vec::with_capacity(count);
    for number in 0..count {
        let short = Malformed::Short(number);
        let answer = match bytes.u8().ok_or(short)? {
            REFUSED => Err(read_refused(&mut bytes).ok_or(short)?),
            TAKEN => match bytes.u32().ok_or(short)? {
                flags if flags & !KNOWN == 0 => Ok(read_taken(flags, &mut bytes).ok_or(short)?),
                _ => return Err(Malformed::Unknown(number)),
            },
            _ => return Err(Malformed::Unknown(number)),
        };
        answers.push(answer);
    }
    if bytes.0.is_empty() { Ok(answers) } else { Err(Malformed::Long(bytes.0.len())) }
}

fn read_refused(bytes: &mut Bytes<'_>) -> Option<Refused> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let length = bytes.u8()?;
    let kind = text(bytes.skip(length.into())?);
    let length = u16::from_le_bytes(bytes.take()?);
    Some(Refused { kind, detail: text(bytes.skip(length.into())?) })
}

fn read_taken(flags: u32, bytes: &mut Bytes<'_>) -> Option<Answer> {
    let has = |flag: u32| flags & flag != 0;
    let (sequence, others) = (Sequence(bytes.u64()?), bytes.u64()?);
    let [cpu_limit, memory_limit, vertical, horizontal, slo_preservation, utilisation] = fields(bytes)?;
    let team_reward = if has(TEAM) { Some(bytes.f64()?) } else { None };
    let scarcity = if has(SCARCITY) { Some(bytes.floats::<6>()?) } else { None };
    let grant = read_cap(bytes, has(CORES), has(MEMORY))?;
    let advice = read_cap(bytes, has(ADVISED_CORES), has(ADVISED_MEMORY))?;
    let valid_ms = if has(VALID) { Some(bytes.u64()?) } else { None };
    let scarcity = scarcity.map(|[free, load, saturation, unscheduled, memory, price]| {
        let headroom = Headroom { free, load, saturation, unscheduled, memory };
        Scarcity { headroom, price, grant, valid_ms, advice, nodes: has(NODES) }
    });
    let forecast = if has(FORECAST) { Some(Digest::from(bytes.take()?)) } else { None };
    let allowance = if has(ALLOWANCE) { Some(Moving::clamped(bytes.u32()?.into(), bytes.u32()?.into())) } else { None };
    let models = if has(MODELS) { Some(bytes.u64()?) } else { None };
    let detail = if has(DETAIL) { Some(Box::new(read_detail(bytes)?)) } else { None };
    let auxiliary =
        AuxiliaryState { others, cpu_limit, memory_limit, vertical, horizontal, slo_preservation, utilisation, detail };
    let lifecycle =
        (flags / LIFECYCLE % 4).checked_sub(1).and_then(|place| Lifecycle::ALL.get(place as usize).copied());
    let directives = Directives { paused: has(PAUSED), fallback: has(FALLBACK), lifecycle };
    Some(Answer { sequence, auxiliary, team_reward, directives, scarcity, forecast, allowance, models })
}

/// A cap of the parts that there are; none where there is neither.
fn read_cap(bytes: &mut Bytes<'_>, cores: bool, memory: bool) -> Option<Option<Grant>> {
    let cores = if cores { Some(Cores::clamped(bytes.f64()?)) } else { None };
    let memory_gib = if memory { Some(Gibibytes::clamped(bytes.f64()?)) } else { None };
    Some((cores.is_some() || memory_gib.is_some()).then_some(Grant { cores, memory_gib }))
}

fn fields(bytes: &mut Bytes<'_>) -> Option<[Moments; 6]> {
    let mut fields = [Moments::default(); 6];
    for field in &mut fields {
        let [sum, mean, std] = bytes.floats()?;
        *field = Moments { sum, mean, std };
    }
    Some(fields)
}

fn read_detail(bytes: &mut Bytes<'_>) -> Option<Detail> {
    let parts = bytes.u8()?;
    let has = |part: u8| parts & part != 0;
    let mut detail = Detail::default();
    if has(STATES) {
        detail.states = Some(bytes.floats()?);
    }
    if has(CATEGORIES) {
        for kind in detail.categories.insert(Default::default()) {
            *kind = Kind { others: bytes.u64()?, fields: fields(bytes)? };
        }
    }
    if has(PERCENTILES) {
        for percentiles in detail.percentiles.insert(Default::default()) {
            *percentiles = bytes.floats()?;
        }
    }
    Some(detail)
}
