//! Many agents on few connections.

use std::{io, net::SocketAddr, sync::Arc, time::Instant};

use meanfield_common::{
    action::Action,
    identity::{AgentId, Category, Epoch, PoolName, Sequence},
    mean_field::Aspects,
    reward::Reward,
    state::{LocalState, Unit},
    wire::{Heartbeat, Register, Registered},
};
use tokio::task::JoinSet;

use crate::{
    client::{Connection, JSON, post},
    pace::{Latencies, Pace, until},
    tls::Tls,
};

/// What to load, and how.
#[derive(Debug, Clone)]
pub struct Swarm {
    /// The coordinator.
    pub address: SocketAddr,
    /// How to speak https to it; without it, http.
    pub tls: Option<Tls>,
    /// Its token.
    pub token: Arc<str>,
    /// The pool to join.
    pub pool: PoolName,
    /// Connections, each used by one task, one request at a time.
    pub connections: usize,
}

impl Swarm {
    /// One of its connections.
    pub async fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.address, self.tls.as_ref()).await
    }

    /// Registers so many agents; the answers in no particular order.
    pub async fn register(&self, agents: usize) -> io::Result<Vec<Registered>> {
        let mut tasks = JoinSet::new();
        for connection in 0..self.connections {
            let swarm = self.clone();
            tasks.spawn(async move {
                let mut link = swarm.connect().await?;
                let mut registered = Vec::new();
                for agent in (connection..agents).step_by(swarm.connections) {
                    let answer = link.send(&registration(&swarm, &format!("swarm-{agent}"), agent)?).await?;
                    if answer.status != 201 {
                        return Err(io::Error::other(String::from_utf8_lossy(answer.body)));
                    }
                    registered.push(serde_json::from_slice::<Registered>(answer.body)?);
                }
                Ok::<_, io::Error>(registered)
            });
        }
        let mut all = Vec::with_capacity(agents);
        while let Some(registered) = tasks.join_next().await {
            all.extend(registered.map_err(io::Error::other)??);
        }
        Ok(all)
    }

    /// Sends prepared requests round by round over all connections, each answered before the next on its connection,
    /// and counts those that were answered with 2xx. Every connection takes its own share of `requests`, in order.
    pub async fn drive(&self, requests: Vec<Vec<u8>>) -> io::Result<u64> {
        let mut tasks = JoinSet::new();
        let requests = Arc::new(requests);
        for connection in 0..self.connections {
            let (swarm, requests) = (self.clone(), requests.clone());
            tasks.spawn(async move {
                let mut link = swarm.connect().await?;
                let mut good = 0;
                for request in requests.iter().skip(connection).step_by(swarm.connections) {
                    good += u64::from((200..300).contains(&link.send(request).await?.status));
                }
                Ok::<_, io::Error>(good)
            });
        }
        let mut good = 0;
        while let Some(counted) = tasks.join_next().await {
            good += counted.map_err(io::Error::other)??;
        }
        Ok(good)
    }

    /// Sends prepared requests open-loop, so many a second over all connections, and measures how late their answers were.
    /// An answer that is not 2xx is an error.
    pub async fn paced(&self, requests: Vec<Vec<u8>>, rate: f64) -> io::Result<Latencies> {
        let mut tasks = JoinSet::new();
        let (requests, pace, start) = (Arc::new(requests), Pace::per_second(rate), Instant::now());
        for connection in 0..self.connections {
            let (swarm, requests) = (self.clone(), requests.clone());
            tasks.spawn(async move {
                let (mut link, mut latencies) = (swarm.connect().await?, Latencies::new()?);
                for (number, request) in requests.iter().enumerate().skip(connection).step_by(swarm.connections) {
                    let due = start + pace.due(number as u64);
                    until(due).await;
                    let status = link.send(request).await?.status;
                    latencies.record(due.elapsed());
                    if !(200..300).contains(&status) {
                        return Err(io::Error::other(format!("answered with {status}")));
                    }
                }
                Ok::<_, io::Error>(latencies)
            });
        }
        let mut all = Latencies::new()?;
        while let Some(latencies) = tasks.join_next().await {
            all.add(&latencies.map_err(io::Error::other)??)?;
        }
        Ok(all)
    }

    /// The heartbeat with which `agent` reports for the `sequence`-th time.
    pub fn heartbeat(&self, agent: AgentId, epoch: Epoch, sequence: u64) -> io::Result<Vec<u8>> {
        let body = serde_json::to_vec(&step(epoch, sequence)?)?;
        Ok(post(&format!("/v1/agents/{agent}/heartbeat"), &self.token, JSON, &body))
    }
}

/// The request with which an agent becomes a member; the categories take turns.
pub(crate) fn registration(swarm: &Swarm, name: &str, number: usize) -> io::Result<Vec<u8>> {
    let name = name.parse().map_err(io::Error::other)?;
    let category = Category::ALL[number % Category::ALL.len()];
    let register = Register { name, pool: swarm.pool.clone(), category, wants: Aspects::NONE };
    Ok(post("/v1/agents", &swarm.token, JSON, &serde_json::to_vec(&register)?))
}

/// What an agent says the `sequence`-th time.
pub fn step(epoch: Epoch, sequence: u64) -> io::Result<Heartbeat> {
    let share = (sequence % 97) as f64 / 97.0;
    let state = LocalState {
        slo_preservation: Unit::clamped(1.0 - share / 10.0),
        cpu_utilisation: Unit::clamped(share),
        memory_utilisation: Unit::clamped(0.625),
        arrival_change: Unit::clamped(share - 0.5),
        cpu_limit: Unit::clamped(0.25),
        memory_limit: Unit::clamped(0.375),
        replicas: Unit::clamped(0.1875),
    };
    let reward = Reward::try_from(share).map_err(io::Error::other)?;
    let sequence = Sequence(sequence);
    Ok(Heartbeat {
        epoch,
        sequence,
        round: None,
        state,
        action: Action::HOLD,
        reward,
        claim: None,
        detail: false,
        moving: None,
    })
}
