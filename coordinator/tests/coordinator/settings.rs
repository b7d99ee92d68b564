//! Scarcity in production: off, advise and enforce; weights and minimums; who is silent; the ledger of cuts; and a capacity
//! that agents report.

use std::time::Duration;

use meanfield_common::{
    budget::Budget,
    scarcity::{
        Ageing, Amount, Capacity, Claim, Cores, Entitlement, Gibibytes, Grant, Mode, Node, NodeId, Reason, Settings,
        Source, Weight,
    },
    wire::{Answer, Heartbeat, Registered},
};
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    orders::{Order, Terms},
    view::{CutFilter, CutPage, CutView},
};
use proptest::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{scarcity::claiming, support::*};

fn options(cores: f64) -> Options {
    let capacities = vec![(pool("default"), Capacity::new(cores, 64.0).unwrap())];
    Options { capacities, ..Options::default() }
}

fn order(coordinator: &Coordinator, order: Order) {
    block_on(coordinator.order(order, Terms::default())).unwrap();
}

fn settings(mode: Mode, ageing: f64, capacity: Source) -> Order {
    let ageing = Ageing::try_from(ageing).unwrap();
    Order::Scarcity(pool("default"), Some(Settings { mode, ageing, capacity }))
}

fn given(weight: Option<f64>, cores: Option<f64>) -> Entitlement {
    let minimum = cores.map(|cores| Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(0.0) });
    Entitlement { weight: weight.map(Weight::clamped), minimum }
}

fn cap(grant: Option<Grant>) -> Option<f64> {
    grant.and_then(|grant| grant.cores).map(Cores::get)
}

fn cuts(coordinator: &Coordinator) -> Vec<CutView> {
    coordinator.cuts(&pool("default"), &CutFilter::default(), 0, usize::MAX).unwrap().cuts
}

/// Two rounds of everybody, a second apart: the second is answered from the first.
fn say(coordinator: &Coordinator, clock: &Clock, all: &[(&Registered, u64, f64)]) -> Vec<Answer> {
    let mut told = Vec::new();
    for turn in 0..2 {
        clock.advance(Duration::from_secs(1));
        told.clear();
        for (agent, sequence, cores) in all {
            let message = claiming(agent, 2 * sequence + turn, *cores, 1.0);
            told.push(coordinator.heartbeat(agent.agent, &message).unwrap());
        }
    }
    told
}

#[test]
fn off_says_nothing_advise_only_advises_and_enforce_enforces() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(options(10.0), clock.clone()).unwrap();
    let [a, b] = ["a", "b"].map(|name| block_on(member(&coordinator, name)));
    let told = say(&coordinator, &clock, &[(&a, 1, 8.0), (&b, 1, 4.0)])[0].scarcity.unwrap();
    assert_eq!((cap(told.grant), told.advice, told.valid_ms), (Some(6.0), None, Some(120_000)));
    assert!(!told.nodes);

    order(&coordinator, settings(Mode::Advise, 0.0, Source::Declared));
    let told = say(&coordinator, &clock, &[(&a, 2, 8.0), (&b, 2, 4.0)])[0].scarcity.unwrap();
    assert_eq!((told.grant, cap(told.advice), told.valid_ms), (None, Some(6.0), None));
    assert!(told.price > 0.0);
    let view = coordinator.agent(a.agent).unwrap();
    assert_eq!((view.grant, cap(view.advice)), (None, Some(6.0)));
    assert_eq!(coordinator.pools()[0].scarcity.as_ref().unwrap().mode, Mode::Advise);

    order(&coordinator, settings(Mode::Off, 0.0, Source::Declared));
    assert_eq!(say(&coordinator, &clock, &[(&a, 3, 8.0), (&b, 3, 4.0)])[0].scarcity, None);
    assert_eq!(coordinator.pools()[0].scarcity, None);
    assert!(coordinator.audit());
    let kept: Vec<_> = cuts(&coordinator).iter().map(|cut| (cut.enforced, cut.until_ms.is_some())).collect();
    assert_eq!(kept, [(true, true), (false, true)], "what was is still to be seen");

    order(&coordinator, Order::Scarcity(pool("default"), None));
    // What was claimed while it was off counts at once.
    clock.advance(Duration::from_secs(1));
    let told = coordinator.heartbeat(a.agent, &claiming(&a, 20, 8.0, 1.0)).unwrap();
    assert_eq!(cap(told.scarcity.unwrap().grant), Some(6.0));
    assert!(coordinator.audit());
}

#[test]
fn settings_and_entitlements_outlast_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = |clock: &Clock| {
        let options = Options { data_dir: Some(directory.path().to_owned()), ..options(10.0) };
        Coordinator::open(options, clock.clone()).unwrap()
    };
    let clock = Clock::manual();
    let coordinator = open(&clock);
    let [a, b] = ["a", "b"].map(|name| block_on(member(&coordinator, name)));
    order(&coordinator, settings(Mode::Advise, 0.5, Source::Declared));
    order(&coordinator, Order::Entitlement(a.agent, Some(given(Some(10.0), Some(2.0)))));
    drop(coordinator);
    let coordinator = open(&clock);
    let view = coordinator.scarcity_settings(&pool("default")).unwrap();
    assert_eq!(
        (view.effective.mode, view.effective.ageing.get(), view.ordered),
        (Mode::Advise, 0.5, Some(view.effective))
    );
    assert_eq!(coordinator.agent(a.agent).unwrap().entitlement, Some(given(Some(10.0), Some(2.0))));
    let told = say(&coordinator, &clock, &[(&a, 1, 8.0), (&b, 1, 4.0)]);
    let advice: Vec<_> = told.iter().map(|answer| cap(answer.scarcity.unwrap().advice)).collect();
    assert_eq!(advice, [None, Some(2.0)], "its weight has the other one yield");
    block_on(coordinator.remove(a.agent)).unwrap();
    block_on(member(&coordinator, "a"));
    assert_eq!(coordinator.agent(a.agent).unwrap().entitlement, None, "removed with the agent");
}

#[test]
fn minimums_that_do_not_fit_are_refused_and_shrink_with_the_capacity() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(options(10.0), clock.clone()).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| block_on(member(&coordinator, name)));
    order(&coordinator, Order::Entitlement(a.agent, Some(given(None, Some(6.0)))));
    let refused =
        block_on(coordinator.order(Order::Entitlement(b.agent, Some(given(None, Some(4.5)))), Terms::default()));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("minimum.cores: 4.5 is not at most 4, what the capacity leaves"), "{refused}");
    order(&coordinator, Order::Entitlement(b.agent, Some(given(None, Some(4.0)))));
    // Its own may be replaced by a smaller one, and one of nobody else.
    order(&coordinator, Order::Entitlement(b.agent, Some(given(None, Some(3.0)))));
    let told = |claims: [f64; 3], turn: u64| {
        let all = [(&a, turn, claims[0]), (&b, turn, claims[1]), (&c, turn, claims[2])];
        let answers = say(&coordinator, &clock, &all);
        answers.iter().map(|answer| cap(answer.scarcity.unwrap().grant)).collect::<Vec<_>>()
    };
    let caps = told([8.0, 8.0, 1.0], 1);
    assert!(caps[0].unwrap() >= 6.0 && caps[1].unwrap() >= 3.0, "{caps:?}");
    // An idle minimum is lent.
    assert_eq!(told([0.5, 8.0, 1.0], 2), [None, None, None]);
    // Half of the cluster is gone: 6 and 3 of 4.5 are 3 and 1.5.
    block_on(coordinator.set_capacity(&pool("default"), Some(Capacity::new(4.5, 64.0).unwrap()))).unwrap();
    let caps: Vec<_> = told([8.0, 8.0, 1.0], 3).iter().map(|cap| (cap.unwrap() * 1e6).round() / 1e6).collect();
    assert_eq!(caps, [3.0, 1.5, 0.0]);
    // Whoever is away does not count.
    block_on(coordinator.leave(a.agent, meanfield_common::wire::Leave { epoch: a.epoch })).unwrap();
    order(&coordinator, Order::Entitlement(c.agent, Some(given(None, Some(1.5)))));
}

#[test]
fn who_is_silent_wants_no_more_than_it_holds_and_then_nothing() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(options(10.0), clock.clone()).unwrap();
    let [a, b] = ["a", "b"].map(|name| block_on(member(&coordinator, name)));
    let wants_more = |sequence: u64| {
        let mut message = claiming(&a, sequence, 8.0, 10.0);
        message.claim.as_mut().unwrap().held = claiming(&a, 0, 3.0, 1.0).claim.unwrap().held;
        message
    };
    let mut sequence = 0;
    let mut hear = |speaks: bool| {
        sequence += 1;
        if speaks {
            coordinator.heartbeat(a.agent, &wants_more(sequence)).unwrap();
        }
        clock.advance(Duration::from_secs(1));
        let told = coordinator.heartbeat(b.agent, &claiming(&b, sequence, 8.0, 1.0)).unwrap();
        cap(told.scarcity.unwrap().grant).map(f64::round)
    };
    hear(true);
    assert_eq!(hear(true), Some(2.0), "the heavier one is served");
    clock.advance(Duration::from_secs(45));
    assert_eq!(block_on(coordinator.sweep()).unwrap().suspect, 2, "both, until one of them speaks");
    assert_eq!(hear(false), Some(7.0), "it holds three");
    assert!(coordinator.audit());
    assert_eq!(hear(true), Some(2.0), "it is back");
    clock.advance(Duration::from_secs(100));
    hear(false);
    clock.advance(Duration::from_secs(30));
    assert_eq!(block_on(coordinator.sweep()).unwrap().gone, 1);
    assert_eq!(hear(false), None, "it is gone");
    assert!(coordinator.audit());
}

#[test]
fn cuts_are_listed_by_page_and_filter() {
    block_on(async {
        let served = Served::start(options(10.0)).await;
        let agents = [
            member(&served.coordinator, "a").await,
            member(&served.coordinator, "b").await,
            member(&served.coordinator, "c").await,
        ];
        let mut round = 0;
        let mut play = |claims: [f64; 3]| {
            round += 1;
            for (agent, cores) in agents.iter().zip(claims) {
                served
                    .coordinator
                    .heartbeat(agent.agent, &in_round(round, claiming(agent, round, cores, 1.0)))
                    .unwrap();
            }
        };
        for claims in [[6.0, 4.0, 2.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0], [6.0, 4.0, 2.0], [6.0, 4.0, 2.0]] {
            play(claims);
        }
        let page = async |query: &str| served.get(&format!("/v1/pools/default/cuts{query}")).await.json::<CutPage>();
        let all = page("").await;
        let who: Vec<_> = all.cuts.iter().map(|cut| (cut.agent.as_str(), cut.reason, cut.until_ms.is_some())).collect();
        assert_eq!(who, [("a", Reason::Need, true), ("c", Reason::Need, true), ("a", Reason::Need, false)]);
        assert_eq!((all.next, all.cuts[0].instead.len()), (None, 2), "{all:?}");
        let first = page("?limit=1").await;
        assert_eq!((first.cuts.len(), first.next), (1, Some(1)));
        let rest = page("?limit=5&after=1").await;
        assert_eq!((rest.cuts.as_slice(), rest.next), (&all.cuts[1..], None));
        assert_eq!(page("?agent=a&state=open").await.cuts, &all.cuts[2..]);
        assert_eq!(page("?state=ended").await.cuts, &all.cuts[..2]);
        assert_eq!(page("?agent=b").await.cuts, []);
        for (query, field) in [
            ("limit=0", "limit"),
            ("after=-1", "after"),
            ("state=shut", "state"),
            ("agent=B", "agent"),
            ("pool=default", "pool"),
        ] {
            let problem = served.get(&format!("/v1/pools/default/cuts?{query}")).await.problem();
            assert_eq!(
                problem.field.as_deref().map(|named| named == field || named == "name"),
                Some(true),
                "{problem:?}"
            );
        }
        assert_eq!(served.get("/v1/pools/elsewhere/cuts").await.status, 404);
        let open = "meanfield_coordinator_pool_cuts{pool=\"default\",reason=\"need\"}";
        assert_eq!(served.metric(open).await, 1.0);
        let cores = "meanfield_coordinator_pool_capacity{pool=\"default\",part=\"cores\"}";
        assert_eq!(served.metric(cores).await, 10.0);
        let mode = "meanfield_coordinator_pool_scarcity_mode{pool=\"default\",mode=\"enforce\"}";
        assert_eq!(served.metric(mode).await, 1.0);
        served.coordinator.order(settings(Mode::Off, 0.0, Source::Declared), Terms::default()).await.unwrap();
        assert_eq!([served.metric(mode).await, served.metric(&mode.replace("enforce", "off")).await], [0.0, 1.0]);
        served.ended().await.unwrap();
    });
}

#[test]
fn the_worth_of_one_who_needs_nothing_is_a_number_on_the_wire() {
    block_on(async {
        let served = Served::start(options(8.0)).await;
        let [idle, busy] = [member(&served.coordinator, "a").await, member(&served.coordinator, "b").await];
        for round in 1..3 {
            let mut nothing = claiming(&idle, round, 0.0, 10.0);
            nothing.claim.as_mut().unwrap().held = claiming(&idle, 0, 4.0, 1.0).claim.unwrap().held;
            for (agent, message) in [(&idle, nothing), (&busy, claiming(&busy, round, 6.0, 1.0))] {
                served.coordinator.heartbeat(agent.agent, &in_round(round, message)).unwrap();
            }
        }
        let cuts: Value = served.get("/v1/pools/default/cuts?agent=a").await.json();
        assert!(cuts["cuts"][0]["worth"].is_f64(), "{cuts}");
        served.ended().await.unwrap();
    });
}

#[test]
fn bad_settings_and_entitlements_are_refused_by_name() {
    block_on(async {
        let served = Served::start(Options::default()).await;
        let agent = member(&served.coordinator, "a").await;
        let mine = format!("/v1/agents/{}/entitlement", agent.agent);
        for (path, body, field) in [
            ("/v1/pools/default/scarcity", json!({"mode": "on"}), "mode"),
            ("/v1/pools/default/scarcity", json!({"ageing": -1}), "ageing"),
            ("/v1/pools/default/scarcity", json!({"capacity": "guessed"}), "capacity"),
            ("/v1/pools/default/scarcity", json!({"speed": 1}), "speed"),
            (mine.as_str(), json!({"weight": 0}), "weight"),
            (mine.as_str(), json!({"minimum": {"cores": 1e300, "memory_gib": 0}}), "minimum.cores"),
            (mine.as_str(), json!({}), "entitlement"),
        ] {
            let problem = send(served.request(Method::PUT, path).json(&body)).await.problem();
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)), "{problem:?}");
        }
        let nobody = "/v1/agents/00000000-0000-0000-0000-000000000000/entitlement";
        assert_eq!(send(served.request(Method::PUT, nobody).json(&json!({"weight": 1}))).await.status, 404);
        let shown: Value = served.get("/v1/pools/default/scarcity").await.json();
        assert_eq!(shown["effective"], json!({"mode": "enforce", "ageing": 0.0, "capacity": "declared"}));
        assert_eq!(shown["ordered"], Value::Null);
        served.ended().await.unwrap();
    });
}

fn with_node(beat: Heartbeat, node: &str, cores: f64) -> Heartbeat {
    let allocatable = Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(64.0) };
    let node = Some(Node { id: NodeId::of(node), allocatable });
    Heartbeat { claim: beat.claim.map(|claim| Claim { node, ..claim }), ..beat }
}

#[test]
fn a_reported_capacity_is_that_of_the_nodes_that_living_agents_name() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(Options::default(), clock.clone()).unwrap();
    let [a, b] = ["a", "b"].map(|name| block_on(member(&coordinator, name)));
    let cores = || coordinator.capacity(&pool("default")).unwrap().effective.map(|capacity| capacity.cores.get());
    let mut sequence = 0;
    let mut beat = |agent: &Registered, node: &str, has: f64| {
        clock.advance(Duration::from_secs(1));
        sequence += 1;
        let message = with_node(claiming(agent, sequence, 8.0, 1.0), node, has);
        coordinator.heartbeat(agent.agent, &message).unwrap().scarcity
    };
    assert_eq!((beat(&a, "one", 4.0), cores()), (None, None), "declared: what nobody asked for is passed over");
    order(&coordinator, settings(Mode::Enforce, 0.0, Source::Reported));
    assert_eq!((cores(), coordinator.pools()[0].scarcity.clone()), (None, None));
    for _ in 0..3 {
        for (agent, node, has) in [(&a, "one", 8.0), (&b, "one", 6.0), (&a, "two", 4.0)] {
            let told = beat(agent, node, has).unwrap();
            let known = (told.nodes, told.grant, told.headroom.free);
            assert_eq!((known, cores()), ((true, None, 1.0), None), "it is not known, so nothing is scarce");
        }
        clock.advance(Duration::from_secs(97));
    }
    beat(&a, "two", 4.0);
    assert_eq!(cores(), Some(10.0), "two nodes, and of one the lower word counts");
    // 16 are wanted and 10 are there; both are worth the same, so the names decide.
    assert_eq!(cap(beat(&b, "one", 6.0).unwrap().grant).map(f64::round), Some(2.0));
    assert_eq!(cap(beat(&a, "two", 4.0).unwrap().grant), None);
    let view = coordinator.scarcity_settings(&pool("default")).unwrap();
    assert_eq!((view.nodes, view.effective.capacity), (Some(2), Source::Reported));
    // A change budget goes with it.
    order(&coordinator, Order::Budget(pool("default"), Some(Budget::new(10.0).unwrap())));
    let limit = || coordinator.budget(&pool("default")).unwrap().limit.map(|limit| limit.millicores);
    assert_eq!(limit(), Some(1000));
    // Nobody names the second one any more.
    for _ in 0..6 {
        clock.advance(Duration::from_secs(60));
        beat(&b, "one", 6.0);
    }
    assert_eq!(cores(), Some(6.0));
    block_on(coordinator.sweep()).unwrap();
    assert_eq!(limit(), Some(600));
    order(&coordinator, Order::Scarcity(pool("default"), None));
    assert_eq!(cores(), None);
}

#[test]
fn one_agent_on_many_nodes_is_not_cut_to_the_first_that_it_names() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(Options::default(), clock.clone()).unwrap();
    order(&coordinator, settings(Mode::Enforce, 0.0, Source::Reported));
    let agent = block_on(member(&coordinator, "a"));
    for sequence in 0..60 {
        let message = with_node(claiming(&agent, sequence, 50.0, 1.0), &format!("node-{}", sequence % 10), 8.0);
        let told = coordinator.heartbeat(agent.agent, &message).unwrap().scarcity.unwrap();
        assert_eq!(told.grant, None, "after {} s", 15 * sequence);
        clock.advance(Duration::from_secs(15));
    }
    let effective = coordinator.capacity(&pool("default")).unwrap().effective.unwrap();
    assert_eq!(effective, Capacity::new(80.0, 640.0).unwrap());
}

#[test]
fn nodes_that_agents_make_up_are_no_more_than_what_is_declared() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(options(100.0), clock.clone()).unwrap();
    order(&coordinator, settings(Mode::Enforce, 0.0, Source::Reported));
    let [a, b] = ["a", "b"].map(|name| block_on(member(&coordinator, name)));
    let effective = || coordinator.capacity(&pool("default")).unwrap().effective;
    let beat = |agent: &Registered, sequence: u64, node: &str, has: f64| {
        let message = with_node(claiming(agent, sequence, 8.0, 1.0), node, has);
        coordinator.heartbeat(agent.agent, &message).unwrap();
        clock.advance(Duration::from_secs(50));
    };
    for sequence in 0..8 {
        assert_eq!(effective(), Capacity::new(100.0, 64.0).ok(), "also until it is known");
        beat(&a, sequence, "of-gold", 1e6);
    }
    for sequence in 8..16 {
        beat(&b, sequence, "one", 8.0);
    }
    assert_eq!(effective(), Capacity::new(8.0, 64.0).ok(), "the smaller one of both");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is claimed and given: who is advised hears what it would have been told, and the ledger is the same.
    #[test]
    fn advise_and_enforce_compute_the_same(
        rounds in prop::collection::vec(prop::collection::vec((0.1..12.0_f64, 0.1..10.0_f64), 6), 2..12),
        ageing in prop::sample::select(vec![0.0, 0.5, 4.0]),
        least in 0.0..4.0_f64,
    ) {
        let play = |mode: Mode| {
            let coordinator = Coordinator::open(options(12.0), Clock::manual()).unwrap();
            let names = ["a", "b", "c", "d", "e", "f"];
            let agents: Vec<_> = names.iter().map(|name| block_on(member(&coordinator, name))).collect();
            order(&coordinator, settings(mode, ageing, Source::Declared));
            order(&coordinator, Order::Entitlement(agents[0].agent, Some(given(None, Some(least)))));
            let mut told = Vec::new();
            for (round, claims) in rounds.iter().enumerate() {
                for (agent, (cores, weight)) in agents.iter().zip(claims) {
                    let message = in_round(round as u64, claiming(agent, round as u64, *cores, *weight));
                    let scarcity = coordinator.heartbeat(agent.agent, &message).unwrap().scarcity.unwrap();
                    assert!(scarcity.grant.is_none() || scarcity.advice.is_none());
                    told.push((scarcity.grant.or(scarcity.advice), scarcity.price.to_bits(), scarcity.headroom));
                }
            }
            assert!(coordinator.audit());
            let cuts = cuts(&coordinator).into_iter().map(|cut| CutView { enforced: true, ..cut });
            (told, cuts.collect::<Vec<_>>())
        };
        prop_assert_eq!(play(Mode::Advise), play(Mode::Enforce));
    }
}
