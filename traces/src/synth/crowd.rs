//! Flash crowds at times of the day that everybody knows: a match, a sale, a broadcast.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Size;

/// Crowds at fixed times of the day. All times are shares of a day.
#[derive(Debug, Clone, PartialEq)]
pub struct Crowds {
    /// When they are full, as shares of a day, each with the chance that it takes place on a day.
    pub times: Vec<(f64, f64)>,
    /// What a crowd adds, in multiples of the rate without it.
    pub size: Size,
    /// How long it gathers before it is full.
    pub rise: f64,
    /// How long it stays.
    pub hold: f64,
    /// After how long it has faded to 1/e.
    pub fade: f64,
}

/// The crowds of a whole trace: when each is full (in days) and how large.
pub(super) struct Crowding(Vec<(f64, f64)>);

impl Crowds {
    /// Draws all crowds of so many days, and of the day before, which may still be fading.
    pub(super) fn start(&self, days: f64, rng: &mut ChaCha8Rng) -> Crowding {
        let mut crowds = Vec::new();
        for day in 0..(days.clamp(0.0, 1e6).ceil() as u32 + 1) {
            for (time, chance) in &self.times {
                if rng.random::<f64>() < *chance {
                    crowds.push((f64::from(day) - 1.0 + time, self.size.draw(rng)));
                }
            }
        }
        Crowding(crowds)
    }

    /// What the crowds add at a time in days.
    pub(super) fn at(&self, crowding: &Crowding, day: f64) -> f64 {
        let reach = self.rise + self.hold + 12.0 * self.fade;
        // Crowds are in order: those that matter are neighbours.
        let from = crowding.0.partition_point(|(full, _)| *full < day - reach);
        let near = crowding.0[from..].iter().take_while(|(full, _)| full - self.rise <= day);
        near.map(|(full, size)| {
            let since = day - full;
            let share = if since < 0.0 {
                1.0 + since / self.rise.max(1e-9)
            } else if since < self.hold {
                1.0
            } else {
                ((self.hold - since) / self.fade.max(1e-9)).exp()
            };
            size * share.max(0.0)
        })
        .sum()
    }
}
