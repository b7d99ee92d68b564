//! An agent's membership: registering, reporting, and coming back after the coordinator was away.
//!
//! A lost coordinator is nothing to stop for. Each step tries once; while there is no answer, the agent goes on with
//! what it was told last.

use std::time::Duration;

use meanfield_common::{
    action::Action,
    budget::Moving,
    identity::{AgentName, Epoch, ModelName, PoolName, Sequence},
    reward::Reward,
    scarcity::Claim,
    state::LocalState,
    wire::{Answer, Heartbeat, Leave, Problem, Register, Registered},
};
use tracing::{info, warn};

use crate::{
    environment::Target,
    link::{Error, Link, kind},
};

/// What an agent says of one step.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The round of simulated time, in lock-step runs.
    pub round: Option<u64>,
    /// The local state l.
    pub state: LocalState,
    /// The action that led to it.
    pub action: Action,
    /// The reward of that action.
    pub reward: Reward,
    /// What it wants of its pool's capacity.
    pub claim: Claim,
    /// Whether g shall come with its details.
    pub detail: bool,
    /// How much of its pool's capacity it wants to move; only where the last answer had an allowance.
    pub moving: Option<Moving>,
}

/// Membership of one agent in one pool.
#[derive(Debug)]
pub struct Membership<L> {
    link: L,
    register: Register,
    registered: Option<Registered>,
    sequence: u64,
    /// Whether the coordinator takes claims; older ones refuse a field that they do not know.
    claims: bool,
    /// Whether it takes wishes to move, in the same way.
    moves: bool,
    /// Whether the last attempt got through; only changes are logged.
    reached: bool,
}

impl<L: Link> Membership<L> {
    /// A membership that begins with the first report.
    pub fn new(link: L, target: &Target, pool: PoolName) -> Self {
        let register = Register { name: target.name.clone(), pool, category: target.category };
        Self { link, register, registered: None, sequence: 0, claims: true, moves: true, reached: true }
    }

    /// The agent's name.
    #[must_use]
    pub fn name(&self) -> &AgentName {
        &self.register.name
    }

    /// Within how long the coordinator wants to hear of this agent, once registered.
    #[must_use]
    pub fn heartbeat_within(&self) -> Option<Duration> {
        self.registered.map(|registered| Duration::from_millis(registered.heartbeat_within_ms))
    }

    /// The current epoch, once registered.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.registered.map(|registered| registered.epoch)
    }

    /// Reports a step; `None` while the coordinator is away.
    ///
    /// # Errors
    /// Only what trying again cannot mend: [`Error::Superseded`] and [`Error::Refused`].
    pub async fn report(&mut self, step: &Step) -> Result<Option<Answer>, Error> {
        // Four times at most: a coordinator that has forgotten this agent is told again and then asked again, and one
        // that knows no claims or no moves is asked without.
        for _ in 0..4 {
            match self.attempt(step).await {
                Ok(answer) => {
                    if !self.reached {
                        info!(agent = %self.register.name, "the coordinator is back");
                    }
                    self.reached = true;
                    return Ok(Some(answer));
                }
                Err(Error::Unknown) => {
                    info!(agent = %self.register.name, "not a member any more: registering again");
                    self.registered = None;
                }
                Err(Error::Unreachable(reason)) => {
                    if self.reached {
                        warn!(agent = %self.register.name, reason, "lost the coordinator; going on alone");
                    }
                    self.reached = false;
                    return Ok(None);
                }
                Err(Error::Refused(problem)) if self.moves && knows_no(&problem, "moving") => self.moves = false,
                Err(Error::Refused(problem)) if self.claims && knows_no(&problem, "claim") => {
                    info!(agent = %self.register.name, "the coordinator is an older one: claiming nothing");
                    self.claims = false;
                }
                Err(fatal) => return Err(fatal),
            }
        }
        Ok(None)
    }

    async fn attempt(&mut self, step: &Step) -> Result<Answer, Error> {
        let Registered { agent, epoch, .. } = match self.registered {
            Some(registered) => registered,
            None => {
                let registered = self.link.register(&self.register).await?;
                // It may be another one than before.
                (self.sequence, self.claims, self.moves) = (0, true, true);
                let Registered { epoch, heartbeat_within_ms, .. } = registered;
                info!(agent = %self.register.name, pool = %self.register.pool, epoch = epoch.0, heartbeat_within_ms, "registered");
                *self.registered.insert(registered)
            }
        };
        self.sequence += 1;
        let Step { round, state, action, reward, claim, detail, moving } = *step;
        // Who knows no claims knows no details either: both came with the same version.
        let (sequence, claim, detail) = (Sequence(self.sequence), self.claims.then_some(claim), detail && self.claims);
        let moving = moving.filter(|_| self.moves);
        let heartbeat = Heartbeat { epoch, sequence, round, state, action, reward, claim, detail, moving };
        self.link.heartbeat(agent, &heartbeat).await
    }

    /// Downloads the pool's forecast network.
    ///
    /// # Errors
    /// Whatever is in the way: none of it is a reason to stop.
    pub async fn forecast(&mut self) -> Result<Vec<u8>, Error> {
        self.link.forecast(&self.register.pool).await
    }

    /// Hands in what was learnt from a base model.
    ///
    /// # Errors
    /// Whatever is in the way: none of it is a reason to stop.
    pub async fn contribute(&mut self, model: &ModelName, checkpoint: &[u8], reward: f64) -> Result<(), Error> {
        let Some(Registered { agent, .. }) = self.registered else { return Err(Error::Unknown) };
        self.link.contribute(model, agent, checkpoint, reward).await
    }

    /// Leaves the pool; a coordinator that is away will notice by itself.
    pub async fn leave(&mut self) -> Result<(), Error> {
        let Some(Registered { agent, epoch, .. }) = self.registered.take() else { return Ok(()) };
        match self.link.leave(agent, &Leave { epoch }).await {
            Ok(()) | Err(Error::Unknown | Error::Unreachable(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn knows_no(problem: &Problem, field: &str) -> bool {
    kind(problem) == "unknown-field" && problem.field.as_deref() == Some(field)
}
