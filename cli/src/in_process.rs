//! The coordinator without a network: the same code, called directly.

use std::time::Duration;

use meanfield_agent::link::{Ask, Error, File, Link};
use meanfield_common::{
    identity::{AgentId, ModelName, PoolName},
    invalid::Invalid,
    reward::Reward,
    scarcity::Capacity,
    trajectory::{Append, Appended},
    wire::{Answer, Heartbeat, Leave, Problem, Register, Registered},
};
use meanfield_coordinator::{Clock, Coordinator, Options};
use meanfield_simulator::scenario::Scenario;

/// The part of the nodes that pods can be packed into; the coordinator is told no more.
pub const PACKED: f64 = 0.97;

/// So much of what a scenario's nodes hold.
pub fn capacity(scenario: &Scenario, part: f64) -> Result<Capacity, Invalid> {
    let nodes = scenario.cluster().nodes;
    let cores: f64 = nodes.iter().map(|node| node.cores).sum();
    let memory: f64 = nodes.iter().map(|node| node.memory.as_mebi() / 1024.0).sum();
    Capacity::new(part * cores, part * memory)
}

/// A coordinator of simulated clusters, one a pool, that may be told what each of them holds.
pub fn coordinator(pools: &[PoolName], capacity: Option<Capacity>) -> anyhow::Result<Coordinator> {
    let capacities = pools.iter().filter_map(|pool| Some((pool.clone(), capacity?))).collect();
    // Simulated agents are never silent.
    let (suspect_after, gone_after) = (Duration::from_hours(1), Duration::from_hours(24));
    let options = Options { pools: pools.to_vec(), capacities, suspect_after, gone_after, ..Options::default() };
    Ok(Coordinator::open(options, Clock::manual())?)
}

/// A coordinator in the same process.
#[derive(Clone)]
pub struct InProcess(pub Coordinator);

impl Link for InProcess {
    async fn register(&mut self, register: &Register) -> Result<Registered, Error> {
        self.0.register(register.clone()).await.map_err(error)
    }

    async fn heartbeat(&mut self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, Error> {
        self.0.heartbeat(agent, heartbeat).map_err(error)
    }

    async fn leave(&mut self, agent: AgentId, leave: &Leave) -> Result<(), Error> {
        self.0.leave(agent, *leave).await.map_err(error)
    }

    async fn forecast(&mut self, pool: &PoolName) -> Result<Vec<u8>, Error> {
        self.0.forecast(pool).map(|forecast| forecast.bytes().to_vec()).map_err(error)
    }

    async fn base_model(&mut self, ask: &Ask<'_>) -> Result<Option<File>, Error> {
        let agent = format!("{}/{}", ask.pool, ask.name);
        let (number, version) = self.0.model_file(ask.model, ask.version, Some(&agent)).map_err(error)?;
        let other = Some(version.digest()) != ask.had;
        Ok(other.then(|| File { version: Some(number), bytes: version.bytes().to_vec() }))
    }

    async fn append(&mut self, agent: AgentId, append: &Append) -> Result<Appended, Error> {
        self.0.append(agent, append.clone()).await.map_err(error)
    }

    async fn contribute(&mut self, model: &ModelName, agent: AgentId, file: &[u8], reward: f64) -> Result<(), Error> {
        let reward = Reward::try_from(reward).map_err(|invalid| error(invalid.into()))?;
        self.0.contribute(model, agent, file, reward).map_err(error)
    }
}

/// What an agent must do about the coordinator's refusal; by HTTP the same follows from the kind of the problem.
fn error(error: meanfield_coordinator::Error) -> Error {
    use meanfield_coordinator::Error as Refusal;
    match error {
        Refusal::UnknownAgent(_) => Error::Unknown,
        Refusal::StaleEpoch { .. } => Error::Superseded,
        Refusal::Store(_) | Refusal::Closed | Refusal::Io { .. } => Error::Unreachable(error.to_string()),
        other => Error::Refused(Box::new(Problem {
            kind: "/problems/refused".to_owned(),
            title: "Refused".to_owned(),
            status: 422,
            detail: other.to_string(),
            field: None,
            bound: None,
            trace_id: None,
        })),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use meanfield_agent::{fleet::Fleet, http::Http, policy::ppo::Ppo, training::Trainer};
    use meanfield_common::{identity::PoolName, scarcity::Capacity};
    use meanfield_coordinator::{Clock, Options, serve};
    use meanfield_learner::{ActorCritic, Config, Sharing};
    use meanfield_simulator::scenario::{Scenario, Start};
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Keeps what the coordinator answered.
    struct Witness<L> {
        link: L,
        place: usize,
        answers: mpsc::UnboundedSender<(usize, Answer)>,
    }

    impl<L: Link> Link for Witness<L> {
        async fn register(&mut self, register: &Register) -> Result<Registered, Error> {
            self.link.register(register).await
        }
        async fn heartbeat(&mut self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, Error> {
            let answer = self.link.heartbeat(agent, heartbeat).await?;
            self.answers.send((self.place, answer.clone())).unwrap();
            Ok(answer)
        }
        async fn leave(&mut self, agent: AgentId, leave: &Leave) -> Result<(), Error> {
            self.link.leave(agent, leave).await
        }
    }

    /// Twelve exploring agents for thirty rounds, with one leaving half-way: all answers, by place and in order.
    async fn run<L: Link>(pool: &str, at_once: bool, link: impl Fn() -> L) -> Vec<(usize, Answer)> {
        let network = Arc::new(ActorCritic::new(Config::default(), 5).unwrap());
        let (send, mut receive) = mpsc::unbounded_channel();
        let scenario = Scenario::new(12, 30).unwrap();
        let shape = Config::default().reward;
        let mut fleet = Fleet::new(&scenario, 7, Start::Random, pool.parse().unwrap(), shape, |place, _| {
            let witness = Witness { link: link(), place, answers: send.clone() };
            Ok((witness, Ppo::exploring(network.clone(), place as u64)))
        })
        .unwrap();
        for round in 0..30 {
            if round == 15 {
                fleet.leave(3).await.unwrap();
            }
            if at_once {
                fleet.round().await.unwrap()
            } else {
                fleet.round_in_turn().await.unwrap()
            };
        }
        drop((fleet, send));
        let mut answers = Vec::new();
        while let Some(answer) = receive.recv().await {
            answers.push(answer);
        }
        // Within a round agents come in any order; each agent's own answers stay in theirs.
        answers.sort_by_key(|(place, _)| *place);
        answers
    }

    #[tokio::test]
    async fn by_http_and_in_process_the_numbers_are_the_same() {
        let pools: Vec<PoolName> = ["direct", "network"].map(|name| name.parse().unwrap()).to_vec();
        // Less than they claim, so that some have a cap, for comfort or for need.
        let capacity = Capacity::new(30.0, 100.0).unwrap();
        let capacities = pools.iter().map(|pool| (pool.clone(), capacity)).collect();
        let options = Options { pools, capacities, ..Options::default() };
        let coordinator = Coordinator::open(options, Clock::system()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http =
            Http::new(&format!("http://{}", listener.local_addr().unwrap()), coordinator.token().to_owned()).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(coordinator.clone(), listener, async { drop(stopped.await) }));

        let direct = run("direct", false, || InProcess(coordinator.clone())).await;
        let network = run("network", true, || http.clone()).await;
        assert_eq!(direct.len(), 15 * 12 + 15 * 11);
        assert_eq!(direct, network);
        assert!(direct.iter().any(|(_, answer)| answer.auxiliary.others == 10), "the one who left is gone");
        let granted = |answer: &Answer| answer.scarcity.is_some_and(|scarcity| scarcity.grant.is_some());
        let grants = direct.iter().filter(|(_, answer)| granted(answer)).count();
        assert!((30..direct.len() / 2).contains(&grants), "{grants} of {} had a cap", direct.len());

        drop((http, stop));
        serving.await.unwrap().unwrap();
    }

    /// Training asks from threads that never wait for anything: this one waits for them.
    #[derive(Clone)]
    struct Blocking {
        http: Http,
        runtime: tokio::runtime::Handle,
    }

    impl Link for Blocking {
        async fn register(&mut self, register: &Register) -> Result<Registered, Error> {
            self.runtime.block_on(self.http.register(register))
        }
        async fn heartbeat(&mut self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, Error> {
            self.runtime.block_on(self.http.heartbeat(agent, heartbeat))
        }
        async fn leave(&mut self, agent: AgentId, leave: &Leave) -> Result<(), Error> {
            self.runtime.block_on(self.http.leave(agent, leave))
        }
    }

    fn trained<L: Link + Clone>(config: &Config, pools: &[PoolName], link: &L) -> Vec<Vec<u8>> {
        let scenario = Scenario::new(4, 1).unwrap();
        let mut trainer = Trainer::new(config.clone(), &scenario, 3, pools, |_| link.clone()).unwrap();
        for episode in 0..3 {
            trainer.iterate(episode as f32 / 3.0).unwrap();
        }
        trainer.leave().unwrap();
        trainer.save().unwrap().learners
    }

    /// Shared networks, the others by category, with percentiles and as mean states: the same bits either way.
    #[test]
    fn shared_networks_learn_the_same_by_http_and_in_process() {
        let names = ["direct-1", "direct-2", "network-1", "network-2"];
        let pools = names.map(|name| name.parse::<PoolName>().unwrap()).to_vec();
        let options = Options { pools: pools.clone(), ..Options::default() };
        let coordinator = Coordinator::open(options, Clock::system()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = runtime.spawn(serve(coordinator.clone(), listener, async { drop(stopped.await) }));
        let http = runtime.block_on(async { Http::new(&url, coordinator.token().to_owned()).unwrap() });
        let network = Blocking { http, runtime: runtime.handle().clone() };

        let detailed = Config { auxiliary_categories: true, auxiliary_percentiles: true, ..Config::default() };
        let auxiliary = detailed.auxiliary_layout().width();
        for config in [
            Config { team_share: 0.5, auxiliary, ..detailed },
            Config { sharing: Sharing::Category, ..Config::preset("simppo-all").unwrap() },
            Config::preset("paper-simppo").unwrap(),
        ] {
            let config = Config { horizon: 8, environments: 2, curriculum: None, ..config };
            let direct = trained(&config, &pools[..2], &InProcess(coordinator.clone()));
            assert!(trained(&config, &pools[2..], &network) == direct, "{config:?}");
        }
        drop((network, stop));
        runtime.block_on(serving).unwrap().unwrap();
    }
}
