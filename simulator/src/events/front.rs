//! One tenant: its arrivals, its load balancer, and the events of its pods in order of time.
//!
//! Within a quantum tenants do not feel each other, so each runs its own loop: the next arrival against the earliest of
//! one moment per pod, kept in a flat array. Nothing is allocated per request once queues have grown to their size.

use std::{collections::VecDeque, sync::Arc};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    host::Host,
    journal::Journal,
    request::{Demand, Request, Timed, exponential},
    server::{Due, Server},
};
use crate::{
    cluster::Balancing,
    tenant::{RESTART_DELAY, squeeze},
    workload::Workload,
};

/// Requests that wait for a pod at most; beyond that it refuses them, as a listening socket does.
const LONGEST_QUEUE: usize = 1 << 16;

#[derive(Debug, Clone)]
pub(super) struct Front {
    pub(super) workload: Arc<Workload>,
    demand: Demand,
    balancing: Balancing,
    /// Seconds beyond which a request violates the objective.
    pub(super) objective: f64,
    rng: ChaCha8Rng,
    /// Requests per second as asked for in this step, those of them that were turned away, and those that arrive.
    pub(super) asked: f64,
    pub(super) surplus: f64,
    rate: f64,
    arrival: f64,
    pub(super) pods: Vec<Server>,
    /// For each pod: when something happens next, and how many requests it has.
    next: Vec<f64>,
    load: Vec<u32>,
    /// The pods that take requests, and the one that is asked first next time.
    open: Vec<usize>,
    turn: usize,
    /// Requests that have just failed, and those of them that are sent again.
    failed: Vec<Request>,
    resent: VecDeque<Request>,
    pub(super) kills: u32,
    /// The most bytes in use by one pod.
    pub(super) peak: f64,
    pub(super) journal: Journal,
}

impl Front {
    /// Each tenant draws from its own stream of the same seed, so another tenant changes nobody's draws. ChaCha gives the
    /// same bytes on every platform and costs a few nanoseconds a number, little against the rest of a request.
    pub(super) fn new(workload: &Arc<Workload>, seed: u64, index: usize, at: f64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Arrival rates were drawn from the first streams of the same seed.
        rng.set_stream(1 << 62 | index as u64);
        Self {
            demand: Demand::new(workload),
            workload: Arc::clone(workload),
            balancing: Balancing::default(),
            objective: f64::INFINITY,
            rng,
            asked: 0.0,
            surplus: 0.0,
            rate: 0.0,
            arrival: f64::INFINITY,
            pods: Vec::new(),
            next: Vec::new(),
            load: Vec::new(),
            open: Vec::new(),
            turn: 0,
            failed: Vec::new(),
            resent: VecDeque::new(),
            kills: 0,
            peak: 0.0,
            journal: Journal::new(at),
        }
    }

    /// What requests need and where they go, from now on.
    pub(super) fn configure(&mut self, workload: &Arc<Workload>, balancing: Balancing) {
        if !Arc::ptr_eq(&self.workload, workload) {
            self.workload = Arc::clone(workload);
            self.demand = Demand::new(workload);
        }
        self.balancing = balancing;
    }

    /// Requests per second from now on.
    pub(super) fn arrive_at(&mut self, rate: f64, at: f64) {
        if rate != self.rate {
            self.rate = rate;
            // Arrivals have no memory: the wait for the next one may start anew at any time.
            self.arrival = if rate > 0.0 { at + exponential(&mut self.rng) / rate } else { f64::INFINITY };
        }
    }

    /// The pods have changed.
    pub(super) fn refresh(&mut self) {
        self.next.clear();
        self.load.clear();
        for pod in &mut self.pods {
            self.next.push(pod.next(self.workload.timeout));
            self.load.push((pod.in_slots() + pod.waiting.len()) as u32);
        }
        self.reopen();
    }

    fn reopen(&mut self) {
        self.open.clear();
        self.open.extend((0..self.pods.len()).filter(|index| self.pods[*index].ready && self.pods[*index].stays));
        self.turn = 0;
    }

    /// Gives a pod so many cores from now on.
    pub(super) fn grant(&mut self, pod: usize, cores: f64, at: f64) {
        let server = &mut self.pods[pod];
        server.pass(at);
        server.cores = cores;
        self.next[pod] = server.next(self.workload.timeout);
    }

    /// Runs from one moment until another, that one not included.
    pub(super) fn run(&mut self, from: f64, to: f64, hosts: &mut [Host]) {
        loop {
            let (mut pod, mut due) = (0, f64::INFINITY);
            for (index, next) in self.next.iter().enumerate() {
                if *next < due {
                    (pod, due) = (index, *next);
                }
            }
            // A shorter time-out may have come with a change of the workload: what is overdue is due now.
            let due = due.max(from);
            if self.arrival >= to && due >= to {
                break;
            }
            if self.arrival <= due {
                let at = self.arrival;
                self.arrival = at + exponential(&mut self.rng) / self.rate;
                self.journal.arrive(at);
                self.dispatch(Request { arrived: at, sent: at, attempt: 0 }, at, hosts);
            } else {
                self.happen(pod, due, hosts);
            }
            self.resend(hosts);
        }
    }

    fn happen(&mut self, pod: usize, at: f64, hosts: &mut [Host]) {
        let server = &mut self.pods[pod];
        server.pass(at);
        match server.due {
            Due::Computed => {
                let Some(request) = server.computed() else { return };
                let outside = outside(&self.workload, server, &mut hosts[server.node]);
                if outside > 0.0 {
                    server.outside.push(Timed { due: at + outside, request });
                } else {
                    self.answer(pod, request, at, hosts);
                }
            }
            Due::Returned => {
                let Some(back) = server.outside.pop() else { return };
                self.answer(pod, back.request, at, hosts);
            }
            Due::Expired => {
                server.expire(at, self.workload.timeout, &mut self.failed);
                self.load[pod] -= self.failed.len() as u32;
                self.give_up(at);
                self.fill(pod, at, hosts);
            }
            Due::Spent => server.budget = 0.0,
            Due::Ready => self.wake(pod, at),
        }
        self.next[pod] = self.pods[pod].next(self.workload.timeout);
    }

    #[inline]
    fn answer(&mut self, pod: usize, request: Request, at: f64, hosts: &mut [Host]) {
        self.journal.answer(request.arrived, at, self.objective);
        self.load[pod] -= 1;
        self.fill(pod, at, hosts);
    }

    /// Gives free slots to those who wait.
    fn fill(&mut self, pod: usize, at: f64, hosts: &mut [Host]) {
        while self.pods[pod].in_slots() < self.workload.slots as usize {
            let Some(request) = self.pods[pod].waiting.pop_front() else { return };
            self.start(pod, request, at, hosts);
        }
    }

    #[inline]
    fn start(&mut self, pod: usize, request: Request, at: f64, hosts: &mut [Host]) {
        let server = &mut self.pods[pod];
        let workload = &*self.workload;
        self.journal.start(at - request.sent);
        let mut seconds = self.demand.draw(&mut self.rng);
        let age = at - server.ready_at;
        if age < workload.warmup {
            seconds *= 1.0 + (workload.cold - 1.0).max(0.0) * (1.0 - age / workload.warmup);
        }
        server.compute(request, seconds + hosts[server.node].stall(workload.traffic_mb));
        server.peak = server.peak.max(server.in_slots());
        if server.in_slots() as i64 > server.fits {
            self.kill(pod, at);
        }
    }

    /// Sends a request to a pod. Without one that is ready there is nobody to answer: it is refused at once.
    #[inline]
    fn dispatch(&mut self, request: Request, at: f64, hosts: &mut [Host]) {
        let Some(pod) = self.choose() else {
            self.failed.push(request);
            self.give_up(at);
            return;
        };
        self.load[pod] += 1;
        let server = &mut self.pods[pod];
        server.pass(at);
        if server.in_slots() < self.workload.slots as usize {
            self.start(pod, request, at, hosts);
        } else if server.waiting.len() < LONGEST_QUEUE {
            server.waiting.push_back(request);
        } else {
            self.load[pod] -= 1;
            self.failed.push(request);
            self.give_up(at);
        }
        self.next[pod] = self.pods[pod].next(self.workload.timeout);
    }

    fn choose(&mut self) -> Option<usize> {
        let count = self.open.len();
        if count == 0 {
            return None;
        }
        let place = match self.balancing {
            Balancing::RoundRobin => self.turn,
            Balancing::Random => self.rng.random_range(0..count),
            Balancing::LeastConnections => {
                let (mut best, mut least) = (0, u32::MAX);
                // From the one whose turn it is, so that equals are asked in rotation.
                for place in (self.turn..count).chain(0..self.turn) {
                    let load = self.load[self.open[place]];
                    if load < least {
                        (best, least) = (place, load);
                    }
                }
                best
            }
        };
        self.turn = if place + 1 < count { place + 1 } else { 0 };
        Some(self.open[place])
    }

    fn wake(&mut self, pod: usize, at: f64) {
        self.pods[pod].ready = true;
        self.pods[pod].open_since = at;
        self.reopen();
        self.check_memory(pod, at);
    }

    /// Kills a pod whose requests do not fit into its memory.
    pub(super) fn check_memory(&mut self, pod: usize, at: f64) {
        let server = &self.pods[pod];
        if server.ready && server.in_slots() as i64 > server.fits {
            self.kill(pod, at);
        }
    }

    /// Fails all requests of a pod and starts it again.
    fn kill(&mut self, pod: usize, at: f64) {
        self.kills += 1;
        let ready_at = at + self.workload.startup + RESTART_DELAY;
        self.stop(pod, at);
        self.pods[pod].ready_at = ready_at;
        self.next[pod] = self.pods[pod].next(self.workload.timeout);
    }

    /// Fails all requests of a pod, which is not ready any more.
    pub(super) fn stop(&mut self, pod: usize, at: f64) {
        let server = &mut self.pods[pod];
        server.pass(at);
        self.peak = self.peak.max(server.peak_bytes(&self.workload));
        server.peak = 0;
        if server.ready && server.stays {
            server.open += at - server.open_since;
        }
        server.ready = false;
        server.clear(&mut self.failed);
        self.load[pod] = 0;
        self.next[pod] = self.pods[pod].next(self.workload.timeout);
        self.reopen();
        self.give_up(at);
    }

    /// Sends failed requests again while that is allowed.
    fn give_up(&mut self, at: f64) {
        for mut request in self.failed.drain(..) {
            if request.attempt < self.workload.retries {
                request.attempt += 1;
                request.sent = at;
                self.resent.push_back(request);
            } else {
                self.journal.fail(request.arrived, at, self.workload.timeout);
            }
        }
    }

    /// Sends again what may be. A request that overturns another pod adds to the list; each pod falls only once.
    pub(super) fn resend(&mut self, hosts: &mut [Host]) {
        while let Some(request) = self.resent.pop_front() {
            self.dispatch(request, request.sent, hosts);
        }
    }

    /// Fails the requests of a pod that is no longer there.
    pub(super) fn forget(&mut self, mut server: Server, at: f64) {
        server.clear(&mut self.failed);
        self.give_up(at);
    }
}

/// Seconds that a request spends outside the CPU: on the disk, on the network, and on its way.
fn outside(workload: &Workload, server: &Server, host: &mut Host) -> f64 {
    let mut seconds = host.delay;
    if workload.io_mb > 0.0 {
        // The request that waits to go there is not in a slot for a moment, but still in memory.
        let fullness = server.bytes(workload, server.in_slots() + 1) / server.memory.max(1.0);
        seconds += host.disk.seconds(workload.io_mb * squeeze(fullness));
    }
    if workload.network_mb > 0.0 {
        seconds += host.network.seconds(workload.network_mb);
    }
    seconds
}
