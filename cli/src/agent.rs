//! `meanfield agent`: one agent in real time.

mod metrics;

use std::{fs, num::NonZero, path::Path, sync::Arc};

use anyhow::Context;
use clap::ValueEnum;
use meanfield_agent::{
    agent::Agent,
    daemon,
    environment::{Alone, Environment},
    following::{Following, Found, Wanted},
    http::Http,
    link::Link,
    metrics::Metrics,
    policy::{
        Policy,
        aimd::Aimd,
        ensure::Ensure,
        forecast::{Care, Forecast, shipped},
        hpa::Follow,
        kpa::Kpa,
        learning::Learning,
        outlook::PeakHold,
        plan::{self, Plan},
        ppo,
        ppo::Ppo,
        reactive::Reactive,
        rules::Rules,
    },
    profile::Profile,
    sharing::Sharing,
    teaching::{Outbox, Teaching},
    trajectories::{self, Recorder},
};
use meanfield_common::{identity::Category, invalid::Invalid, reward::Shape};
use meanfield_coordinator::token;
use meanfield_learner::{ActorCritic, Learner};
use meanfield_simulator::{scenario::DAY_STEPS, workload::functions};

use crate::{
    args::{AgentArgs, CategoryName, FallbackName, PolicyName, Switch},
    file, signals, telemetry,
};

/// Updates between two checkpoints of an agent that learns: some hours of steps.
const UPDATES: NonZero<u64> = NonZero::new(10).unwrap();

pub fn run(args: &AgentArgs) -> anyhow::Result<()> {
    let telemetry = telemetry::start(&args.log, "meanfield-agent")?;
    if args.learn && args.policy != PolicyName::Ppo {
        let name = args.policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        Err(Invalid::new("policy", name, "ppo, the only one that learns"))?;
    }
    let place = functions().iter().position(|function| function.name == args.function).ok_or_else(|| {
        let names = functions().iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(", ");
        Invalid::new("function", &args.function, format!("one of {names}"))
    })?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => args.function.parse()?,
    };
    let token = match &args.token {
        Some(token) => token.clone(),
        None => token::read(&args.data_dir).context("no --token is given, and none is found in --data-dir")?.into(),
    };
    let mut link = Http::trusting(&args.coordinator, token, &args.trust.read()?)?;
    let (environment, mut target) = Alone::new(name.clone(), place, DAY_STEPS, args.seed)?;
    target.weight = args.weight;
    let inferred = args.category == Some(CategoryName::Auto);
    target.category = match args.category {
        None => target.category,
        // Until something was seen.
        Some(CategoryName::Cpu | CategoryName::Auto) => Category::Cpu,
        Some(CategoryName::Memory) => Category::Memory,
        Some(CategoryName::Io) => Category::Io,
    };
    let wanted = Wanted {
        name: args.base_model.as_ref().or(args.class.as_ref()).cloned(),
        category: Some(target.category).filter(|_| args.base_model.is_none()),
        version: args.base_version,
    };
    let (pool, every, steps) = (args.pool.clone(), args.interval, args.steps);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let shutdown = signals::shutdown()?;
        let counted = Arc::new(Metrics::new(telemetry.exports()));
        if let Some(address) = args.metrics_listen {
            metrics::serve(address, Arc::clone(&counted)).await?;
        }
        let there = args.model.as_deref().is_some_and(Path::exists);
        let start = match &args.model {
            _ if args.policy != PolicyName::Ppo => Start::Nothing,
            Some(path) if there || !args.learn => Start::File(read(path)?),
            _ => {
                let names = wanted.names().map(|name| name.to_string()).collect::<Vec<_>>().join(" or ");
                let found = wanted.find(&mut link, &pool, &name, None).await;
                let found = found.with_context(|| {
                    format!("no checkpoint to start from, and the base model {names} cannot be had")
                })?;
                let found = found.context("the coordinator gave no file")?;
                tracing::info!(model = %found.model, version = found.version, "starting from the base model");
                Start::Base(found)
            }
        };
        let recorder = (args.trajectories == Switch::On)
            .then(|| Recorder::start(link.clone(), &name, trajectories::Options::default()));
        let profile = inferred.then(Profile::default);
        if args.learn {
            let path = args.model.as_deref().ok_or_else(missing_model)?;
            let (kept, outbox) = (path.to_owned(), Outbox::default());
            // What was learnt goes where it came from; a file does not say where that was.
            let teaching = match &start {
                Start::Base(found) => Teaching::of(found.model.clone(), outbox.clone()),
                _ => Teaching::new(wanted, outbox.clone()),
            };
            let keep = move |learner: &Learner| {
                match learner.network().save() {
                    Ok(network) => outbox.put(network),
                    Err(error) => tracing::warn!(%error, "what was learnt cannot be handed in"),
                }
                // A workload must not lose its agent to a full disk.
                let written = learner.save().map_err(Into::into).and_then(|bytes| file::replace(&kept, &bytes));
                if let Err(error) = written {
                    tracing::warn!(error = format!("{error:#}"), "what was learnt could not be kept");
                }
            };
            let learning =
                Learning::new(learner(path, start.bytes(), args.seed)?, args.seed)?.kept_every(UPDATES, Box::new(keep));
            let shape = learning.config().reward;
            let mut agent = Agent::new(target, environment, link, pool, learning, shape);
            agent.teach(teaching);
            recorder.into_iter().for_each(|recorder| agent.record(recorder));
            profile.into_iter().for_each(|profile| agent.infer(profile));
            observe(&mut agent, args, counted);
            fallback(args)?.into_iter().for_each(|policy| agent.fall_back_to(policy));
            let ended = daemon::run(&mut agent, every, steps, shutdown).await;
            // What was learnt is kept however the run ended.
            file::replace(path, &agent.policy_mut().learner().save()?)?;
            tracing::info!(model = %path.display(), "wrote the checkpoint");
            Ok(ended?)
        } else {
            let (mut sharing, mut following) = (None, None);
            let (policy, shape): (Box<dyn Policy>, Shape) = match &start {
                Start::Base(found) => {
                    let begun = Following::begin(wanted, found).context("the base model")?;
                    following = Some(begun.2);
                    (Box::new(begun.0), begun.1)
                }
                start => policy(args, start.bytes(), &mut sharing)?,
            };
            let mut agent = Agent::new(target, environment, link, pool, policy, shape);
            observe(&mut agent, args, counted);
            fallback(args)?.into_iter().for_each(|policy| agent.fall_back_to(policy));
            sharing.into_iter().for_each(|sharing| agent.share(sharing));
            following.into_iter().for_each(|following| agent.keep_up(following));
            recorder.into_iter().for_each(|recorder| agent.record(recorder));
            profile.into_iter().for_each(|profile| agent.infer(profile));
            Ok(daemon::run(&mut agent, every, steps, shutdown).await?)
        }
    })
}

/// Has an agent counted and, where that is asked for, traced.
fn observe<E: Environment, L: Link, P: Policy>(agent: &mut Agent<E, L, P>, args: &AgentArgs, metrics: Arc<Metrics>) {
    agent.measure(metrics);
    if args.log.otlp_endpoint.is_some() {
        agent.export();
    }
}

/// What a network starts from.
enum Start {
    /// There is no network.
    Nothing,
    /// A file of one's own.
    File(Vec<u8>),
    /// The coordinator's base model, which is followed unless something is learnt on top of it.
    Base(Found),
}

impl Start {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::File(bytes) | Self::Base(Found { bytes, .. }) => bytes,
        }
    }
}

fn missing_model() -> Invalid {
    Invalid::new("model", "no file", "a file to keep what is learnt in")
}

/// The policy, and the reward that it reports: a network that of its training. One that forecasts leaves word of how its
/// network can be exchanged.
fn policy(args: &AgentArgs, start: &[u8], sharing: &mut Option<Sharing>) -> anyhow::Result<(Box<dyn Policy>, Shape)> {
    let mut shape = Shape::BALANCED;
    let policy: Box<dyn Policy> = match args.policy {
        PolicyName::Forecast => {
            let sharing = sharing.insert(Sharing::new(shipped()?));
            let forecast = Forecast::following(sharing.shared(), Care::default());
            Box::new(Plan::new(plan::Options { price: args.price }, forecast)?)
        }
        PolicyName::Plan => Box::new(Plan::new(plan::Options { price: args.price }, PeakHold::default())?),
        PolicyName::Reactive => Box::new(Reactive::default()),
        PolicyName::HpaVpa => Box::new(Rules::hpa_vpa(Follow::Cpu(args.hpa_target))?),
        PolicyName::HpaConcurrency => Box::new(Rules::hpa_vpa(Follow::Concurrency(args.concurrency))?),
        PolicyName::Vpa => Box::new(Rules::vpa()?),
        PolicyName::Kpa => Box::new(Kpa::new(args.concurrency)?),
        PolicyName::Aimd => Box::new(Aimd::default()),
        PolicyName::Ensure => Box::new(Ensure::new()?),
        PolicyName::Ppo => {
            let named = || args.model.as_ref().map_or_else(String::new, |path| path.display().to_string());
            let network = ActorCritic::load(start).with_context(named)?;
            ppo::check(network.config())?;
            shape = network.config().reward;
            Box::new(Ppo::serving(Arc::new(network)))
        }
    };
    Ok((policy, shape))
}

/// Who decides while the kill switch is on; nobody leaves the workload as it is.
fn fallback(args: &AgentArgs) -> anyhow::Result<Option<Box<dyn Policy>>> {
    Ok(match args.fallback {
        FallbackName::Reactive => Some(Box::new(Reactive::default())),
        FallbackName::HpaVpa => Some(Box::new(Rules::hpa_vpa(Follow::Cpu(args.hpa_target))?)),
        FallbackName::Hold => None,
    })
}

/// A learner to go on with: with its optimiser if the file has that, else from its networks, and then it says so.
fn learner(path: &Path, bytes: &[u8], seed: u64) -> anyhow::Result<Learner> {
    let learner = Learner::load(bytes).or_else(|error| {
        if error != meanfield_learner::Error::NoTrainingState {
            return Err(error);
        }
        tracing::info!(model = %path.display(), "no training state in there: learning starts from its networks");
        ActorCritic::load(bytes).map(|network| Learner::from_network(network, seed))
    });
    learner.with_context(|| path.display().to_string())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}
