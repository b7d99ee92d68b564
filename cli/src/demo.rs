//! `meanfield demo`: Meanfield's agents share a simulated cluster through a coordinator, and are compared.
//!
//! One coordinator serves HTTP on a loopback port from start to end. First a network learns by PPO, which reaches the
//! coordinator in process, since millions of steps would only measure the loopback device. Then Meanfield's agents (the
//! queue model with the forecast network) go live as HTTP clients, on arrivals that nobody trained on, while a tenant
//! joins and another leaves. The trained network alone, HPA+VPA tuned for each function, the queue model without its
//! forecast and a clairvoyant plan go through the same days. At the end one minute of scarcity shows who yields.

mod plots;
mod report;
mod scarcity;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use meanfield_agent::{
    fleet::tenant_name,
    http::Http,
    link::Nobody,
    policy::{
        Policy,
        forecast::{Care, Forecast, shipped},
        hpa::Follow,
        plan::{self, Plan},
        ppo::Ppo,
    },
    training::{Progress, Trainer},
};
use meanfield_common::identity::PoolName;
use meanfield_coordinator::{Clock, Coordinator, Options, serve};
use meanfield_learner::{ActorCritic, Config, Sharing};
use meanfield_simulator::{cluster::TenantSpec, scenario::Scenario};
use tokio::net::TcpListener;

use crate::{
    args::{DemoArgs, Preset},
    contest::{Contest, Entrance},
    eval::{
        cell::Setting,
        contestant::{self, Contestant, Kind},
        tuning::{self, Aim},
        workers::Store,
    },
    file,
    in_process::InProcess,
    progress::Bar,
    score::Scores,
};
use report::Report;

pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let config = match args.preset {
        Preset::Default => Config::preset_default(),
        Preset::Paper => Config::paper(),
    };
    let agents = usize::try_from(args.agents)?;
    let episodes = args.episodes.unwrap_or(if args.quick { 150 } else { 400 });
    let days = if args.quick { 1 } else { 4 };
    // What can be wrong is found before the work, not after it.
    if let Some(target) = args.hpa_target {
        Follow::Cpu(target).validated()?;
    }
    std::fs::create_dir_all(&args.report).with_context(|| format!("cannot write to {}", args.report.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let daemon = runtime.block_on(Daemon::start(config.environments))?;
    say!("Coordinator: {}  (try {}/metrics while this runs)", daemon.url, daemon.url);
    say!("Everything below is simulated: {agents} tenants on a shared cluster, seed {}.", args.seed);

    let hpa = tuned_hpa(args.hpa_target, agents)?;
    let (curve, networks) = train(&config, agents, episodes, args.seed, &daemon)?;

    let contest = Contest::new(agents, days, args.seed, config.reward)?;
    // Plans look back on hours, as in a cluster that has run for long: all but a newcomer have seen some.
    let fresh = || -> anyhow::Result<_> {
        Ok(Plan::new(plan::Options::default(), Forecast::new(shipped()?, Care::default()))?)
    };
    let seasoned = contest.seasoned(fresh)?;
    let live = |place: usize, _: &TenantSpec| -> anyhow::Result<_> {
        let policy = seasoned.get(place).map_or_else(fresh, |policy| Ok(policy.clone()))?;
        Ok((Http::new(&daemon.url, daemon.token.clone())?, policy))
    };
    let bar = Bar::new("live", contest.rounds() as u64);
    let meanfield = runtime.block_on(contest.run("meanfield", &daemon.live, &Entrance::Live(&bar), live))?;
    bar.finish();
    let learnt = |place: usize, _: &TenantSpec| -> anyhow::Result<_> {
        Ok((InProcess(daemon.coordinator.clone()), Ppo::serving(networks[place % networks.len()].clone())))
    };
    let ppo = runtime.block_on(contest.run("ppo", &daemon.learnt, &Entrance::Fresh, learnt))?;
    let baseline = |kind: Kind, name: &'static str, entrance: Entrance<'_>, hpa: &Contestant| {
        let equip = |place: usize, tenant: &TenantSpec| -> anyhow::Result<(Nobody, Box<dyn Policy>)> {
            Ok((Nobody, kind.policy(hpa.setting(place), tenant, &contest.cluster())?))
        };
        runtime.block_on(contest.run(name, &daemon.live, &entrance, equip))
    };
    let hpa = baseline(Kind::HpaCpu, "hpa-vpa", Entrance::Seasoned, &hpa)?;
    let none = Contestant::default_of(Kind::Plan);
    let queue = baseline(Kind::Plan, "plan", Entrance::Seasoned, &none)?;
    let clairvoyant = baseline(Kind::Clairvoyant, "clairvoyant", Entrance::Fresh, &none)?;

    let scores: Vec<Scores> = vec![meanfield, ppo, hpa, queue, clairvoyant];
    let minute = scarcity::run(args.seed)?;
    let report = Report { args, episodes, contest: &contest, curve: &curve, scores: &scores, minute: &minute };
    say!("\n{}\n\n{}", report.table(), minute.terminal());
    report.write(&args.report).with_context(|| format!("cannot write the report to {}", args.report.display()))?;
    // A network for each agent: a file for each, beside the first one under its usual name.
    let named = |place: usize| args.report.join(format!("model-{}.safetensors", tenant_name(place)));
    let each =
        networks.iter().enumerate().filter(|_| networks.len() > 1).map(|(place, network)| (named(place), network));
    for (path, network) in each.chain(networks.first().map(|first| (args.report.join("model.safetensors"), first))) {
        file::replace(&path, &network.save()?)?;
    }
    say!("Report: {}", args.report.join("index.html").display());
    say!("Took {:.1} s.", started.elapsed().as_secs_f64());
    runtime.block_on(daemon.stop())
}

fn pool(name: &str) -> anyhow::Result<PoolName> {
    Ok(name.parse()?)
}

/// Days on which HPA's settings are tried: one alone may pass without a kill, and memory looks cheap then.
const TUNING_DAYS: u64 = 2;

/// HPA+VPA with one target for all, or with the best one for each function, found on days of their own.
fn tuned_hpa(target: Option<f64>, agents: usize) -> anyhow::Result<Contestant> {
    if let Some(target) = target {
        let settings = vec![contestant::Setting { target, roomy: false }];
        return Ok(Contestant { settings, ..Contestant::default_of(Kind::HpaCpu) });
    }
    let scratch = tempfile::tempdir()?;
    let setting = Setting::usual(agents);
    let tuned = tuning::tuned(&[Kind::HpaCpu], &setting, Aim::Reward, TUNING_DAYS, None, &Store::new(scratch.path())?)?;
    tuned.into_iter().next().context("HPA has something to tune")
}

/// Trains, and gives the curve and the networks: one for all agents, or one each.
fn train(
    config: &Config,
    agents: usize,
    episodes: u64,
    seed: u64,
    daemon: &Daemon,
) -> anyhow::Result<(Vec<Progress>, Vec<Arc<ActorCritic>>)> {
    let mut trainer = Trainer::new(config.clone(), &Scenario::new(agents, 1)?, seed, &daemon.training, |_| {
        InProcess(daemon.coordinator.clone())
    })?;
    let bar = Bar::new("training", episodes);
    let mut curve = Vec::new();
    for episode in 0..episodes {
        let progress = trainer.iterate(episode as f32 / episodes as f32)?;
        bar.step(progress.reward, progress.violations, progress.cores);
        curve.push(progress);
    }
    bar.finish();
    trainer.leave()?;
    let count = if config.sharing == Sharing::Pool { 1 } else { agents };
    Ok((curve, (0..count).map(|place| Arc::new(trainer.network(place).clone())).collect()))
}

/// The demo's coordinator: a real one, with a store, on a port of its own.
struct Daemon {
    coordinator: Coordinator,
    url: String,
    token: String,
    live: PoolName,
    /// The pool of those who decide by the network alone.
    learnt: PoolName,
    training: Vec<PoolName>,
    stop: tokio::sync::oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<Result<(), meanfield_coordinator::Error>>,
    /// Removed with the daemon.
    _data: tempfile::TempDir,
}

impl Daemon {
    async fn start(clusters: usize) -> anyhow::Result<Self> {
        let data = tempfile::tempdir().context("no place for the coordinator's data")?;
        let (live, learnt) = (pool("live")?, pool("learnt")?);
        let training =
            (1..=clusters).map(|cluster| pool(&format!("training-{cluster}"))).collect::<Result<Vec<_>, _>>()?;
        let mut pools = vec![live.clone(), learnt.clone()];
        pools.extend(training.iter().cloned());
        // Simulated time may stand still for longer than any real agent is silent: nobody is gone before the end.
        let (suspect_after, gone_after) = (Duration::from_hours(1), Duration::from_hours(24));
        let data_dir = Some(data.path().to_owned());
        let options = Options { data_dir, pools, suspect_after, gone_after, ..Options::default() };
        let coordinator = Coordinator::open(options, Clock::system())?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no loopback port")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let shutdown = async {
            // An error means that the demo is gone, which is as good a reason to stop.
            let _ = stopped.await;
        };
        let serving = tokio::spawn(serve(coordinator.clone(), listener, shutdown));
        let token = coordinator.token().to_owned();
        Ok(Self { coordinator, url, token, live, learnt, training, stop, serving, _data: data })
    }

    async fn stop(self) -> anyhow::Result<()> {
        // An error means that it has stopped already, and joining says why.
        let _ = self.stop.send(());
        Ok(self.serving.await??)
    }
}
