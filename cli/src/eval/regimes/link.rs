//! The way to the coordinator, with what may happen on it: prices instead of grants, old answers, lies.

use std::collections::VecDeque;

use meanfield_agent::link::{Error, Link};
use meanfield_common::{
    identity::AgentId,
    scarcity::{Cores, Grant, Scarcity, Weight, allocation::FLOOR},
    wire::{Answer, Heartbeat, Leave, Register, Registered},
};
use serde::{Deserialize, Serialize};

use crate::in_process::InProcess;

/// How much lower the price must be before one who yielded to it comes back.
const RETURN: f64 = 0.8;

/// How agents coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coordination {
    /// Not at all.
    None,
    /// Not at all, but the critic sees how much room there is.
    Headroom,
    /// Each yields when a core costs more than it is worth to it.
    Price,
    /// The coordinator says who yields.
    Grants,
}

/// A lie of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lie {
    /// Claims ten times what it wants.
    Claim,
    /// Claims ten times what it wants and three times the work.
    Work,
    /// Claims a tenth of the work and of what it wants, so as to look cheap.
    Small,
    /// Claims a weight of ten.
    Weight,
}

impl Lie {
    pub const ALL: [Self; 4] = [Self::Claim, Self::Work, Self::Small, Self::Weight];
}

/// What is different from an honest day with fresh answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Twist {
    /// Rounds that answers are older than they need be.
    pub stale: usize,
    /// What the liar says.
    pub lie: Option<Lie>,
}

/// A coordinator in the same process, behind all that.
pub struct Way {
    link: InProcess,
    coordination: Coordination,
    stale: usize,
    lie: Option<Lie>,
    yields: bool,
    old: VecDeque<Option<Scarcity>>,
}

impl Way {
    pub fn new(link: InProcess, coordination: Coordination, stale: usize, lie: Option<Lie>) -> Self {
        Self { link, coordination, stale, lie, yields: false, old: VecDeque::new() }
    }

    /// The answer's scarcity, as this agent comes to hear of it.
    fn heard(&mut self, said: Option<Scarcity>, beat: &Heartbeat) -> Option<Scarcity> {
        self.old.push_back(said);
        let mut scarcity = if self.old.len() > self.stale { self.old.pop_front().flatten() } else { None }?;
        match self.coordination {
            Coordination::Grants => {}
            Coordination::None | Coordination::Headroom => scarcity.grant = None,
            Coordination::Price => {
                let (need, weight) = beat.claim.map_or((0.0, 1.0), |claim| {
                    (claim.wanted.cores.get().max(claim.offered.get()), claim.weight.get())
                });
                let price = if self.yields { scarcity.price / RETURN } else { scarcity.price };
                self.yields = price * need > weight;
                let floor = Grant { cores: Some(Cores::clamped(FLOOR[0])), memory_gib: None };
                scarcity.grant = self.yields.then_some(floor);
            }
        }
        Some(scarcity)
    }
}

fn told(lie: Lie, beat: &Heartbeat) -> Heartbeat {
    let Some(mut claim) = beat.claim else { return *beat };
    let times = |cores: Cores, factor: f64| Cores::clamped(factor * cores.get());
    match lie {
        Lie::Claim => claim.wanted.cores = times(claim.wanted.cores, 10.0),
        Lie::Work => {
            claim.wanted.cores = times(claim.wanted.cores, 10.0);
            claim.offered = times(claim.offered, 3.0);
        }
        Lie::Small => {
            claim.wanted.cores = times(claim.wanted.cores, 0.1);
            claim.offered = times(claim.offered, 0.1);
        }
        Lie::Weight => claim.weight = Weight::clamped(10.0),
    }
    Heartbeat { claim: Some(claim), ..*beat }
}

impl Link for Way {
    async fn register(&mut self, register: &Register) -> Result<Registered, Error> {
        self.link.register(register).await
    }

    async fn heartbeat(&mut self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, Error> {
        let said = self.lie.map_or(*heartbeat, |lie| told(lie, heartbeat));
        let answer = self.link.heartbeat(agent, &said).await?;
        Ok(Answer { scarcity: self.heard(answer.scarcity, heartbeat), ..answer })
    }

    async fn leave(&mut self, agent: AgentId, leave: &Leave) -> Result<(), Error> {
        self.link.leave(agent, leave).await
    }
}
