//! Experience on its way to an update: trajectories of single agents, gathered into one flat batch.
//!
//! A [`Segment`] is what one agent saw and did, step by step. A [`Batch`] takes the segments of any number of agents and
//! environments, works out advantages and returns for each on its own, and lays all steps end to end, so that an update
//! can shuffle them freely. Both keep their memory when cleared.

use crate::actor_critic::finite;
use crate::config::Config;
use crate::error::Error;
use crate::gae::{self, Trajectory};
use crate::network::expect;
use crate::policy::Choice;

/// One decision and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The agent's own state.
    pub observation: &'a [f32],
    /// The aggregate of the others at that time.
    pub auxiliary: &'a [f32],
    /// Which actions were legal; none means all.
    pub mask: Option<&'a [bool]>,
    /// What was chosen, with its log-probability then.
    pub choice: Choice,
    /// The reward that followed.
    pub reward: f32,
    /// The critic's value of the state, before the step.
    pub value: f32,
    /// Whether the episode ended for good. A cut-off is not an end: see [`Segment::truncate`].
    pub terminated: bool,
}

/// Sizes of one step's entries.
#[derive(Debug, Clone, PartialEq)]
struct Shape {
    observation: usize,
    auxiliary: usize,
    heads: Vec<usize>,
    logits: usize,
    masked: bool,
}

impl Shape {
    fn of(config: &Config) -> Self {
        Self {
            observation: config.observation,
            auxiliary: config.auxiliary,
            heads: config.heads.clone(),
            logits: config.logits(),
            masked: config.mask_actions,
        }
    }
}

/// What both a segment and a batch hold of every step, as contiguous arrays.
#[derive(Debug, Clone, Default)]
struct Columns {
    observations: Vec<f32>,
    auxiliaries: Vec<f32>,
    masks: Vec<bool>,
    actions: Vec<u8>,
    log_probs: Vec<f32>,
    values: Vec<f32>,
}

impl Columns {
    fn reserve(&mut self, shape: &Shape, steps: usize) {
        self.observations.reserve(steps * shape.observation);
        self.auxiliaries.reserve(steps * shape.auxiliary);
        self.masks.reserve(steps * shape.logits);
        self.actions.reserve(steps * shape.heads.len());
        self.log_probs.reserve(steps);
        self.values.reserve(steps);
    }

    fn extend(&mut self, other: &Self) {
        self.observations.extend_from_slice(&other.observations);
        self.auxiliaries.extend_from_slice(&other.auxiliaries);
        self.masks.extend_from_slice(&other.masks);
        self.actions.extend_from_slice(&other.actions);
        self.log_probs.extend_from_slice(&other.log_probs);
        self.values.extend_from_slice(&other.values);
    }

    fn clear(&mut self) {
        self.observations.clear();
        self.auxiliaries.clear();
        self.masks.clear();
        self.actions.clear();
        self.log_probs.clear();
        self.values.clear();
    }
}

/// The trajectory of one agent, possibly over several episodes.
#[derive(Debug, Clone)]
pub struct Segment {
    shape: Shape,
    columns: Columns,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<Option<f32>>,
}

impl Segment {
    /// An empty trajectory with room for `steps` steps.
    #[must_use]
    pub fn new(config: &Config, steps: usize) -> Self {
        let shape = Shape::of(config);
        let mut columns = Columns::default();
        columns.reserve(&shape, steps);
        Self {
            shape,
            columns,
            rewards: Vec::with_capacity(steps),
            terminated: Vec::with_capacity(steps),
            truncated: Vec::with_capacity(steps),
        }
    }

    /// Records a step. On an error nothing is recorded.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::NonFinite`] or [`Error::IllegalAction`] say what does not fit.
    pub fn push(&mut self, step: &Step<'_>) -> Result<(), Error> {
        let shape = &self.shape;
        expect("observation", shape.observation, step.observation.len())?;
        expect("auxiliary", shape.auxiliary, step.auxiliary.len())?;
        expect("choice", shape.heads.len(), step.choice.actions().len())?;
        finite("observation", step.observation)?;
        finite("auxiliary", step.auxiliary)?;
        finite("log-probability", &[step.choice.log_prob])?;
        finite("reward", &[step.reward])?;
        finite("value", &[step.value])?;
        let mask = step.mask.filter(|_| shape.masked);
        if let Some(mask) = mask {
            expect("mask", shape.logits, mask.len())?;
        }
        let mut start = 0;
        for (head, (&size, &action)) in shape.heads.iter().zip(step.choice.actions()).enumerate() {
            let action = usize::from(action);
            if action >= size || mask.is_some_and(|mask| !mask[start + action]) {
                return Err(Error::IllegalAction { head, action });
            }
            start += size;
        }

        self.columns.observations.extend_from_slice(step.observation);
        self.columns.auxiliaries.extend_from_slice(step.auxiliary);
        match mask {
            Some(mask) => self.columns.masks.extend_from_slice(mask),
            None => self.columns.masks.resize(self.columns.masks.len() + shape.logits, true),
        }
        self.columns.actions.extend_from_slice(step.choice.actions());
        self.columns.log_probs.push(step.choice.log_prob);
        self.columns.values.push(step.value);
        self.rewards.push(step.reward);
        self.terminated.push(step.terminated);
        self.truncated.push(None);
        Ok(())
    }

    /// Says that the episode was cut off after the last step, in a state worth `value` to the critic; what is pushed next
    /// belongs to another episode.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for such a value, [`Error::EmptyBatch`] when there is no step yet.
    pub fn truncate(&mut self, value: f32) -> Result<(), Error> {
        finite("bootstrap value", &[value])?;
        *self.truncated.last_mut().ok_or(Error::EmptyBatch)? = Some(value);
        Ok(())
    }

    /// Number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rewards.len()
    }

    /// Whether no step was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rewards.is_empty()
    }

    /// Forgets the steps and keeps the memory.
    pub fn clear(&mut self) {
        self.columns.clear();
        self.rewards.clear();
        self.terminated.clear();
        self.truncated.clear();
    }
}

/// The experience of one update.
#[derive(Debug, Clone)]
pub struct Batch {
    shape: Shape,
    gamma: f32,
    lambda: f32,
    columns: Columns,
    advantages: Vec<f32>,
    returns: Vec<f32>,
}

impl Batch {
    /// An empty batch with room for `steps` steps.
    #[must_use]
    pub fn new(config: &Config, steps: usize) -> Self {
        let shape = Shape::of(config);
        let mut columns = Columns::default();
        columns.reserve(&shape, steps);
        Self {
            shape,
            gamma: config.gamma,
            lambda: config.lambda,
            columns,
            advantages: Vec::with_capacity(steps),
            returns: Vec::with_capacity(steps),
        }
    }

    /// Adds a trajectory. `bootstrap` is the critic's value of the state after its last step; it counts only if that step
    /// neither terminated nor was marked as cut off.
    ///
    /// # Errors
    /// [`Error::Shape`] when the segment was made for another configuration, [`Error::NonFinite`] for a bad `bootstrap`.
    pub fn push_segment(&mut self, segment: &Segment, bootstrap: f32) -> Result<(), Error> {
        finite("bootstrap value", &[bootstrap])?;
        expect("segment observation", self.shape.observation, segment.shape.observation)?;
        expect("segment auxiliary", self.shape.auxiliary, segment.shape.auxiliary)?;
        expect("segment heads", self.shape.heads.len(), segment.shape.heads.len())?;
        for (&ours, &theirs) in self.shape.heads.iter().zip(&segment.shape.heads) {
            expect("segment head", ours, theirs)?;
        }
        let start = self.advantages.len();
        self.advantages.resize(start + segment.len(), 0.0);
        let trajectory = Trajectory {
            rewards: &segment.rewards,
            values: &segment.columns.values,
            terminated: &segment.terminated,
            truncated: &segment.truncated,
            bootstrap,
        };
        gae::estimate(trajectory, self.gamma, self.lambda, &mut self.advantages[start..])?;
        let estimates = self.advantages[start..].iter().zip(&segment.columns.values);
        self.returns.extend(estimates.map(|(advantage, value)| advantage + value));
        self.columns.extend(&segment.columns);
        Ok(())
    }

    /// Number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.advantages.len()
    }

    /// Whether there is no step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.advantages.is_empty()
    }

    /// Forgets the steps and keeps the memory.
    pub fn clear(&mut self) {
        self.columns.clear();
        self.advantages.clear();
        self.returns.clear();
    }

    /// Advantage of every step, not normalised.
    #[must_use]
    pub fn advantages(&self) -> &[f32] {
        &self.advantages
    }

    /// What the critic should have said at every step: advantage plus value.
    #[must_use]
    pub fn returns(&self) -> &[f32] {
        &self.returns
    }

    /// What the critic did say.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.columns.values
    }

    pub(crate) fn check(&self, config: &Config) -> Result<(), Error> {
        expect("batch observation", config.observation, self.shape.observation)?;
        expect("batch auxiliary", config.auxiliary, self.shape.auxiliary)?;
        expect("batch heads", config.heads.len(), self.shape.heads.len())?;
        for (&ours, &theirs) in config.heads.iter().zip(&self.shape.heads) {
            expect("batch head", ours, theirs)?;
        }
        if self.is_empty() { Err(Error::EmptyBatch) } else { Ok(()) }
    }

    pub(crate) fn observation(&self, step: usize) -> &[f32] {
        row(&self.columns.observations, self.shape.observation, step)
    }

    pub(crate) fn auxiliary(&self, step: usize) -> &[f32] {
        row(&self.columns.auxiliaries, self.shape.auxiliary, step)
    }

    pub(crate) fn mask(&self, step: usize) -> &[bool] {
        row(&self.columns.masks, self.shape.logits, step)
    }

    pub(crate) fn actions(&self, step: usize) -> &[u8] {
        row(&self.columns.actions, self.shape.heads.len(), step)
    }

    pub(crate) fn log_prob(&self, step: usize) -> f32 {
        self.columns.log_probs[step]
    }
}

fn row<T>(column: &[T], width: usize, step: usize) -> &[T] {
    &column[step * width..(step + 1) * width]
}
