//! `meanfield agent`: one agent in real time.

use std::{fs, num::NonZero, path::Path, sync::Arc};

use anyhow::Context;
use clap::ValueEnum;
use meanfield_agent::{
    agent::Agent,
    daemon,
    environment::Alone,
    http::Http,
    link::Link,
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
    sharing::Sharing,
    teaching::{Outbox, Teaching},
};
use meanfield_common::{identity::ModelName, invalid::Invalid, reward::Shape};
use meanfield_coordinator::token;
use meanfield_learner::{ActorCritic, Learner};
use meanfield_simulator::{scenario::DAY_STEPS, workload::functions};

use crate::{
    args::{AgentArgs, FallbackName, PolicyName},
    file, signals,
};

/// Updates between two checkpoints of an agent that learns: some hours of steps.
const UPDATES: NonZero<u64> = NonZero::new(10).unwrap();

pub fn run(args: &AgentArgs) -> anyhow::Result<()> {
    signals::start_log(&args.log)?;
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
    let base: ModelName = match &args.base_model {
        Some(base) => base.clone(),
        None => target.category.name().parse()?,
    };
    let (pool, every, steps) = (args.pool.clone(), args.interval, args.steps);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let shutdown = signals::shutdown()?;
        let there = args.model.as_deref().is_some_and(Path::exists);
        let start = match &args.model {
            _ if args.policy != PolicyName::Ppo => None,
            Some(path) if there || !args.learn => Some(read(path)?),
            _ => {
                let file = link.base_model(&base, &pool, &name).await;
                let file = file
                    .with_context(|| format!("no checkpoint to start from, and the base model {base} cannot be had"))?;
                tracing::info!(model = %base, "starting from the base model");
                Some(file)
            }
        };
        if args.learn {
            let path = args.model.as_deref().ok_or_else(missing_model)?;
            let (kept, outbox) = (path.to_owned(), Outbox::default());
            let teaching = Teaching::new(base, outbox.clone());
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
            let learning = Learning::new(learner(path, &start.unwrap_or_default(), args.seed)?, args.seed)?
                .kept_every(UPDATES, Box::new(keep));
            let shape = learning.config().reward;
            let mut agent = Agent::new(target, environment, link, pool, learning, shape);
            agent.teach(teaching);
            fallback(args)?.into_iter().for_each(|policy| agent.fall_back_to(policy));
            let ended = daemon::run(&mut agent, every, steps, shutdown).await;
            // What was learnt is kept however the run ended.
            file::replace(path, &agent.policy_mut().learner().save()?)?;
            tracing::info!(model = %path.display(), "wrote the checkpoint");
            Ok(ended?)
        } else {
            let mut sharing = None;
            let (policy, shape) = policy(args, start.as_deref(), &mut sharing)?;
            let mut agent = Agent::new(target, environment, link, pool, policy, shape);
            fallback(args)?.into_iter().for_each(|policy| agent.fall_back_to(policy));
            if let Some(sharing) = sharing {
                agent.share(sharing);
            }
            Ok(daemon::run(&mut agent, every, steps, shutdown).await?)
        }
    })
}

fn missing_model() -> Invalid {
    Invalid::new("model", "no file", "a file to keep what is learnt in")
}

/// The policy, and the reward that it reports: a network that of its training. One that forecasts leaves word of how its
/// network can be exchanged.
fn policy(
    args: &AgentArgs,
    start: Option<&[u8]>,
    sharing: &mut Option<Sharing>,
) -> anyhow::Result<(Box<dyn Policy>, Shape)> {
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
            let named =
                || args.model.as_ref().map_or_else(|| "the base model".to_owned(), |path| path.display().to_string());
            let network = ActorCritic::load(start.unwrap_or_default()).with_context(named)?;
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
