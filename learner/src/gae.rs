//! Generalised advantage estimation along one trajectory.
//!
//! An episode can end in two ways that must not be confused. When it *terminates*, nothing follows and the value beyond is
//! zero. When it is *truncated* (the horizon is reached, or the batch is full), the world goes on unseen, and its value is
//! estimated by the critic at the state where the recording stopped. Treating the second like the first teaches an agent
//! that everything ends after 50 steps.

use crate::error::Error;
use crate::network::expect;

/// A trajectory, one entry per step.
#[derive(Debug, Clone, Copy)]
pub struct Trajectory<'a> {
    /// Reward after the step.
    pub rewards: &'a [f32],
    /// The critic's value of the state before the step.
    pub values: &'a [f32],
    /// Whether the episode ended for good with the step.
    pub terminated: &'a [bool],
    /// Where the episode was cut off after the step: the critic's value of the state it would have gone on from.
    /// Ignored where `terminated`.
    pub truncated: &'a [Option<f32>],
    /// The critic's value of the state after the last step. Ignored if the last step terminated or was cut off.
    pub bootstrap: f32,
}

/// Writes the advantage of every step to `advantages`.
///
/// # Errors
/// [`Error::Shape`] when the lengths differ.
pub fn estimate(trajectory: Trajectory<'_>, gamma: f32, lambda: f32, advantages: &mut [f32]) -> Result<(), Error> {
    let Trajectory { rewards, values, terminated, truncated, bootstrap } = trajectory;
    let steps = rewards.len();
    expect("values", steps, values.len())?;
    expect("terminated", steps, terminated.len())?;
    expect("truncated", steps, truncated.len())?;
    expect("advantages", steps, advantages.len())?;

    let mut next_value = bootstrap;
    let mut next_advantage = 0.0;
    for step in (0..steps).rev() {
        if terminated[step] {
            (next_value, next_advantage) = (0.0, 0.0);
        } else if let Some(value) = truncated[step] {
            // The following entry belongs to another episode; only the value carries over the cut.
            (next_value, next_advantage) = (value, 0.0);
        }
        let surprise = rewards[step] + gamma * next_value - values[step];
        next_advantage = surprise + gamma * lambda * next_advantage;
        next_value = values[step];
        advantages[step] = next_advantage;
    }
    Ok(())
}
