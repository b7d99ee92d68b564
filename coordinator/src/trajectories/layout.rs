//! How steps and summaries are laid out in bytes. Numbers are little-endian.
//!
//! A chunk holds steps of one episode that arrived together:
//!
//! | bytes | hold |
//! |---|---|
//! | 1 | the version: 1 or 2 |
//! | 8 | when it arrived, in milliseconds since 1970 |
//! | 4 | how many steps follow |
//! | each step | see below |
//! | 8 | XXH3 over everything before |
//!
//! A step of version 2, which is written today:
//!
//! | bytes | hold |
//! |---|---|
//! | 1 | flags: 1 the state is the next state of the step before and left out, 2 it has verdicts, 4 its number is the one before plus 1 and left out |
//! | 4 | its number, unless left out |
//! | 56 | the state: seven floats, unless left out |
//! | 1 | the action: 9 cpu + 3 memory + replicas, each 0 down, 1 stay, 2 up |
//! | 8 | the reward |
//! | 56 | the next state |
//! | 1 + ... | how many verdicts; for each its length in a byte and its text; unless there are none |
//!
//! A step of version 1 has everything but the flags, always. Both are read; only the last version is written, and what is
//! there stays as it is until retention removes it. A program that finds a version above its own refuses it.

use meanfield_common::{
    action::{Action, Step},
    identity::{Category, PoolName},
    reward::Reward,
    state::{LocalState, Unit},
    trajectory::{MOST_VERDICTS, Recorded, Verdict, Verdicts},
};
use xxhash_rust::xxh3::xxh3_64;

const FULL: u8 = 1;
const CHAINED: u8 = 2;
const SAME_STATE: u8 = 1;
const HAS_VERDICTS: u8 = 2;
const NEXT_NUMBER: u8 = 4;
const CHECK: usize = 8;
/// A step takes at least its flags, action, reward and next state.
const LEAST_STEP: usize = 66;

/// Steps that arrived together, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// When, in milliseconds since 1970.
    pub received: u64,
    /// The steps.
    pub steps: Vec<Recorded>,
}

/// Why bytes are not what this or an earlier version wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(&'static str);

/// The bytes of steps of one episode.
#[must_use]
pub fn encode(received: u64, steps: &[Recorded]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + steps.len() * 72);
    bytes.push(CHAINED);
    bytes.extend(received.to_le_bytes());
    bytes.extend((steps.len() as u32).to_le_bytes());
    let mut before: Option<&Recorded> = None;
    for one in steps {
        let same = before.is_some_and(|before| same_bits(&before.next_state, &one.state));
        let next = before.is_some_and(|before| before.step.checked_add(1) == Some(one.step));
        let said = !one.verdicts.is_empty();
        bytes.push(u8::from(same) * SAME_STATE + u8::from(said) * HAS_VERDICTS + u8::from(next) * NEXT_NUMBER);
        if !next {
            bytes.extend(one.step.to_le_bytes());
        }
        if !same {
            put_state(&mut bytes, &one.state);
        }
        bytes.push(action_number(&one.action));
        bytes.extend_from_slice(&one.reward.get().to_le_bytes());
        put_state(&mut bytes, &one.next_state);
        if said {
            put_verdicts(&mut bytes, &one.verdicts);
        }
        before = Some(one);
    }
    seal(bytes)
}

/// The steps in these bytes, of an episode that is known from the key.
///
/// # Errors
/// If they are not what this or an earlier version writes.
pub fn decode(episode: u64, bytes: &[u8]) -> Result<Chunk, Damage> {
    let mut rest = Reader(checked(bytes)?);
    let version = rest.byte()?;
    if !(FULL..=CHAINED).contains(&version) {
        return Err(Damage("its version is not 1 or 2, which this program knows"));
    }
    let received = rest.long()?;
    let count = rest.number()? as usize;
    if count > rest.0.len() / LEAST_STEP {
        return Err(Damage("it has fewer steps than it says"));
    }
    let mut steps: Vec<Recorded> = Vec::with_capacity(count);
    for _ in 0..count {
        let before = steps.last();
        let flags = if version == FULL { HAS_VERDICTS } else { rest.byte()? };
        if flags > SAME_STATE + HAS_VERDICTS + NEXT_NUMBER {
            return Err(Damage("a step has unknown flags"));
        }
        let step = if flags & NEXT_NUMBER == 0 {
            rest.number()?
        } else {
            before.and_then(|before| before.step.checked_add(1)).ok_or(Damage("a step has no number"))?
        };
        if before.is_some_and(|before| before.step >= step) {
            return Err(Damage("its steps are not in order"));
        }
        let state = if flags & SAME_STATE == 0 {
            rest.state()?
        } else {
            before.ok_or(Damage("a step has no state"))?.next_state
        };
        let action = rest.action()?;
        let reward = Reward::try_from(rest.float()?).map_err(|_| Damage("a reward is out of bounds"))?;
        let next_state = rest.state()?;
        let verdicts = if flags & HAS_VERDICTS == 0 { Verdicts::default() } else { rest.verdicts()? };
        steps.push(Recorded { episode, step, state, action, reward, next_state, verdicts });
    }
    if rest.0.is_empty() { Ok(Chunk { received, steps }) } else { Err(Damage("something follows its last step")) }
}

/// What is kept of an episode beside its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The pool of the agent.
    pub pool: PoolName,
    /// What its workload needs most.
    pub category: Category,
    /// How many steps there are.
    pub steps: u32,
    /// The sum of their rewards.
    pub reward: f64,
    /// The lowest number of a step.
    pub first: u32,
    /// The highest number of a step.
    pub last: u32,
    /// When the first of them arrived, in milliseconds since 1970.
    pub since: u64,
    /// When the last of them arrived.
    pub until: u64,
    /// How many bytes its chunks have.
    pub bytes: u64,
    /// Which segments hold its chunks, oldest first.
    pub segments: Vec<u64>,
}

const SUMMARY: u8 = 1;

impl Summary {
    /// The bytes of a summary: a version, the fields in order, and XXH3 over all of it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![SUMMARY, category_number(self.category), self.pool.as_str().len() as u8];
        bytes.extend(self.pool.as_str().as_bytes());
        bytes.extend(self.steps.to_le_bytes());
        bytes.extend(self.reward.to_le_bytes());
        bytes.extend(self.first.to_le_bytes());
        bytes.extend(self.last.to_le_bytes());
        for long in [self.since, self.until, self.bytes] {
            bytes.extend(long.to_le_bytes());
        }
        self.segments.iter().for_each(|segment| bytes.extend(segment.to_le_bytes()));
        seal(bytes)
    }

    /// Reads one back.
    ///
    /// # Errors
    /// If the bytes are not what [`Self::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut rest = Reader(checked(bytes)?);
        if rest.byte()? != SUMMARY {
            return Err(Damage("its version is not 1, which this program knows"));
        }
        let category = *Category::ALL.get(rest.byte()? as usize).ok_or(Damage("there is no such category"))?;
        let length = rest.byte()? as usize;
        let pool = std::str::from_utf8(rest.take(length)?).ok().and_then(|pool| pool.parse().ok());
        let mut summary = Self {
            pool: pool.ok_or(Damage("its pool has no name"))?,
            category,
            steps: rest.number()?,
            reward: rest.float()?,
            first: rest.number()?,
            last: rest.number()?,
            since: rest.long()?,
            until: rest.long()?,
            bytes: rest.long()?,
            segments: Vec::new(),
        };
        while !rest.0.is_empty() {
            summary.segments.push(rest.long()?);
        }
        Ok(summary)
    }
}

/// A category as a byte.
pub(super) fn category_number(category: Category) -> u8 {
    match category {
        Category::Cpu => 0,
        Category::Memory => 1,
        Category::Io => 2,
    }
}

/// Appends the check.
pub(super) fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let check = xxh3_64(&bytes);
    bytes.extend(check.to_le_bytes());
    bytes
}

/// What is in front of the check, if that is right.
pub(super) fn checked(bytes: &[u8]) -> Result<&[u8], Damage> {
    let short = Damage("it is too short");
    let (content, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK).ok_or(short)?).ok_or(short)?;
    if xxh3_64(content).to_le_bytes() == check {
        Ok(content)
    } else {
        Err(Damage("its check does not fit its content"))
    }
}

fn units(state: &LocalState) -> [Unit; 7] {
    [
        state.slo_preservation,
        state.cpu_utilisation,
        state.memory_utilisation,
        state.arrival_change,
        state.cpu_limit,
        state.memory_limit,
        state.replicas,
    ]
}

/// The seven numbers of a state in the order of its fields.
pub(super) fn numbers(state: &LocalState) -> [f64; 7] {
    units(state).map(Unit::get)
}

/// A state of seven numbers; `None` where one is out of bounds.
pub(super) fn state(numbers: [f64; 7]) -> Option<LocalState> {
    let mut units = [Unit::default(); 7];
    for (unit, number) in units.iter_mut().zip(numbers) {
        *unit = Unit::try_from(number).ok()?;
    }
    let [slo_preservation, cpu_utilisation, memory_utilisation, arrival_change, cpu_limit, memory_limit, replicas] =
        units;
    Some(LocalState {
        slo_preservation,
        cpu_utilisation,
        memory_utilisation,
        arrival_change,
        cpu_limit,
        memory_limit,
        replicas,
    })
}

/// Equal to the bit: what is left out must come back as it was.
fn same_bits(one: &LocalState, other: &LocalState) -> bool {
    units(one).iter().zip(units(other)).all(|(one, other)| one.get().to_bits() == other.get().to_bits())
}

fn put_state(bytes: &mut Vec<u8>, state: &LocalState) {
    let mut seven = [0; 56];
    for (place, unit) in seven.chunks_exact_mut(8).zip(units(state)) {
        place.copy_from_slice(&unit.get().to_le_bytes());
    }
    bytes.extend_from_slice(&seven);
}

fn put_verdicts(bytes: &mut Vec<u8>, verdicts: &Verdicts) {
    bytes.push(verdicts.as_slice().len() as u8);
    for verdict in verdicts.as_slice() {
        bytes.push(verdict.as_str().len() as u8);
        bytes.extend(verdict.as_str().as_bytes());
    }
}

fn action_number(action: &Action) -> u8 {
    let digit = |step: Step| (step.sign() + 1) as u8;
    9 * digit(action.cpu) + 3 * digit(action.memory) + digit(action.replicas)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damage("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        self.take(N)?.try_into().map_err(|_| Damage("it ends too early"))
    }

    fn byte(&mut self) -> Result<u8, Damage> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    fn float(&mut self) -> Result<f64, Damage> {
        self.array().map(f64::from_le_bytes)
    }

    fn state(&mut self) -> Result<LocalState, Damage> {
        let mut numbers = [0.0; 7];
        for number in &mut numbers {
            *number = self.float()?;
        }
        state(numbers).ok_or(Damage("a state is out of bounds"))
    }

    fn action(&mut self) -> Result<Action, Damage> {
        let number = self.byte()?;
        let step = |digit: u8| Step::try_from(i64::from(digit) - 1).map_err(|_| Damage("there is no such action"));
        Ok(Action { cpu: step(number / 9)?, memory: step(number / 3 % 3)?, replicas: step(number % 3)? })
    }

    fn verdicts(&mut self) -> Result<Verdicts, Damage> {
        let bad = Damage("its verdicts are none");
        let count = self.byte()? as usize;
        if count > MOST_VERDICTS {
            return Err(bad);
        }
        let mut verdicts: Vec<Verdict> = Vec::with_capacity(count);
        for _ in 0..count {
            let length = self.byte()? as usize;
            let text = std::str::from_utf8(self.take(length)?).map_err(|_| bad)?;
            verdicts.push(text.parse().map_err(|_| bad)?);
        }
        Verdicts::try_from(verdicts).map_err(|_| bad)
    }
}

#[cfg(test)]
mod tests;
