//! One connection's part of the load: its own agents, in turn, each request when it is due.

use std::{io, time::Instant};

use meanfield_common::{
    batch::binary,
    identity::{AgentId, Epoch},
    wire::{Heartbeat, Registered},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Load, Measured, Progress};
use crate::{
    client::{Connection, JSON, post},
    mischief::Mischief,
    pace::{Pace, until},
    swarm::step,
};

/// How often a flood repeats a request.
const FLOOD: usize = 16;
/// Bytes of a heartbeat in the compact form without round and claim, and of the head in front of all.
const COMPACT: usize = 100;
const HEAD: usize = 8;

struct Member {
    agent: AgentId,
    epoch: Epoch,
    sequence: u64,
}

pub(super) struct Task {
    load: Load,
    progress: Progress,
    place: u64,
    members: Vec<Member>,
    next: usize,
    random: ChaCha8Rng,
}

/// A request, and how each of its heartbeats misbehaves.
struct Planned {
    request: Vec<u8>,
    mischief: Vec<Option<Mischief>>,
}

impl Task {
    pub(super) fn new(load: Load, progress: Progress, place: u64, own: Vec<Registered>) -> Self {
        let member = |one: Registered| Member { agent: one.agent, epoch: one.epoch, sequence: 0 };
        let random = ChaCha8Rng::seed_from_u64(load.seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { load, progress, place, members: own.into_iter().map(member).collect(), next: 0, random }
    }

    pub(super) async fn run(mut self, pace: Pace, connections: u64, start: Instant) -> io::Result<Measured> {
        let mut link = self.load.swarm.connect().await?;
        let mut measured = Measured::new()?;
        for number in (self.place..).step_by(connections as usize) {
            let due = pace.due(number);
            if due >= self.load.duration {
                break;
            }
            // Made before it is due, so that making it costs no latency.
            let planned = self.plan()?;
            let due = start + due;
            until(due).await;
            let sent = Instant::now();
            self.send(&mut link, &planned, false).await?;
            let done = Instant::now();
            measured.corrected.record(done.saturating_duration_since(due));
            measured.service.record(done.saturating_duration_since(sent));
            if self.load.mischief.contains(&Mischief::Flood) && self.random.random_bool(self.load.share) {
                for _ in 0..FLOOD {
                    self.send(&mut link, &planned, true).await?;
                }
            }
        }
        Ok(measured)
    }

    fn plan(&mut self) -> io::Result<Planned> {
        if self.load.batch == 1 {
            let (agent, beat, mischief) = self.heartbeat()?;
            let mut body = serde_json::to_vec(&beat)?;
            if mischief == Some(Mischief::Nan) {
                body = without_number(&String::from_utf8_lossy(&body)).into_bytes();
            }
            let request = post(&format!("/v1/agents/{agent}/heartbeat"), &self.load.swarm.token, JSON, &body);
            return Ok(Planned { request, mischief: vec![mischief] });
        }
        let (mut beats, mut all) = (Vec::with_capacity(self.load.batch), Vec::with_capacity(self.load.batch));
        for _ in 0..self.load.batch {
            let (agent, beat, mischief) = self.heartbeat()?;
            beats.push((agent, beat));
            all.push(mischief);
        }
        let mut body = Vec::with_capacity(HEAD + COMPACT * beats.len());
        binary::write(&mut body, beats.iter().map(|(agent, beat)| (*agent, beat)));
        for (number, _) in all.iter().enumerate().filter(|(_, mischief)| **mischief == Some(Mischief::Nan)) {
            let end = HEAD + COMPACT * (number + 1);
            body[end - 8..end].copy_from_slice(&f64::NAN.to_le_bytes());
        }
        let request = post("/v1/heartbeats", &self.load.swarm.token, binary::HEARTBEATS, &body);
        Ok(Planned { request, mischief: all })
    }

    /// The next agent's next heartbeat.
    fn heartbeat(&mut self) -> io::Result<(AgentId, Heartbeat, Option<Mischief>)> {
        let ways: Vec<_> = self.load.mischief.iter().filter(|way| way.must_fail()).collect();
        let bad = !ways.is_empty() && self.random.random_bool(self.load.share);
        let way = if bad { Some(*ways[self.random.random_range(0..ways.len())]) } else { None };
        let count = self.members.len();
        let member = &mut self.members[self.next % count];
        self.next += 1;
        // Nothing can be replayed before there was anything.
        let way = way.filter(|way| *way != Mischief::Replay || member.sequence > 0);
        let beat = step(member.epoch, member.sequence + 1)?;
        if way.is_none() {
            member.sequence += 1;
        }
        Ok((member.agent, way.map_or(beat, |way| way.twist(beat)), way))
    }

    async fn send(&self, link: &mut Connection, planned: &Planned, again: bool) -> io::Result<()> {
        let answer = link.send(&planned.request).await?;
        // A flood may be turned away.
        if again && answer.status == 429 {
            return Ok(());
        }
        let good = (200..300).contains(&answer.status);
        if self.load.batch == 1 {
            // A broken coordinator refuses nothing, and has not refused what it should either.
            if answer.status >= 500 {
                self.progress.surprise(|| format!("{}: {}", answer.status, String::from_utf8_lossy(answer.body)));
                return Ok(());
            }
            let reason = (!good).then(|| String::from_utf8_lossy(answer.body));
            self.progress.judge(planned.mischief.first().copied().flatten(), reason.as_deref());
            return Ok(());
        }
        let answers = if good { binary::answers(answer.body).ok() } else { None };
        let Some(answers) = answers.filter(|answers| answers.len() == planned.mischief.len()) else {
            let text = String::from_utf8_lossy(answer.body);
            self.progress.surprise(|| format!("a batch was answered with {}: {text}", answer.status));
            return Ok(());
        };
        for (mischief, answer) in planned.mischief.iter().zip(answers) {
            let reason = answer.err().map(|refused| format!("{}: {}", refused.kind, refused.detail));
            self.progress.judge(*mischief, reason.as_deref());
        }
        Ok(())
    }
}

/// The same heartbeat with a reward that is no number.
fn without_number(body: &str) -> String {
    const REWARD: &str = "\"reward\":";
    let Some(at) = body.find(REWARD) else { return body.to_owned() };
    let (head, rest) = body.split_at(at + REWARD.len());
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    format!("{head}NaN{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_replaced_wherever_it_stands() {
        assert_eq!(without_number(r#"{"reward":0.5,"x":1}"#), r#"{"reward":NaN,"x":1}"#);
        assert_eq!(without_number(r#"{"x":1,"reward":-1e-7}"#), r#"{"x":1,"reward":NaN}"#);
    }

    #[test]
    fn a_plain_heartbeat_takes_a_hundred_bytes() {
        let mut body = Vec::new();
        let beat = step(Epoch(1), 1).unwrap();
        binary::write(&mut body, [(AgentId(Default::default()), &beat); 2].into_iter());
        assert_eq!(body.len(), HEAD + 2 * COMPACT);
        assert_eq!(body[body.len() - 8..], beat.reward.get().to_le_bytes(), "the reward is the last of it");
    }
}
