//! An agent's membership: registering, reporting, and coming back after the coordinator was away.
//!
//! A lost coordinator is nothing to stop for. Each step tries once; while there is no answer, the agent goes on with
//! what it was told last.

use std::time::Duration;

use meanfield_common::{
    action::Action,
    budget::Moving,
    digest::Digest,
    identity::{AgentId, AgentName, Category, Epoch, ModelName, PoolName, Sequence},
    mean_field::Aspects,
    reward::Reward,
    scarcity::Claim,
    state::LocalState,
    trace::Context,
    wire::{Answer, Heartbeat, Leave, Problem, Register, Registered},
};
use tracing::{info, warn};

use crate::{
    environment::Target,
    following::{Found, Wanted},
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
    /// The details that g shall come with.
    pub detail: Aspects,
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
    /// Whether it can be told at registration which details of g are wanted, in the same way.
    wants: bool,
    /// Whether it takes wishes to move, in the same way.
    moves: bool,
    /// Whether it takes nodes, in the same way.
    nodes: bool,
    /// Whether the last attempt got through; only changes are logged.
    reached: bool,
}

impl<L: Link> Membership<L> {
    /// A membership that begins with the first report.
    pub fn new(link: L, target: &Target, pool: PoolName) -> Self {
        let (name, category) = (target.name.clone(), target.category);
        // What the policy wants of g is known with the first step.
        let register = Register { name, pool, category, wants: Aspects::NONE };
        let (claims, wants, moves, nodes) = (true, true, true, true);
        Self { link, register, registered: None, sequence: 0, claims, wants, moves, nodes, reached: true }
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

    /// Says what the next requests belong to.
    pub(crate) fn follow(&mut self, context: Option<Context>) {
        self.link.follow(context);
    }

    /// The id and the current epoch, once registered.
    #[must_use]
    pub fn member(&self) -> Option<(AgentId, Epoch)> {
        self.registered.map(|registered| (registered.agent, registered.epoch))
    }

    /// The workload is of another category: registers again with the next report if it was registered as something else.
    pub fn recategorise(&mut self, category: Category) {
        if self.register.category != category {
            info!(agent = %self.register.name, category = category.name(), "the category follows what was seen");
            (self.register.category, self.registered) = (category, None);
        }
    }

    /// Reports a step; `None` while the coordinator is away.
    ///
    /// # Errors
    /// Only what trying again cannot mend: [`Error::Superseded`] and [`Error::Refused`].
    pub async fn report(&mut self, step: &Step) -> Result<Option<Answer>, Error> {
        // Six times at most: a coordinator that has forgotten this agent is told again and then asked again, and one
        // that knows no claims, no wants, no moves or no nodes is asked without.
        for _ in 0..6 {
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
                        let word = if self.registered.is_some() { "lost" } else { "cannot reach" };
                        warn!(agent = %self.register.name, reason, "{word} the coordinator; going on alone");
                    }
                    self.reached = false;
                    return Ok(None);
                }
                Err(Error::Refused(problem)) if self.wants && knows_no(&problem, "wants") => self.wants = false,
                Err(Error::Refused(problem)) if self.moves && knows_no(&problem, "moving") => self.moves = false,
                Err(Error::Refused(problem)) if self.nodes && knows_no(&problem, "claim.node") => self.nodes = false,
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
        let Registered { agent, epoch, agreed, .. } = match self.registered {
            Some(registered) => registered,
            None => {
                self.register.wants = if self.wants { step.detail } else { Aspects::NONE };
                let registered = self.link.register(&self.register).await?;
                // It may be another one than before, and the next one may be newer.
                (self.sequence, self.claims, self.wants, self.moves, self.nodes) = (0, true, true, true, true);
                let Registered { epoch, heartbeat_within_ms, .. } = registered;
                info!(agent = %self.register.name, pool = %self.register.pool, epoch = epoch.0, heartbeat_within_ms, "registered");
                *self.registered.insert(registered)
            }
        };
        self.sequence += 1;
        let Step { round, state, action, reward, claim, detail, moving } = *step;
        // What was not agreed on is asked for each time. Who knows no claims knows no details either: both came with the
        // same version.
        let detail = !agreed.has(detail) && self.claims;
        let (sequence, claim) = (Sequence(self.sequence), self.claims.then_some(claim));
        let moving = moving.filter(|_| self.moves);
        let claim = claim.map(|claim| Claim { node: claim.node.filter(|_| self.nodes), ..claim });
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

    /// Downloads a base model, unless it is the one that is there.
    ///
    /// # Errors
    /// Whatever is in the way: none of it is a reason to stop.
    pub async fn find(&mut self, wanted: &Wanted, had: Option<Digest>) -> Result<Option<Found>, Error> {
        wanted.find(&mut self.link, &self.register.pool, &self.register.name, had).await
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

/// Whether a coordinator refused a field because it is an older one.
pub(crate) fn knows_no(problem: &Problem, field: &str) -> bool {
    kind(problem) == "unknown-field" && problem.field.as_deref() == Some(field)
}
