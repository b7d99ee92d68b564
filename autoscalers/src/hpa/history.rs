//! What the autoscaler remembers: its recommendations and how it scaled.
//!
//! Old entries are not dropped but overwritten one at a time, as in the real controller. That shows when the spec changes:
//! a window that grows takes old entries in again.

use super::Millis;

/// More entries than the longest window of the API (an hour) holds at one a second. Only a clock that stands still gets
/// there; then the oldest entry goes, so that memory stays bounded.
const MOST: usize = 4096;

/// A recommendation, before stabilisation and limits.
#[derive(Debug, Clone, Copy)]
struct Recommendation {
    replicas: i32,
    at: Millis,
}

/// Recommendations of the past.
#[derive(Debug, Clone, Default)]
pub(super) struct Recommendations(Vec<Recommendation>);

impl Recommendations {
    /// Starts with the replicas at first sight, so that a restart does not scale down at once.
    pub fn seed(&mut self, now: Millis, current: i32) {
        if self.0.is_empty() {
            self.0.push(Recommendation { replicas: current, at: now });
        }
    }

    /// The highest recommendation of the window, this one included, which is recorded.
    pub fn highest(&mut self, now: Millis, replicas: i32, window: Millis) -> i32 {
        let cutoff = now.saturating_sub(window);
        let recent = self.0.iter().filter(|past| past.at >= cutoff).map(|past| past.replicas);
        let highest = recent.fold(replicas, i32::max);
        self.record(now, replicas, cutoff);
        highest
    }

    /// The replicas nearest to `current` between the lowest recommendation of the window upwards and the highest of the
    /// window downwards, this one included, which is recorded.
    pub fn stabilise(&mut self, now: Millis, current: i32, replicas: i32, up: Millis, down: Millis) -> i32 {
        let (up, down) = (now.saturating_sub(up), now.saturating_sub(down));
        let since = |cutoff| self.0.iter().filter(move |past| past.at > cutoff).map(|past| past.replicas);
        let lowest = since(up).fold(replicas, i32::min);
        let highest = since(down).fold(replicas, i32::max);
        self.record(now, replicas, up.min(down));
        // Both include this recommendation, so the lowest is never above the highest.
        current.clamp(lowest, highest)
    }

    fn record(&mut self, now: Millis, replicas: i32, cutoff: Millis) {
        let entry = Recommendation { replicas, at: now };
        let old = self.0.iter().rposition(|past| past.at < cutoff);
        put(&mut self.0, old, entry);
    }
}

/// A change of the replicas that was carried out.
#[derive(Debug, Clone, Copy)]
struct Event {
    change: i32,
    at: Millis,
    /// Older than every period when a later event was recorded: free to be overwritten.
    outdated: bool,
}

/// Changes of the past in one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct Events(Vec<Event>);

impl Events {
    /// Replicas added, or removed, within the last `period`.
    pub fn within(&self, now: Millis, period: Millis) -> i32 {
        let cutoff = now.saturating_sub(period);
        let recent = self.0.iter().filter(|event| event.at > cutoff);
        recent.map(|event| event.change).fold(0, i32::saturating_add)
    }

    /// Records a change; `longest` is the longest period that a policy looks back.
    pub fn record(&mut self, now: Millis, change: i32, longest: Millis) {
        let cutoff = now.saturating_sub(longest);
        for event in self.0.iter_mut().filter(|event| event.at < cutoff) {
            event.outdated = true;
        }
        let old = self.0.iter().rposition(|event| event.outdated);
        put(&mut self.0, old, Event { change, at: now, outdated: false });
    }
}

/// Puts an entry in the place of an old one, or at the end.
fn put<T>(entries: &mut Vec<T>, old: Option<usize>, entry: T) {
    if let Some(old) = old.and_then(|old| entries.get_mut(old)) {
        *old = entry;
        return;
    }
    if entries.len() >= MOST {
        entries.remove(0);
    }
    entries.push(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stands_still_does_not_eat_the_memory() {
        let (mut recommendations, mut events) = (Recommendations::default(), Events::default());
        for round in 0..MOST as i32 + 10 {
            recommendations.stabilise(0, 1, round, 0, 300_000);
            events.record(0, 1, 15_000);
        }
        assert_eq!(recommendations.0.len(), MOST);
        assert_eq!(events.0.len(), MOST);
    }

    #[test]
    fn memory_follows_the_window_at_the_usual_pace() {
        let mut recommendations = Recommendations::default();
        for round in 0..1000 {
            recommendations.highest(round * 15_000, 3, 300_000);
        }
        assert_eq!(recommendations.0.len(), 21, "those of 15 s to 300 s ago, and the newest");
    }
}
