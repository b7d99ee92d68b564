//! Recorded steps: handed in once each and in order, whatever happens to the coordinator, and never in the way of a step.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use meanfield_agent::{
    agent::Agent,
    link,
    policy::Decision,
    trajectories::{EPISODE, Options, Outcome, Recorder},
};
use meanfield_common::{
    action::Action,
    identity::Epoch,
    resources::Scale,
    reward::{Reward, Shape},
    trajectory::Recorded,
};

use crate::support::*;

fn fast() -> Options {
    let (first_pause, longest_pause) = (Duration::from_micros(10), Duration::from_millis(1));
    let linger = Duration::from_millis(1);
    Options { queue: 4096, batch: 4, linger, first_pause, longest_pause, grace: Duration::from_mins(5) }
}

type Tested = Agent<Scripted, Coordinator, Wishes>;

/// An agent whose SLO preservation tells its steps apart, and that scales out once.
fn agent(coordinator: &Coordinator, options: Options) -> Tested {
    let environment = Scripted::new(&Log::default(), |step| preserving(1.0 / (1.0 + (step % 900) as f64)));
    let mut decisions = 0;
    let policy = Wishes::new(&Log::default(), move |view| {
        decisions += 1;
        let Scale { replicas, limit } = view.seen.scale;
        Decision::wish(Scale { replicas: if decisions == 3 { 100 } else { replicas }, limit })
    });
    let target = target();
    let recorder = Recorder::start(coordinator.clone(), &target.name, options);
    let mut agent = Agent::new(target, environment, coordinator.clone(), pool(), policy, Shape::BALANCED);
    agent.record(recorder);
    agent
}

async fn steps(agent: &mut Tested, count: usize) {
    for _ in 0..count {
        agent.step(None).await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Far longer than anything takes, also on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_mins(10);

/// Asks again until it is so; fails when it is still not after [`PATIENCE`].
async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::task::yield_now().await;
    }
}

/// The steps in order of logical time, each of which must follow from the one before.
fn told(coordinator: &Coordinator) -> Vec<Recorded> {
    let mut steps: Vec<_> = coordinator.stored().into_values().collect();
    steps.sort_by_key(Recorded::place);
    steps
}

fn contiguous(steps: &[Recorded]) {
    for (number, step) in steps.iter().enumerate() {
        let place = (1 + number as u64 / u64::from(EPISODE), number as u32 % EPISODE);
        assert_eq!(step.place(), place);
        assert!(number == 0 || steps[number - 1].next_state == step.state, "{place:?} follows from the one before");
    }
}

#[tokio::test]
async fn steps_are_what_the_coordinator_heard_and_follow_from_each_other() {
    let coordinator = Coordinator::default();
    // So long that batches are full, however slow the machine is; the last one goes when the agent stops.
    let mut agent = agent(&coordinator, Options { linger: Duration::from_hours(1), ..fast() });
    steps(&mut agent, 600).await;
    agent.finish().await;
    let (steps, heard) = (told(&coordinator), coordinator.heard());
    assert_eq!((steps.len(), heard.len()), (599, 600), "what the last decision comes to is not known");
    contiguous(&steps);
    for (step, pair) in steps.iter().zip(heard.windows(2)) {
        assert_eq!((step.state, step.next_state), (pair[0].state, pair[1].state));
        assert_eq!((step.action, step.reward), (pair[1].action, pair[1].reward));
    }
    let said: Vec<_> = steps.iter().enumerate().filter(|(_, step)| !step.verdicts.is_empty()).collect();
    assert_eq!(said.len(), 1);
    assert_eq!((said[0].0, said[0].1.action), (2, out()), "the third decision asked for too much");
    assert_eq!(said[0].1.verdicts.as_slice()[0].as_str(), "rate");
    assert!(coordinator.appends() <= 600 / 4 + 1, "in batches");
}

#[tokio::test]
async fn a_lost_answer_and_a_coordinator_that_is_away_cost_nothing_and_store_nothing_twice() {
    let coordinator = Coordinator::default();
    let mut agent = agent(&coordinator, fast());
    steps(&mut agent, 10).await;
    // Some got through although nobody heard of it, some did not.
    coordinator.appends_fail([(unreachable(), true), (unreachable(), false), (unreachable(), true)]);
    steps(&mut agent, 100).await;
    coordinator.fails_with(Some(unreachable()));
    steps(&mut agent, 100).await;
    let tried = coordinator.appends();
    eventually("it is tried again", || coordinator.appends() > tried + 3).await;
    coordinator.fails_with(None);
    steps(&mut agent, 10).await;
    agent.finish().await;
    let steps = told(&coordinator);
    assert_eq!(steps.len(), 219);
    contiguous(&steps);
    assert!(coordinator.stored().keys().all(|(epoch, ..)| *epoch == Epoch(1)));
}

#[tokio::test]
async fn after_registering_again_only_what_may_be_there_already_is_left_out() {
    // Refused for certain: all of it goes under the new registration.
    let coordinator = Coordinator::default();
    let mut one = agent(&coordinator, fast());
    steps(&mut one, 20).await;
    eventually("all is stored", || coordinator.stored().len() == 19).await;
    coordinator.forgets_everybody();
    steps(&mut one, 20).await;
    one.finish().await;
    contiguous(&told(&coordinator));
    let epochs: BTreeSet<_> = coordinator.stored().into_keys().map(|(epoch, ..)| epoch).collect();
    assert_eq!((told(&coordinator).len(), epochs), (39, [Epoch(1), Epoch(2)].into()));

    // An answer was lost, and then the agent had to register again: never twice, so the batch is given up.
    let coordinator = Coordinator::default();
    let mut one = agent(&coordinator, fast());
    steps(&mut one, 20).await;
    eventually("all is stored", || coordinator.stored().len() == 19).await;
    let lost =
        std::iter::repeat_n((unreachable(), false), 1).chain(std::iter::repeat_n((link::Error::Unknown, false), 3));
    coordinator.appends_fail([(unreachable(), true)].into_iter().chain(lost));
    steps(&mut one, 1).await;
    eventually("an answer is lost", || coordinator.stored().len() > 19).await;
    coordinator.forgets_everybody();
    steps(&mut one, 20).await;
    one.finish().await;
    let places: Vec<_> = coordinator.stored().into_keys().map(|(_, episode, step)| (episode, step)).collect();
    let different: BTreeSet<_> = places.iter().collect();
    assert_eq!(places.len(), different.len(), "none is there under both registrations");
    contiguous(&told(&coordinator));
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_and_a_step_never_waits() {
    let coordinator = Coordinator::default();
    let options = Options { queue: 50, grace: Duration::from_millis(1), ..fast() };
    let target = target();
    let mut recorder = Recorder::start(coordinator.clone(), &target.name, options);
    // Nobody yields here, so the task has no turn: whatever does not fit is dropped at once.
    for _ in 0..201 {
        recorder.step(None, Default::default(), Reward::default(), Action::HOLD, []);
    }
    assert_eq!(recorder.outcome(), Outcome { stored: 0, dropped: 150 });
    assert_eq!(recorder.finish().await, Outcome { stored: 0, dropped: 200 }, "nor is there a coordinator");
    assert_eq!(coordinator.appends(), 0);
}

#[tokio::test]
async fn what_is_refused_is_dropped_and_the_rest_goes_on() {
    let coordinator = Coordinator::default();
    let mut agent = agent(&coordinator, fast());
    coordinator.appends_fail([(refused("not like this"), false)]);
    steps(&mut agent, 40).await;
    agent.finish().await;
    let steps = told(&coordinator);
    assert!((20..39).contains(&steps.len()), "{}", steps.len());
    assert_eq!(steps.last().unwrap().place(), (1, 38), "the gap stays where it is");
    assert_eq!(coordinator.dropped(), 39 - steps.len() as u64, "and the coordinator hears of it");
}

#[tokio::test]
async fn an_agent_that_stops_while_the_coordinator_is_away_does_not_wait_for_it() {
    let coordinator = Coordinator::default();
    // Whoever waits for the next attempt or for the end of the grace waits for longer than this test does.
    let long = Duration::from_hours(24);
    let mut agent = agent(&coordinator, Options { first_pause: long, longest_pause: long, grace: long, ..fast() });
    steps(&mut agent, 20).await;
    eventually("all is stored", || coordinator.stored().len() == 19).await;
    let tried = coordinator.appends();
    coordinator.fails_with(Some(unreachable()));
    steps(&mut agent, 20).await;
    eventually("the first attempt fails", || coordinator.appends() > tried).await;
    let finished = tokio::time::timeout(PATIENCE, agent.finish()).await;
    assert!(finished.is_ok(), "it waits");
    assert_eq!(told(&coordinator).len(), 19);
}
