//! A tenant's pods between the orchestrator and the event loop: what is taken over when a step begins, what changes on
//! the way, and what is handed back and reported when it ends.

use std::sync::Arc;

use meanfield_common::{resources::Resources, slo::Slo};

use super::{MOST_REQUESTS, front::Front, host::Host, server::Server};
use crate::{
    cluster::{Doubt, Measured, Spec},
    tenant::{Pod, Tenant},
};

impl Front {
    /// Takes over the tenant as the orchestrator left it.
    pub(super) fn enter(&mut self, spec: &Spec, tenant: &Tenant, rate: f64, at: f64) {
        self.configure(&tenant.spec.workload, spec.balancing);
        self.objective = match tenant.spec.slo {
            Slo::Latency { milliseconds, .. } => milliseconds / 1000.0,
            Slo::Throughput { .. } => f64::INFINITY,
        };
        self.journal.turn_over(at);
        (self.asked, self.surplus, self.kills, self.peak) = (rate, 0.0, 0, 0.0);
        let mut known = std::mem::take(&mut self.pods);
        for pod in &tenant.pods {
            let Some(node) = pod.node else { continue };
            let place = known.iter().position(|server| server.id == pod.id);
            let mut server = place.map_or_else(|| Server::new(pod.id, node, at), |place| known.swap_remove(place));
            server.take_over(pod, at);
            self.pods.push(server);
        }
        for server in known {
            self.forget(server, at);
        }
    }

    /// Brings what holds from `from` to `to` into force.
    pub(super) fn change(&mut self, surge: f64, seconds: f64, from: f64, to: f64, hosts: &mut [Host]) {
        let asked = self.asked * surge;
        let rate = asked.min(MOST_REQUESTS / seconds);
        self.surplus += (asked - rate) * (to - from);
        self.arrive_at(rate, from);
        let workload = Arc::clone(&self.workload);
        for server in &mut self.pods {
            [server.limit, server.memory] = if server.settles <= from { server.after } else { server.before };
            let room = server.memory / server.appetite - workload.memory_idle.0 as f64;
            let each = workload.memory_request.0 as f64;
            server.fits = if room < 0.0 { -1 } else { (room / each.max(1e-9)) as i64 };
        }
        self.refresh();
        for pod in 0..self.pods.len() {
            if self.pods[pod].gone <= from {
                self.stop(pod, from);
            }
            self.check_memory(pod, from);
        }
        self.resend(hosts);
    }

    /// What was measured in the step that ends now.
    pub(super) fn report(&mut self, spec: &Spec, hosts: &[Host], end: f64) -> Measured {
        let timeout = self.workload.timeout;
        let surplus = self.surplus.round() as u64;
        if surplus > 0 {
            self.journal.turn_away(surplus, timeout);
        }
        self.journal.close(end);
        let all = || self.pods.iter().flat_map(Server::requests);
        let (ages, first) = all()
            .fold((0.0, end), |(ages, first), request| (ages + (end - request.arrived), request.arrived.min(first)));
        let waiting = self.pods.iter().map(|pod| pod.waiting.len()).sum::<usize>();
        self.journal.totals.ages = ages;
        self.journal.totals.waiting = waiting as u64;
        let totals = self.journal.totals;
        // If nothing came back, the age of the oldest request is the least that can be said of its latency.
        let percentiles = self.journal.percentiles().or_else(|| (totals.in_system > 0).then_some([end - first; 2]));
        let serving = || self.pods.iter().filter(|pod| pod.ready);
        let utilisation = |pod: &Server| hosts[pod.node].total / (spec.nodes[pod.node].cores * spec.seconds);
        let pods = self.pods.len().max(1) as f64;
        Measured {
            requests: totals.arrived as f64,
            served: totals.answered as f64,
            dropped: totals.failed as f64,
            backlog: waiting as f64,
            violating: totals.violating as f64,
            percentiles,
            concurrency: totals.area / spec.seconds,
            cores: self.pods.iter().map(|pod| pod.total).sum::<f64>() / spec.seconds,
            memory: serving().map(|pod| pod.bytes(&self.workload, pod.in_slots())).sum(),
            memory_peak: serving().map(|pod| pod.peak_bytes(&self.workload)).fold(self.peak, f64::max),
            oom_kills: self.kills,
            node_utilisation: self.pods.iter().map(utilisation).sum::<f64>().min(pods) / pods,
            doubt: (surplus > 0).then_some(Doubt::Capped),
        }
    }

    /// Hands the pods back to the orchestrator.
    pub(super) fn hand_back(&mut self, pods: &mut [Pod], seconds: f64, end: f64) {
        let mut servers = self.pods.iter();
        for pod in pods {
            // Both are in the same order, and what is not placed has no server.
            let Some(server) = pod.node.and_then(|_| servers.next()) else {
                pod.ready = 0.0;
                continue;
            };
            let open = if server.ready && server.stays { end - server.open_since } else { 0.0 };
            pod.ready = ((server.open + open) / seconds).clamp(0.0, 1.0);
            pod.starting = if server.ready { 0.0 } else { (server.ready_at - end).max(0.0) };
            pod.age = (end - server.ready_at).max(0.0);
            pod.settling = (server.settles - end).max(0.0);
            if pod.leaving.is_some() {
                pod.leaving = Some(if server.is_empty() { 0.0 } else { (server.gone - end).max(0.0) });
            }
            let bytes = if server.ready { server.bytes(&self.workload, server.in_slots()) } else { 0.0 };
            pod.fullness = bytes / (pod.limit.memory.0 as f64).max(1.0);
            pod.cores = server.cores;
        }
    }
}

impl Server {
    fn take_over(&mut self, pod: &Pod, at: f64) {
        let pair = |limit: Resources| [limit.cpu.cores(), limit.memory.0 as f64];
        self.weight = pod.weight();
        self.appetite = pod.appetite();
        (self.before, self.after) = (pair(pod.before), pair(pod.limit));
        self.settles = at + pod.settling;
        self.ready = pod.starting <= 0.0;
        self.ready_at = if self.ready { at - pod.age } else { at + pod.starting };
        self.stays = pod.stays();
        self.gone = pod.leaving.map_or(f64::INFINITY, |left| at + left);
        (self.open, self.open_since) = (0.0, at);
        self.peak = self.in_slots();
        self.total = 0.0;
    }
}
