//! One pod: its slots, its queue, and its cores in virtual time.
//!
//! Requests in the CPU phase share the pod's cores evenly, at most one core each. They all run at the same speed, so the
//! pod keeps one clock that runs at that speed, and a request that needs d seconds is done when the clock has advanced
//! by d, whatever the speed was in between. A change of speed costs nothing per request.

use std::collections::VecDeque;

use super::request::{Agenda, Request, Timed};
use crate::workload::Workload;

/// What happens next in a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// A request is done on the CPU.
    Computed,
    /// A request is back from outside and answered.
    Returned,
    /// A request may have been there for too long.
    Expired,
    /// The cores of this period are used up.
    Spent,
    /// The pod becomes ready.
    Ready,
}

#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) id: u64,
    pub(super) node: usize,
    /// How much of a scarce node it may claim.
    pub(super) weight: f64,
    /// Cores and bytes of its limits, before and after they settle.
    pub(super) before: [f64; 2],
    pub(super) after: [f64; 2],
    /// CPU limit in force, and the cores that it can have now.
    pub(super) limit: f64,
    pub(super) cores: f64,
    /// Core-seconds left in this period; infinite without throttling.
    pub(super) budget: f64,
    /// Memory limit in force, and how many requests fit into it; negative when not even an idle pod does.
    pub(super) memory: f64,
    pub(super) appetite: f64,
    pub(super) fits: i64,
    /// When limits change, when the pod becomes ready (or did), and when it is gone.
    pub(super) settles: f64,
    pub(super) ready_at: f64,
    pub(super) gone: f64,
    pub(super) ready: bool,
    pub(super) stays: bool,
    /// Seconds in this step during which it took requests; `ready` since `open_since`.
    pub(super) open: f64,
    pub(super) open_since: f64,
    /// Requests in slots: on the CPU by virtual time, outside by real time. Others wait.
    pub(super) running: Agenda,
    pub(super) outside: Agenda,
    pub(super) waiting: VecDeque<Request>,
    pub(super) peak: usize,
    /// No request in a slot was sent before this. Only a bound: finding the oldest at every change would cost more than
    /// looking again when the bound expires.
    oldest: f64,
    /// Virtual time, its speed, and the real time at which it was read.
    clock: f64,
    speed: f64,
    at: f64,
    /// Core-seconds used in this step, and those of them that the node has not been told of.
    pub(super) total: f64,
    used: f64,
    pub(super) due: Due,
}

impl Server {
    pub(super) fn new(id: u64, node: usize, at: f64) -> Self {
        Self {
            id,
            node,
            weight: 0.0,
            before: [0.0; 2],
            after: [0.0; 2],
            limit: 0.0,
            cores: 0.0,
            budget: f64::INFINITY,
            memory: 0.0,
            appetite: 1.0,
            fits: 0,
            settles: at,
            ready_at: f64::INFINITY,
            gone: f64::INFINITY,
            ready: false,
            stays: true,
            open: 0.0,
            open_since: at,
            running: Agenda::new(),
            outside: Agenda::new(),
            waiting: VecDeque::new(),
            peak: 0,
            oldest: f64::INFINITY,
            clock: 0.0,
            speed: 0.0,
            at,
            total: 0.0,
            used: 0.0,
            due: Due::Ready,
        }
    }

    /// Requests in slots.
    pub(super) fn in_slots(&self) -> usize {
        self.running.len() + self.outside.len()
    }

    /// Threads that could run.
    pub(super) fn threads(&self) -> f64 {
        if self.budget > 0.0 { self.running.len() as f64 } else { 0.0 }
    }

    /// Memory in use with so many requests in slots.
    pub(super) fn bytes(&self, workload: &Workload, in_slots: usize) -> f64 {
        (workload.memory_idle.0 as f64 + workload.memory_request.0 as f64 * in_slots as f64) * self.appetite
    }

    /// The most in use since the step or the pod began.
    pub(super) fn peak_bytes(&self, workload: &Workload) -> f64 {
        self.bytes(workload, self.peak).min(self.memory)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.outside.is_empty() && self.waiting.is_empty()
    }

    /// Every request here.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.running.iter().chain(&self.outside).map(|timed| &timed.request).chain(&self.waiting)
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, to: f64) {
        if !self.running.is_empty() {
            let advance = (to - self.at) * self.speed;
            let used = advance * self.running.len() as f64;
            self.clock += advance;
            self.used += used;
            self.budget -= used;
        }
        self.at = to;
    }

    /// Core-seconds used since the last time this was asked.
    pub(super) fn collect(&mut self) -> f64 {
        self.total += self.used;
        std::mem::take(&mut self.used)
    }

    /// Puts a request on the CPU for so many seconds.
    #[inline]
    pub(super) fn compute(&mut self, request: Request, seconds: f64) {
        if self.running.is_empty() {
            self.clock = 0.0;
        }
        self.oldest = self.oldest.min(request.sent);
        self.running.push(Timed { due: self.clock + seconds, request });
    }

    /// Takes the request off the CPU that is done there.
    pub(super) fn computed(&mut self) -> Option<Request> {
        let done = self.running.pop()?;
        // What rounding left over must not add up.
        self.clock = done.due;
        Some(done.request)
    }

    /// Takes away every request.
    pub(super) fn clear(&mut self, into: &mut Vec<Request>) {
        into.extend(self.running.drain().chain(self.outside.drain()).map(|timed| timed.request));
        into.extend(self.waiting.drain(..));
        // A heap is drained in any order; those who were sent first go first.
        into.sort_by(|a, b| a.arrived.total_cmp(&b.arrived));
        self.oldest = f64::INFINITY;
    }

    /// Takes away the requests that were sent too long ago.
    pub(super) fn expire(&mut self, at: f64, timeout: f64, into: &mut Vec<Request>) {
        let late = |request: &Request| request.sent + timeout <= at;
        while let Some(request) = self.waiting.pop_front_if(|request| late(request)) {
            into.push(request);
        }
        if self.oldest + timeout > at {
            return;
        }
        let mut oldest = f64::INFINITY;
        let mut keep = |timed: &Timed| {
            let late = late(&timed.request);
            if late {
                into.push(timed.request);
            } else {
                oldest = oldest.min(timed.request.sent);
            }
            !late
        };
        self.running.retain(&mut keep);
        self.outside.retain(&mut keep);
        self.oldest = oldest;
    }

    /// When and what happens next; also sets the speed, so it must follow every change.
    #[inline]
    pub(super) fn next(&mut self, timeout: f64) -> f64 {
        if !self.ready {
            self.due = Due::Ready;
            return if self.stays { self.ready_at } else { f64::INFINITY };
        }
        let mut next = f64::INFINITY;
        if let Some(first) = self.running.peek() {
            let threads = self.running.len() as f64;
            let left = (first.due - self.clock).max(0.0);
            self.due = Due::Computed;
            // Divisions are the dearest part of an event, and most often there is a core for every thread.
            if self.budget <= 0.0 || self.cores <= 0.0 {
                self.speed = 0.0;
            } else if threads <= self.cores {
                self.speed = 1.0;
                next = self.at + left;
            } else {
                self.speed = self.cores / threads;
                next = self.at + left / self.speed;
            }
            if self.budget.is_finite() && self.speed > 0.0 {
                let spent = self.at + self.budget / (self.speed * threads);
                if spent < next {
                    (next, self.due) = (spent, Due::Spent);
                }
            }
        }
        if let Some(first) = self.outside.peek()
            && first.due < next
        {
            (next, self.due) = (first.due, Due::Returned);
        }
        if self.running.is_empty() && self.outside.is_empty() {
            self.oldest = f64::INFINITY;
        }
        let oldest = self.waiting.front().map_or(self.oldest, |first| self.oldest.min(first.sent));
        if oldest + timeout < next {
            (next, self.due) = (oldest + timeout, Due::Expired);
        }
        next
    }
}
