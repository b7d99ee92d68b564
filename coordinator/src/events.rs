//! Everything that happens, for whoever wants to watch: a bounded ring in memory, and readers that pull from it.
//!
//! Nobody who makes an event waits for those who read it. Each reader keeps its own place in the ring; one that is slower
//! than what happens finds its place overwritten, is told so, and has to come back. Heartbeats make events at transitions
//! only, and those hold no text: names are looked up when somebody reads. So heartbeats allocate nothing.

use std::collections::VecDeque;

use meanfield_common::{
    identity::{AgentId, AgentName, PoolName},
    invalid::Invalid,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::clock::Clock;

/// How many events are kept for those who come back.
pub const KEPT: usize = 4096;
/// How many events a reader is given at once.
const BATCH: usize = 64;
/// Ids that a millisecond of the wall clock stands for, so that those of a later run are greater.
const IDS_PER_MS: u64 = 1000;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal;)*) => {
        /// What happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "lowercase")]
        #[schema(as = EventKind)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The name on the wire.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }
        }
    };
}

kinds! {
    /// An agent registered, for the first time or again.
    Joined = "joined";
    /// An agent left by itself.
    Left = "left";
    /// An operator removed an agent.
    Removed = "removed";
    /// An agent has missed heartbeats.
    Suspect = "suspect";
    /// A suspect was heard of again.
    Recovered = "recovered";
    /// An agent was silent for too long.
    Gone = "gone";
    /// An agent or everybody was paused.
    Paused = "paused";
    /// That was lifted.
    Resumed = "resumed";
    /// The kill switch was turned on or off, for everybody, a pool or an agent.
    Fallback = "fallback";
    /// An operator ordered a state of an agent's lifecycle, or took that back.
    Lifecycle = "lifecycle";
    /// An operator ordered a pool's capacity, or took that back.
    Capacity = "capacity";
    /// An operator said how a pool goes about scarcity, or took that back.
    Scarcity = "scarcity";
    /// An operator gave an agent a weight or a minimum, or took that back.
    Entitlement = "entitlement";
    /// A pool's change budget was set or lifted.
    Budget = "budget";
    /// A pool's forecast network was given or taken back.
    Forecast = "forecast";
    /// A pool was made, given other settings or removed.
    Pool = "pool";
    /// A version of a base model was taken in or averaged, another one is served, or the model was removed.
    Model = "model";
    /// A token was made or revoked.
    Token = "token";
    /// An agent was told a cap: not everybody's need fits.
    Granted = "granted";
    /// An agent was told that it has no cap any more.
    Relieved = "relieved";
    /// To this reader only: events between its place and this one are no longer kept.
    Missed = "missed";
    /// To this reader only, and the last: it was slower than what happened.
    Dropped = "dropped";
    /// The last: the coordinator shuts down.
    Closing = "closing";
}

impl std::str::FromStr for Kind {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let names = || Self::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().copied().find(|kind| kind.name() == text);
        found.ok_or_else(|| Invalid::new("kind", format!("{text:?}"), format!("one of {}", names())))
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows from event to event, also over restarts.
    pub id: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    pub kind: Kind,
    /// In which pool; absent where it is about everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// To which agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The agent's name; absent if it is no member any more by the time that this is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<AgentName>,
    /// More about it: the new state, or how many events were missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// What happened, before it has an id.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    pub(crate) pool: Option<PoolName>,
    pub(crate) agent: Option<AgentId>,
    pub(crate) name: Option<AgentName>,
    pub(crate) detail: Option<Value>,
}

#[derive(Debug, Clone)]
struct Kept {
    id: u64,
    at_ms: u64,
    kind: Kind,
    about: About,
}

/// Where events are made and read.
#[derive(Debug)]
pub(crate) struct Hub {
    clock: Clock,
    /// The first id of this run.
    first: u64,
    ring: Mutex<VecDeque<Kept>>,
    /// The newest id, or that there will be no more.
    newest: watch::Sender<Newest>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Newest {
    id: u64,
    closed: bool,
}

impl Hub {
    pub(crate) fn new(clock: Clock) -> Self {
        let first = clock.wall().saturating_mul(IDS_PER_MS) + 1;
        let newest = watch::Sender::new(Newest { id: first - 1, closed: false });
        Self { clock, first, ring: Mutex::new(VecDeque::with_capacity(KEPT)), newest }
    }

    /// Adds an event; never waits for readers.
    pub(crate) fn publish(&self, kind: Kind, about: About) {
        let at_ms = self.clock.wall();
        let mut ring = self.ring.lock();
        let id = self.newest.borrow().id + 1;
        if ring.len() >= KEPT {
            ring.pop_front();
        }
        ring.push_back(Kept { id, at_ms, kind, about });
        // Within the lock, so that ids are announced in order.
        self.newest.send_modify(|newest| newest.id = id);
    }

    /// A transition that a heartbeat made: a pool's name is shared, so it costs no allocation.
    pub(crate) fn transition(&self, kind: Kind, pool: PoolName, agent: AgentId) {
        self.publish(kind, About { pool: Some(pool), agent: Some(agent), ..About::default() });
    }

    /// Ends all readers, once they have read what is there.
    pub(crate) fn close(&self) {
        self.newest.send_modify(|newest| newest.closed = true);
    }

    /// A reader of what comes, or of what came after an id that was read before.
    pub(crate) fn reader(&self, after: Option<u64>, filter: Filter) -> Reader {
        let watch = self.newest.subscribe();
        let newest = watch.borrow().id;
        // An id from the future is none of ours: what comes next is the best that can be said.
        let at = after.unwrap_or(newest).min(newest);
        Reader { at, resumed: after.is_some(), filter, watch, ended: false }
    }

    fn read(&self, reader: &mut Reader) -> Vec<Event> {
        let ring = self.ring.lock();
        let newest = self.newest.borrow().id;
        let oldest = ring.front().map_or(newest + 1, |kept| kept.id);
        let own = |kind, id, detail| {
            let at_ms = self.clock.wall();
            Event { id, at_ms, kind, pool: None, agent: None, name: None, detail: Some(detail) }
        };
        let mut events = Vec::new();
        if reader.at + 1 < oldest {
            let kept_from = oldest;
            // Of an earlier run nobody knows how many there were.
            let missed = if reader.at + 1 >= self.first { Some(oldest - reader.at - 1) } else { None };
            let detail = serde_json::json!({ "missed": missed, "kept_from": kept_from });
            if !reader.resumed {
                reader.ended = true;
                return vec![own(Kind::Dropped, reader.at, detail)];
            }
            events.push(own(Kind::Missed, oldest - 1, detail));
            reader.at = oldest - 1;
        }
        // Only the first look may find a gap; a later one means that the reader is too slow.
        reader.resumed = false;
        let start = ring.partition_point(|kept| kept.id <= reader.at);
        for kept in ring.range(start..) {
            reader.at = kept.id;
            if !reader.filter.admits(kept.kind, kept.about.pool.as_ref()) {
                continue;
            }
            let Kept { id, at_ms, kind, about: About { pool, agent, name, detail } } = kept.clone();
            events.push(Event { id, at_ms, kind, pool, agent, name, detail });
            if events.len() >= BATCH {
                break;
            }
        }
        events
    }

    /// The next events, once there are some; none at the end. Names of agents are left to the caller.
    pub(crate) async fn next(&self, reader: &mut Reader) -> Option<Vec<Event>> {
        loop {
            if reader.ended {
                return None;
            }
            let Newest { id, closed } = *reader.watch.borrow_and_update();
            if reader.at < id || reader.resumed {
                let events = self.read(reader);
                if !events.is_empty() {
                    return Some(events);
                }
                continue;
            }
            if closed {
                reader.ended = true;
                let at_ms = self.clock.wall();
                let closing =
                    Event { id, at_ms, kind: Kind::Closing, pool: None, agent: None, name: None, detail: None };
                return Some(vec![closing]);
            }
            if reader.watch.changed().await.is_err() {
                return None;
            }
        }
    }
}

/// Which events a reader wants.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of this pool, and those about everybody.
    pub pool: Option<PoolName>,
    /// Only of these kinds; of all if empty.
    pub kinds: Vec<Kind>,
}

impl Filter {
    fn admits(&self, kind: Kind, pool: Option<&PoolName>) -> bool {
        let of_pool = pool.is_none_or(|pool| self.pool.as_ref().is_none_or(|wanted| wanted == pool));
        of_pool && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}

/// A reader's place.
#[derive(Debug)]
pub struct Reader {
    at: u64,
    resumed: bool,
    filter: Filter,
    watch: watch::Receiver<Newest>,
    ended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    fn hub() -> Hub {
        Hub::new(Clock::manual())
    }

    /// What is there at once; none while the reader would wait.
    fn ready(hub: &Hub, reader: &mut Reader) -> Option<Vec<(u64, Kind)>> {
        match pin!(hub.next(reader)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(events) => {
                Some(events.unwrap_or_default().into_iter().map(|event| (event.id, event.kind)).collect())
            }
            Poll::Pending => None,
        }
    }

    fn happen(hub: &Hub, kind: Kind, times: usize) {
        (0..times).for_each(|_| hub.publish(kind, About::default()));
    }

    #[test]
    fn readers_get_what_comes_and_those_who_come_back_what_they_missed() {
        let hub = hub();
        happen(&hub, Kind::Joined, 3);
        let mut fresh = hub.reader(None, Filter::default());
        assert_eq!(ready(&hub, &mut fresh), None, "what was before is not told");
        happen(&hub, Kind::Left, 2);
        assert_eq!(ready(&hub, &mut fresh), Some(vec![(4, Kind::Left), (5, Kind::Left)]));
        let mut back = hub.reader(Some(2), Filter::default());
        assert_eq!(ready(&hub, &mut back).unwrap()[0], (3, Kind::Joined));
        assert_eq!(ready(&hub, &mut hub.reader(Some(5), Filter::default())), None);
        assert_eq!(ready(&hub, &mut hub.reader(Some(u64::MAX), Filter::default())), None);
    }

    #[test]
    fn who_comes_back_too_late_is_told_and_who_is_too_slow_is_dropped() {
        let hub = hub();
        let mut slow = hub.reader(None, Filter::default());
        happen(&hub, Kind::Joined, 1);
        let mut back = hub.reader(Some(0), Filter::default());
        assert_eq!(ready(&hub, &mut back).unwrap(), [(1, Kind::Joined)]);
        happen(&hub, Kind::Left, KEPT + 9);
        assert_eq!(ready(&hub, &mut slow), Some(vec![(0, Kind::Dropped)]));
        assert_eq!(ready(&hub, &mut slow), Some(vec![]), "that was the end");
        assert_eq!(ready(&hub, &mut back), Some(vec![(1, Kind::Dropped)]));
        let mut again = hub.reader(Some(1), Filter::default());
        let first = ready(&hub, &mut again).unwrap();
        assert_eq!(first[..2], [(10, Kind::Missed), (11, Kind::Left)]);
        let mut count = first.len() - 1;
        while let Some(more) = ready(&hub, &mut again) {
            count += more.len();
        }
        assert_eq!(count, KEPT);
    }

    #[test]
    fn ids_grow_over_restarts_and_an_earlier_run_is_a_gap() {
        let clock = Clock::manual();
        let before = Hub::new(clock.clone());
        happen(&before, Kind::Joined, 5);
        clock.advance(Duration::from_secs(1));
        let after = Hub::new(clock);
        happen(&after, Kind::Left, 1);
        let events = ready(&after, &mut after.reader(Some(5), Filter::default())).unwrap();
        assert_eq!(events, [(1_000_000, Kind::Missed), (1_000_001, Kind::Left)]);
    }

    #[test]
    fn filters_choose_pool_and_kind_and_everybody_s_events_pass() {
        let hub = hub();
        let filter = Filter { pool: Some("b".parse().unwrap()), kinds: vec![Kind::Granted, Kind::Paused] };
        let mut reader = hub.reader(None, filter);
        let agent = AgentId(uuid::Uuid::nil());
        let pool = |name: &str| name.parse().unwrap();
        hub.transition(Kind::Granted, pool("a"), agent);
        hub.transition(Kind::Granted, pool("b"), agent);
        hub.transition(Kind::Relieved, pool("b"), agent);
        hub.publish(Kind::Paused, About::default());
        assert_eq!(ready(&hub, &mut reader), Some(vec![(2, Kind::Granted), (4, Kind::Paused)]));
        assert_eq!(ready(&hub, &mut reader), None);
    }

    #[test]
    fn the_end_comes_after_what_happened_before() {
        let hub = hub();
        let mut reader = hub.reader(None, Filter::default());
        happen(&hub, Kind::Joined, 1);
        hub.close();
        assert_eq!(ready(&hub, &mut reader), Some(vec![(1, Kind::Joined)]));
        assert_eq!(ready(&hub, &mut reader), Some(vec![(1, Kind::Closing)]));
        assert_eq!(ready(&hub, &mut reader), Some(vec![]));
    }
}
