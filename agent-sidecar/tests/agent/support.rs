//! What the tests share: a coordinator in memory that can fail, and workloads and policies that follow a script.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use meanfield_agent::{
    Error,
    environment::{self, Environment, Target},
    link::{self, Ask, File, Link},
    policy::{Decision, Feedback, Policy, View},
};
use meanfield_common::{
    action::Action,
    budget::Moving,
    digest::Digest,
    identity::{AgentId, Category, Epoch, ModelName, PoolName},
    mean_field::{Aspects, AuxiliaryState, Moments},
    observation::Observation,
    resources::{Bounds, Bytes, MilliCores, Scale},
    scarcity::{Node, Scarcity, Weight},
    slo::{Percentile, Slo},
    trajectory::{Append, Appended, Recorded},
    wire::{Answer, Directives, Heartbeat, Leave, Problem, Register, Registered},
};
use parking_lot::Mutex;

/// What happened, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Registered,
    Observed,
    Reported(Heartbeat),
    Fed(Feedback),
    Decided,
    Actuated(Scale),
    Left,
}

pub type Log = Arc<Mutex<Vec<Event>>>;

/// A coordinator in memory. Clones are the same one.
#[derive(Clone, Default)]
pub struct Coordinator {
    state: Arc<Mutex<State>>,
    pub log: Log,
}

#[derive(Default)]
struct State {
    members: BTreeMap<AgentId, Member>,
    epochs: u64,
    trouble: Option<link::Error>,
    paused: bool,
    fallback: bool,
    allowance: Option<Moving>,
    scarcity: Option<Scarcity>,
    refuses_claims: Option<link::Error>,
    refuses_moves: Option<link::Error>,
    refuses_wants: Option<link::Error>,
    agreed: Aspects,
    wanted: Vec<Aspects>,
    refuses_nodes: Option<link::Error>,
    forecast: Option<(Digest, Result<Vec<u8>, link::Error>)>,
    downloads: usize,
    models: Option<u64>,
    versions: BTreeMap<ModelName, Result<(u64, Vec<u8>), link::Error>>,
    /// Every step that is stored, by registration and place.
    stored: BTreeMap<(Epoch, u64, u32), Recorded>,
    /// What appends fail with, one after the other, and whether the steps are stored all the same.
    failures: VecDeque<(link::Error, bool)>,
    appends: usize,
    dropped: u64,
    categories: Vec<Category>,
    /// For which base models somebody handed in what was learnt, in order.
    contributions: Vec<String>,
}

struct Member {
    pool: PoolName,
    epoch: Epoch,
    /// All that was reported in this epoch.
    reports: Vec<Heartbeat>,
}

impl Coordinator {
    /// From now on every request fails like this, or none.
    pub fn fails_with(&self, trouble: Option<link::Error>) {
        self.state.lock().trouble = trouble;
    }

    /// Nobody is a member any more.
    pub fn forgets_everybody(&self) {
        self.state.lock().members.clear();
    }

    pub fn pauses(&self, paused: bool) {
        self.state.lock().paused = paused;
    }

    /// The kill switch.
    pub fn falls_back(&self, fallback: bool) {
        self.state.lock().fallback = fallback;
    }

    /// What everybody may move with each step; none where there is no change budget.
    pub fn allows(&self, allowance: Option<Moving>) {
        self.state.lock().allowance = allowance;
    }

    /// What everybody is told about scarcity.
    pub fn grants(&self, scarcity: Option<Scarcity>) {
        self.state.lock().scarcity = scarcity;
    }

    /// Heartbeats with a claim fail like this from now on, or not.
    pub fn refuses_claims(&self, refusal: Option<link::Error>) {
        self.state.lock().refuses_claims = refusal;
    }

    /// Heartbeats that want to move something fail like this from now on, or not.
    pub fn refuses_moves(&self, refusal: Option<link::Error>) {
        self.state.lock().refuses_moves = refusal;
    }

    /// Registrations that want details of g fail like this from now on, or not.
    pub fn refuses_wants(&self, refusal: Option<link::Error>) {
        self.state.lock().refuses_wants = refusal;
    }

    /// What is agreed on at registrations from now on.
    pub fn agrees_on(&self, agreed: Aspects) {
        self.state.lock().agreed = agreed;
    }

    /// What was wanted at each registration that was taken.
    pub fn wanted(&self) -> Vec<Aspects> {
        self.state.lock().wanted.clone()
    }

    /// Heartbeats that name a node fail like this from now on, or not.
    pub fn refuses_nodes(&self, refusal: Option<link::Error>) {
        self.state.lock().refuses_nodes = refusal;
    }

    /// Names a forecast network, and gives this file to whoever asks for it.
    pub fn shares(&self, forecast: Option<(Digest, Result<Vec<u8>, link::Error>)>) {
        self.state.lock().forecast = forecast;
    }

    /// How often somebody asked for a forecast network.
    pub fn downloads(&self) -> usize {
        self.state.lock().downloads
    }

    /// Serves these versions of base models, under a new number.
    pub fn serves(&self, versions: impl IntoIterator<Item = (&'static str, Result<(u64, Vec<u8>), link::Error>)>) {
        let mut state = self.state.lock();
        state.models = Some(state.models.unwrap_or_default() + 1);
        state.versions = versions.into_iter().map(|(name, file)| (name.parse().unwrap(), file)).collect();
    }

    /// The next appends fail like this, though the steps may have got through.
    pub fn appends_fail(&self, failures: impl IntoIterator<Item = (link::Error, bool)>) {
        self.state.lock().failures.extend(failures);
    }

    /// How often somebody tried to hand in steps.
    pub fn appends(&self) -> usize {
        self.state.lock().appends
    }

    /// How many steps somebody said to have dropped.
    pub fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }

    /// Every step that is stored, by registration and place.
    pub fn stored(&self) -> BTreeMap<(Epoch, u64, u32), Recorded> {
        self.state.lock().stored.clone()
    }

    /// As what somebody registered, in order.
    pub fn categories(&self) -> Vec<Category> {
        self.state.lock().categories.clone()
    }

    /// For which base models somebody handed in what was learnt, in order.
    pub fn contributions(&self) -> Vec<String> {
        self.state.lock().contributions.clone()
    }

    pub fn members(&self) -> usize {
        self.state.lock().members.len()
    }

    /// All heartbeats that were answered.
    pub fn heard(&self) -> Vec<Heartbeat> {
        let beat = |event: &Event| if let Event::Reported(beat) = event { Some(*beat) } else { None };
        self.log.lock().iter().filter_map(beat).collect()
    }
}

pub fn unreachable() -> link::Error {
    link::Error::Unreachable("nobody answers".to_owned())
}

pub fn refused(detail: &str) -> link::Error {
    link::Error::Refused(Box::new(problem(detail)))
}

fn problem(detail: &str) -> Problem {
    let (kind, title) = ("/problems/invalid-value".to_owned(), "A value is outside its bound".to_owned());
    Problem { kind, title, status: 422, detail: detail.to_owned(), field: None, bound: None, trace_id: None }
}

fn unknown_model() -> link::Error {
    let kind = "/problems/unknown-model".to_owned();
    link::Error::Refused(Box::new(Problem { kind, ..problem("there is no such model") }))
}

/// The same id for the same name in the same pool, whoever registers first.
fn id(register: &Register) -> AgentId {
    let text = format!("{} {}", register.pool, register.name);
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("00000000-0000-0000-{:04x}-{:012x}", hash >> 48, hash & 0xffff_ffff_ffff).parse().unwrap()
}

impl State {
    fn works(&self) -> Result<(), link::Error> {
        self.trouble.clone().map_or(Ok(()), Err)
    }

    fn member(&mut self, agent: AgentId, epoch: Epoch) -> Result<&mut Member, link::Error> {
        let member = self.members.get_mut(&agent).ok_or(link::Error::Unknown)?;
        if member.epoch == epoch { Ok(member) } else { Err(link::Error::Superseded) }
    }

    /// What counts of each member in an answer: the rounds before this one, or the latest in real time.
    fn counted(&self, pool: &PoolName, round: Option<u64>) -> Vec<(AgentId, Heartbeat)> {
        let members = self.members.iter().filter(|(_, member)| member.pool == *pool);
        let last = |member: &Member| member.reports.iter().rfind(|beat| round.is_none() || beat.round < round).copied();
        members.filter_map(|(id, member)| Some((*id, last(member)?))).collect()
    }
}

/// Mean, sum and deviation of one field, by the book.
fn moments(values: &[f64]) -> Moments {
    let count = values.len() as f64;
    if values.is_empty() {
        return Moments::default();
    }
    let sum: f64 = values.iter().sum();
    let mean = sum / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    Moments { sum, mean, std: variance.sqrt() }
}

fn mean_field(others: &[Heartbeat]) -> AuxiliaryState {
    let over = |field: fn(&Heartbeat) -> f64| moments(&others.iter().map(field).collect::<Vec<_>>());
    AuxiliaryState {
        others: others.len() as u64,
        cpu_limit: over(|beat| beat.state.cpu_limit.get()),
        memory_limit: over(|beat| beat.state.memory_limit.get()),
        vertical: over(|beat| f64::from(beat.action.cpu.sign() + beat.action.memory.sign())),
        horizontal: over(|beat| f64::from(beat.action.replicas.sign())),
        slo_preservation: over(|beat| beat.state.slo_preservation.get()),
        utilisation: over(|beat| (beat.state.cpu_utilisation.get() + beat.state.memory_utilisation.get()) / 2.0),
        detail: None,
    }
}

impl Link for Coordinator {
    async fn register(&mut self, register: &Register) -> Result<Registered, link::Error> {
        let mut state = self.state.lock();
        state.works()?;
        if let Some(refusal) = state.refuses_wants.clone().filter(|_| !register.wants.is_none()) {
            return Err(refusal);
        }
        self.log.lock().push(Event::Registered);
        state.wanted.push(register.wants);
        state.epochs += 1;
        state.categories.push(register.category);
        let (agent, epoch) = (id(register), Epoch(state.epochs));
        state.members.insert(agent, Member { pool: register.pool.clone(), epoch, reports: Vec::new() });
        Ok(Registered { agent, epoch, heartbeat_within_ms: 30_000, agreed: state.agreed })
    }

    async fn heartbeat(&mut self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, link::Error> {
        let mut state = self.state.lock();
        state.works()?;
        if let Some(refusal) = state.refuses_claims.clone().filter(|_| heartbeat.claim.is_some()) {
            return Err(refusal);
        }
        if let Some(refusal) = state.refuses_moves.clone().filter(|_| heartbeat.moving.is_some()) {
            return Err(refusal);
        }
        let named = heartbeat.claim.is_some_and(|claim| claim.node.is_some());
        if let Some(refusal) = state.refuses_nodes.clone().filter(|_| named) {
            return Err(refusal);
        }
        let member = state.member(agent, heartbeat.epoch)?;
        assert!(member.reports.last().is_none_or(|last| last.sequence < heartbeat.sequence), "sequences grow");
        member.reports.push(*heartbeat);
        let pool = member.pool.clone();
        self.log.lock().push(Event::Reported(*heartbeat));
        let counted = state.counted(&pool, heartbeat.round);
        let others: Vec<_> = counted.iter().filter(|(id, _)| *id != agent).map(|(_, beat)| *beat).collect();
        let rewards: Vec<_> = counted.iter().map(|(_, beat)| beat.reward.get()).collect();
        Ok(Answer {
            sequence: heartbeat.sequence,
            auxiliary: mean_field(&others),
            team_reward: (!rewards.is_empty()).then(|| moments(&rewards).mean),
            directives: Directives { paused: state.paused, fallback: state.fallback, lifecycle: None },
            scarcity: state.scarcity,
            forecast: state.forecast.as_ref().map(|(digest, _)| *digest),
            allowance: state.allowance,
            models: state.models,
        })
    }

    async fn leave(&mut self, agent: AgentId, leave: &Leave) -> Result<(), link::Error> {
        let mut state = self.state.lock();
        state.works()?;
        state.member(agent, leave.epoch)?;
        state.members.remove(&agent);
        self.log.lock().push(Event::Left);
        Ok(())
    }

    async fn base_model(&mut self, ask: &Ask<'_>) -> Result<Option<File>, link::Error> {
        let mut state = self.state.lock();
        state.works()?;
        state.downloads += 1;
        let (version, bytes) = state.versions.get(ask.model).cloned().ok_or_else(unknown_model)??;
        let same = ask.had == Some(Digest::of(&bytes));
        Ok((!same).then_some(File { version: Some(version), bytes }))
    }

    async fn append(&mut self, agent: AgentId, append: &Append) -> Result<Appended, link::Error> {
        let mut state = self.state.lock();
        state.appends += 1;
        let failure = state.failures.pop_front();
        if failure.as_ref().is_none_or(|(_, through)| *through) {
            state.works()?;
            state.member(agent, append.epoch)?;
            let first = &append.steps.as_slice()[0];
            if !state.stored.contains_key(&(append.epoch, first.episode, first.step)) {
                state.dropped += append.dropped.get();
            }
            for step in append.steps.as_slice() {
                let before = state.stored.insert((append.epoch, step.episode, step.step), step.clone());
                assert!(before.is_none_or(|before| before == *step), "the same place with other content");
            }
        }
        failure.map_or(Ok(Appended::default()), |(error, _)| Err(error))
    }

    async fn contribute(&mut self, model: &ModelName, _: AgentId, _: &[u8], _: f64) -> Result<(), link::Error> {
        let mut state = self.state.lock();
        state.works()?;
        state.versions.get(model).cloned().ok_or_else(unknown_model)??;
        state.contributions.push(model.to_string());
        Ok(())
    }

    async fn forecast(&mut self, _: &PoolName) -> Result<Vec<u8>, link::Error> {
        let mut state = self.state.lock();
        state.works()?;
        state.downloads += 1;
        state.forecast.as_ref().map_or_else(|| Err(refused("none")), |(_, file)| file.clone())
    }
}

/// A workload whose measurements follow a script, step by step, at the scale that was last asked for.
pub struct Scripted {
    pub log: Log,
    pub nodes: Vec<Node>,
    scale: Scale,
    steps: usize,
    script: Box<dyn FnMut(usize) -> Observation + Send>,
}

impl Scripted {
    pub fn new(log: &Log, script: impl FnMut(usize) -> Observation + Send + 'static) -> Self {
        let scale = Observation::default().scale;
        Self { log: log.clone(), nodes: Vec::new(), scale, steps: 0, script: Box::new(script) }
    }
}

impl Environment for Scripted {
    async fn observe(&mut self) -> Result<Observation, environment::Error> {
        self.log.lock().push(Event::Observed);
        let seen = Observation { scale: self.scale, ..(self.script)(self.steps) };
        self.steps += 1;
        Ok(seen)
    }

    async fn actuate(&mut self, scale: Scale, _: Option<MilliCores>) -> Result<(), environment::Error> {
        self.log.lock().push(Event::Actuated(scale));
        self.scale = scale;
        Ok(())
    }

    fn nodes(&self) -> Vec<Node> {
        self.nodes.clone()
    }
}

/// A policy that follows a script.
pub struct Wishes {
    log: Log,
    script: Box<dyn FnMut(&View<'_>) -> Decision + Send>,
}

impl Wishes {
    pub fn new(log: &Log, script: impl FnMut(&View<'_>) -> Decision + Send + 'static) -> Self {
        Self { log: log.clone(), script: Box::new(script) }
    }

    /// A policy that leaves everything as it is.
    pub fn hold() -> Self {
        Self::new(&Log::default(), |view| Decision::wish(view.seen.scale))
    }
}

impl Policy for Wishes {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, Error> {
        self.log.lock().push(Event::Decided);
        Ok((self.script)(view))
    }

    fn feedback(&mut self, feedback: Feedback) -> Result<(), Error> {
        self.log.lock().push(Event::Fed(feedback));
        Ok(())
    }

    fn reset(&mut self) {}
}

/// A workload with an objective of 100 ms at the 99th percentile, and room on every side of the default scale.
pub fn target() -> Target {
    let bounds = Bounds::new(1..=16, MilliCores(100)..=MilliCores(4000), Bytes::mebi(32)..=Bytes::mebi(2048));
    let slo = Slo::latency(Percentile::P99, 100.0).unwrap();
    let weight = Weight::default();
    Target { name: "shop/cart".parse().unwrap(), category: Category::Cpu, slo, bounds: bounds.unwrap(), weight }
}

/// The same, with no lever that can move.
pub fn pinned() -> Target {
    let Scale { replicas, limit } = Observation::default().scale;
    let bounds = Bounds::new(replicas..=replicas, limit.cpu..=limit.cpu, limit.memory..=limit.memory).unwrap();
    Target { bounds, ..target() }
}

/// A step whose SLO preservation is `sp`, within (0, 1].
pub fn preserving(sp: f64) -> Observation {
    let (arrival_rate, throughput) = (10.0, 10.0);
    Observation { arrival_rate, throughput, latency_p99: Some(100.0 / sp), ..Observation::default() }
}

pub fn pool() -> PoolName {
    "pool".parse().unwrap()
}

pub fn out() -> Action {
    let up = meanfield_common::action::Step::Up;
    Action { replicas: up, ..Action::HOLD }
}

/// Runs what never waits for anything.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    futures_executor::block_on(future)
}
