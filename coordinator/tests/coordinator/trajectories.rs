//! Recorded steps: kept once, found again, counted right, removed when they are old.

use std::{
    collections::BTreeMap,
    io::{Seek, Write},
    time::Duration,
};

use futures_util::future::join_all;
use meanfield_common::{
    action::{Action, Step},
    identity::{Category, Epoch},
    state::{LocalState, Unit},
    trajectory::{Append, Appended, Dropped, Recorded, Verdicts},
    wire::{Register, Registered},
};
use meanfield_coordinator::{
    Clock, Coordinator, Error, Options,
    trajectories::{
        Retention,
        export::{COLUMNS, Format, export},
        import::Batches,
        query::{self, Filter},
    },
};

use serde_json::Value;

use crate::{durability::image, support::*};

/// A step whose content follows from its place and a level, 0 to 255.
pub(crate) fn step(episode: u64, step: u32, level: u8) -> Recorded {
    let state = |at: u32| LocalState {
        slo_preservation: Unit::clamped(f64::from(at % 7) / 7.0),
        cpu_utilisation: Unit::clamped(f64::from(level) / 255.0),
        replicas: Unit::clamped(1.0 / f64::from(at + 1)),
        ..LocalState::default()
    };
    let verdicts = if step.is_multiple_of(3) { vec!["rate".parse().unwrap()] } else { Vec::new() };
    Recorded {
        episode,
        step,
        state: state(step),
        action: Action { cpu: Step::Up, memory: Step::Stay, replicas: Step::between(&100, &level) },
        reward: (f64::from(level) - 100.0 + f64::from(step) / 16.0).try_into().unwrap(),
        next_state: state(step + 1),
        verdicts: Verdicts::try_from(verdicts).unwrap(),
    }
}

pub(crate) fn batch(epoch: Epoch, steps: impl IntoIterator<Item = Recorded>) -> Append {
    Append { epoch, steps: steps.into_iter().collect::<Vec<_>>().try_into().unwrap(), dropped: Dropped::default() }
}

/// All steps as an export has them.
fn exported(coordinator: &Coordinator, format: Format) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    export(&*coordinator.trajectories(), &Filter::default(), format, file.reopen().unwrap()).unwrap();
    std::fs::read(file.path()).unwrap()
}

pub(crate) fn csv(coordinator: &Coordinator) -> String {
    String::from_utf8(exported(coordinator, Format::Csv)).unwrap()
}

async fn take(coordinator: &Coordinator, who: &Registered, steps: impl IntoIterator<Item = Recorded>) -> (u64, u64) {
    let Appended { stored, known } = coordinator.append(who.agent, batch(who.epoch, steps)).await.unwrap();
    (stored, known)
}

#[tokio::test]
async fn a_step_is_kept_once_whatever_is_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let a = member(&coordinator, "a").await;
    let steps = |range: std::ops::Range<u32>| range.map(|at| step(1, at, 7));
    assert_eq!(take(&coordinator, &a, steps(0..10)).await, (10, 0));
    assert_eq!(take(&coordinator, &a, steps(0..10)).await, (0, 10), "sent again");
    assert_eq!(take(&coordinator, &a, steps(5..15)).await, (5, 5), "some of it is new");
    assert_eq!(take(&coordinator, &a, steps(20..30)).await, (10, 0), "a gap");
    assert_eq!(take(&coordinator, &a, steps(12..22)).await, (5, 5), "the gap is filled");
    let two = [step(1, 29, 7), step(1, 30, 7), step(2, 0, 9)];
    assert_eq!(take(&coordinator, &a, two.clone()).await, (2, 1), "over two episodes");

    let before = csv(&coordinator);
    let refused = coordinator.append(a.agent, batch(a.epoch, [step(1, 31, 7), step(2, 0, 10), step(2, 1, 9)])).await;
    assert!(matches!(refused, Err(Error::ConflictingStep { episode: 2, step: 0 })), "{refused:?}");
    assert_eq!(csv(&coordinator), before, "nothing of a refused batch is taken");
    assert_eq!(before.lines().count(), 1 + 31 + 1);

    let other = coordinator.append(a.agent, batch(Epoch(9), [step(3, 0, 1)])).await;
    assert!(matches!(other, Err(Error::UnknownAgent(_))), "{other:?}");
    let again = member(&coordinator, "a").await;
    let stale = coordinator.append(a.agent, batch(a.epoch, [step(3, 0, 1)])).await;
    assert!(matches!(stale, Err(Error::StaleEpoch { .. })), "{stale:?}");
    assert_eq!(take(&coordinator, &again, [step(1, 0, 200)]).await, (1, 0), "another registration, other episodes");

    drop(coordinator);
    let coordinator = on_disk(dir.path()).unwrap();
    assert_eq!(csv(&coordinator).lines().count(), 1 + 31 + 1 + 1);
    assert!(csv(&coordinator).starts_with(&before));
    let whole = query::page(&*coordinator.trajectories(), &Filter::default(), None, 10).unwrap().0;
    let sum: f64 = (0..31).map(|at| step(1, at, 7).reward.get()).sum();
    assert_eq!((whole[0].steps, whole[0].reward, whole[0].first_step, whole[0].last_step), (31, sum, 0, 30));
}

#[tokio::test]
async fn everything_that_was_acknowledged_survives_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let names: Vec<String> = (0..20).map(|agent| format!("agent-{agent}")).collect();
    let members = join_all(names.iter().map(|name| member(&coordinator, name))).await;
    for round in 0..5 {
        let all = members.iter().map(|one| take(&coordinator, one, (0..20).map(|at| step(1, round * 20 + at, 50))));
        assert!(join_all(all).await.iter().all(|taken| *taken == (20, 0)));
        // No orderly end: the copy is taken while the coordinator runs.
        let crashed = image(dir.path());
        assert_eq!(csv(&on_disk(crashed.path()).unwrap()), csv(&coordinator));
    }
    // The same at once, from many: one of them is new.
    let first = members[0];
    let same = join_all((0..10).map(|_| take(&coordinator, &first, (100..110).map(|at| step(1, at, 50))))).await;
    assert_eq!(same.iter().map(|(stored, _)| stored).sum::<u64>(), 10, "{same:?}");
}

/// Some history over pools and categories, with its clock.
async fn history() -> (Coordinator, Clock, BTreeMap<(u64, u64), Vec<Recorded>>, Vec<Registered>) {
    let clock = Clock::manual();
    let pools = vec![pool("default"), pool("other")];
    let coordinator = Coordinator::open(Options { pools, ..Options::default() }, clock.clone()).unwrap();
    let mut members = Vec::new();
    for agent in 0..6 {
        let place = pool(if agent % 2 == 0 { "default" } else { "other" });
        let category = Category::ALL[agent % 3];
        let register = Register { name: name(&format!("agent-{agent}")), pool: place, category, ..register("a") };
        members.push(coordinator.register(register).await.unwrap());
    }
    let mut model = BTreeMap::new();
    for episode in 0..12 {
        for (agent, one) in members.iter().enumerate() {
            clock.advance(Duration::from_millis(10));
            let level = (episode * 37 + agent as u64 * 91) % 256;
            let steps: Vec<_> = (0..5 + episode as u32).map(|at| step(episode, at, level as u8)).collect();
            take(&coordinator, one, steps.clone()).await;
            model.insert((agent as u64, episode), steps);
        }
    }
    (coordinator, clock, model, members)
}

#[tokio::test]
async fn questions_are_answered_as_a_recomputation_answers_them() {
    let (coordinator, _, model, members) = history().await;
    let store = coordinator.trajectories();
    let sum = |steps: &[Recorded]| steps.iter().map(|step| step.reward.get()).sum::<f64>();
    let admitted = |agent: u64, wanted: &Filter| {
        wanted
            .pool
            .as_ref()
            .is_none_or(|pool| pool.as_str() == if agent.is_multiple_of(2) { "default" } else { "other" })
            && wanted.category.is_none_or(|category| category == Category::ALL[agent as usize % 3])
            && wanted.agent.is_none_or(|id| id == members[agent as usize].agent)
    };
    let filters = [
        Filter::default(),
        Filter { pool: Some(pool("other")), ..Filter::default() },
        Filter { category: Some(Category::Io), ..Filter::default() },
        Filter { pool: Some(pool("default")), category: Some(Category::Cpu), ..Filter::default() },
        Filter { agent: Some(members[3].agent), ..Filter::default() },
        Filter { pool: Some(pool("nobody")), ..Filter::default() },
    ];
    for filter in filters {
        let mut sums: Vec<f64> =
            model.iter().filter(|((agent, _), _)| admitted(*agent, &filter)).map(|(_, steps)| sum(steps)).collect();
        sums.sort_by(f64::total_cmp);
        let found =
            |best| query::ranked(&*store, &filter, best, 5).unwrap().iter().map(|one| one.reward).collect::<Vec<_>>();
        assert_eq!(found(false), sums.iter().copied().take(5).collect::<Vec<_>>(), "{filter:?}");
        assert_eq!(found(true), sums.iter().rev().copied().take(5).collect::<Vec<_>>(), "{filter:?}");

        // Page by page, all of them and none twice.
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = query::page(&*store, &filter, after.as_ref(), 7).unwrap();
            pages.extend(page);
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages.len(), sums.len());
        assert!(pages.windows(2).all(|pair| pair[0].since_ms < pair[1].since_ms));

        let total: usize = pages.iter().map(|one| one.steps as usize).sum();
        let drawn = query::sample(&*store, &filter, 3, 40).unwrap();
        assert_eq!(drawn.len(), total.min(40));
        assert_eq!(drawn, query::sample(&*store, &filter, 3, 40).unwrap(), "the same seed");
        if total > 80 {
            assert_ne!(drawn, query::sample(&*store, &filter, 4, 40).unwrap(), "another seed");
        }
        for one in &drawn {
            let agent = members.iter().position(|member| member.agent == one.agent).unwrap() as u64;
            assert!(admitted(agent, &filter));
            assert_eq!(model[&(agent, one.step.episode)][one.step.step as usize], one.step);
        }
        let everything = query::sample(&*store, &filter, 5, 100_000).unwrap();
        let mut places: Vec<_> = everything.iter().map(|one| (one.agent, one.step.place())).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), total, "none twice");
    }

    let latest = query::latest_rewards(&*store, members[2].agent, 20).unwrap();
    let expected: Vec<_> = model
        .iter()
        .filter(|((agent, _), _)| *agent == 2)
        .flat_map(|(_, steps)| steps.iter().map(|step| (step.episode, step.step, step.reward)))
        .rev()
        .take(20)
        .collect();
    assert_eq!(latest.iter().map(|one| (one.episode, one.step, one.reward)).collect::<Vec<_>>(), expected);

    let all = query::page(&*store, &Filter::default(), None, 1000).unwrap().0;
    let (since, until) = (all[10].since_ms, all[20].since_ms);
    let window = Filter { since: Some(since), until: Some(until), ..Filter::default() };
    assert_eq!(query::page(&*store, &window, None, 1000).unwrap().0, all[10..20]);
    assert!(query::ranked(&*store, &window, true, 3).unwrap().iter().all(|one| (since..until).contains(&one.since_ms)));
}

#[tokio::test]
async fn files_read_back_as_they_were_written() {
    let (coordinator, ..) = history().await;
    let served = Served::start(Options::default()).await;
    for (format, again) in [(Format::Csv, false), (Format::Parquet, true), (Format::Csv, true)] {
        let file = exported(&coordinator, format);
        let request = served.request(reqwest::Method::POST, "/v1/trajectories/import");
        let reply = send(request.header("content-type", format.media_type()).body(file)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let steps = csv(&coordinator).lines().count() as u64 - 1;
        let expected = if again { Appended { stored: 0, known: steps } } else { Appended { stored: steps, known: 0 } };
        assert_eq!(reply.json::<Appended>(), expected, "{format:?}");
    }
    assert_eq!(served.get("/v1/trajectories/export?format=csv").await.body, csv(&coordinator));
    let empty = Served::start(Options::default()).await;
    let parquet = served.request(reqwest::Method::GET, "/v1/trajectories/export?format=parquet").send().await.unwrap();
    let request = empty.request(reqwest::Method::POST, "/v1/trajectories/import");
    let parquet = parquet.bytes().await.unwrap();
    let reply = send(request.header("content-type", Format::Parquet.media_type()).body(parquet)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(csv(&empty.coordinator), csv(&coordinator), "by way of Parquet");
    served.ended().await.unwrap();
    empty.ended().await.unwrap();
}

#[tokio::test]
async fn an_import_is_taken_whole_or_not_at_all_and_may_be_tried_first() {
    let (coordinator, ..) = history().await;
    let served = Served::start(Options::default()).await;
    let import = async |query: &str, file: &str| {
        let request = served.request(reqwest::Method::POST, &format!("/v1/trajectories/import{query}"));
        send(request.header("content-type", Format::Csv.media_type()).body(file.to_owned())).await
    };
    let whole = csv(&coordinator);
    let nothing = csv(&served.coordinator);
    let (rows, half) = (whole.lines().count() as u64 - 1, whole.lines().take(200).collect::<Vec<_>>().join("\n"));
    let with = |line: &str, column: &str, value: &str| {
        let fields = line.split(',').zip(COLUMNS);
        fields.map(|(field, name)| if name == column { value } else { field }).collect::<Vec<_>>().join(",")
    };
    let audited = async || served.get("/v1/audit").await.json::<Value>()["entries"].as_array().unwrap().len();
    let before = audited().await;

    let tried = import("?dry_run=true", &whole).await.json::<Appended>();
    assert_eq!((tried.stored, tried.known), (rows, 0));
    // The last row is bad: all before it are left alone.
    let bad = with(whole.lines().last().unwrap(), "category", "gpu");
    let problem = import("", &format!("{whole}{bad}")).await;
    assert_eq!(problem.problem().field.as_deref(), Some(&*format!("row {}, category", rows + 1)), "{problem:?}");
    assert_eq!((csv(&served.coordinator), audited().await), (nothing, before));

    assert_eq!(import("", &half).await.json::<Appended>().stored, 199);
    let tried = import("?dry_run=true", &whole).await.json::<Appended>();
    assert_eq!((tried.stored, tried.known), (rows - 199, 199));
    // The last row that is known has another reward now, behind some that are new: an export goes by time.
    let (kept, known) = (csv(&served.coordinator), whole.lines().nth(199).unwrap());
    let other = with(known, "reward", "0.015625");
    let last = whole.lines().last().unwrap();
    let contradicting = format!("{}\n{last}\n{other}\n", whole.lines().next().unwrap());
    let refused = import("", &contradicting).await.problem();
    assert_eq!((refused.kind.as_str(), csv(&served.coordinator)), ("/problems/conflicting-step", kept.clone()));
    // So has one of two that are the same, in a file that contradicts itself.
    for twice in [with(last, "reward", "0.015625"), last.to_owned()] {
        let refused = import("", &format!("{whole}{twice}\n")).await.problem();
        assert_eq!(refused.field, Some(format!("row {}, step", rows + 1)), "{}", refused.detail);
        assert_eq!(csv(&served.coordinator), kept);
    }
    // An episode that is too long is refused before any of it is taken.
    let header = whole.lines().next().unwrap();
    let row = with(last, "episode", "99");
    let long: String = (0..=100_000).map(|at| with(&row, "step", &at.to_string()) + "\n").collect();
    let refused = import("", &format!("{header}\n{long}")).await.problem();
    assert_eq!(refused.field.as_deref(), Some("row 100001, step"), "{}", refused.detail);
    assert_eq!(csv(&served.coordinator), kept);
    let microseconds = import("", &format!("{kept}{}\n", with(last, "received_ms", "1700000000000000"))).await;
    assert_eq!(microseconds.problem().field.as_deref(), Some("row 200, received_ms"));
    assert_eq!(import("", &whole).await.json::<Appended>(), tried, "what was foretold");
    assert_eq!(csv(&served.coordinator), whole);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn an_episode_has_an_end() {
    let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
    let a = member(&coordinator, "a").await;
    for part in 0..100 {
        take(&coordinator, &a, (0..1000).map(|at| step(1, 1000 * part + at, 7))).await;
    }
    let more = coordinator.append(a.agent, batch(a.epoch, [step(1, 100_000, 7)])).await;
    let Err(Error::Invalid(invalid)) = more else { panic!("taken: {more:?}") };
    assert_eq!((invalid.field.as_str(), invalid.bound.as_str()), ("steps", "at most 100000 steps"));
    assert_eq!(take(&coordinator, &a, [step(1, 5, 7)]).await, (0, 1), "what is known is no more");
    assert_eq!(take(&coordinator, &a, [step(2, 0, 7)]).await, (1, 0));
}

#[tokio::test]
async fn a_file_over_which_the_library_panics_is_no_parquet() {
    let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
    let a = member(&coordinator, "a").await;
    take(&coordinator, &a, [step(1, 0, 7)]).await;
    let whole = exported(&coordinator, Format::Parquet);
    // Behind the footer are its length and a word. The lowest bit of a number in there is its sign, and the library takes
    // for granted that some of them have none.
    let end = whole.len() - 8;
    let length = u32::from_le_bytes(whole[end..end + 4].try_into().unwrap()) as usize;
    let refused_for_a_panic = |at: usize| {
        let mut file = tempfile::tempfile().unwrap();
        let mut changed = whole.clone();
        changed[at] ^= 1;
        file.write_all(&changed).and_then(|()| file.rewind()).unwrap();
        let read = Batches::open(file, Format::Parquet).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        read.is_err_and(|invalid| invalid.to_string().contains("what cannot be read"))
    };
    assert!((end - length..end).any(refused_for_a_panic), "the library panics no more");
}

/// An episode goes with its first segment, and then another one may hold nothing.
#[tokio::test]
async fn old_segments_go_behind_one_that_was_emptied() {
    let clock = Clock::manual();
    let retention = Retention { bytes: 2 << 20, age: Duration::from_secs(3600) };
    let options = Options { trajectories: retention, ..Options::default() };
    let coordinator = Coordinator::open(options, clock.clone()).unwrap();
    let a = member(&coordinator, "a").await;
    // Three segments of 128 KiB and a part of the fourth.
    for part in 0..8 {
        take(&coordinator, &a, (0..800).map(|at| step(1, 800 * part + at, part as u8))).await;
    }
    for episode in 2..5 {
        clock.advance(Duration::from_secs(1800));
        for part in 0..3 {
            take(&coordinator, &a, (0..800).map(|at| step(episode, 800 * part + at, part as u8))).await;
        }
    }
    coordinator.retain().await.unwrap();
    let kept = query::page(&*coordinator.trajectories(), &Filter::default(), None, 10).unwrap().0;
    let kept: Vec<_> = kept.iter().map(|one| one.episode).collect();
    assert!(!kept.contains(&1) && kept.contains(&4), "{kept:?}");
    clock.advance(Duration::from_secs(3602));
    coordinator.retain().await.unwrap();
    assert_eq!(csv(&coordinator).lines().count(), 1, "all are too old");
}

#[tokio::test]
async fn what_is_too_much_or_too_old_goes_oldest_first_and_its_space_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual();
    let retention = Retention { bytes: 2 << 20, age: Duration::from_secs(3600) };
    let options = Options { data_dir: Some(dir.path().to_owned()), trajectories: retention, ..Options::default() };
    let open = || Coordinator::open(options.clone(), clock.clone()).unwrap();
    let coordinator = open();
    let a = member(&coordinator, "a").await;
    // 20 MB in all. Content that repeats nothing, so that all of it is written.
    for episode in 0..400 {
        clock.advance(Duration::from_millis(10));
        for part in 0..2 {
            let steps = (0..400).map(|at| step(episode, part * 400 + at, (episode % 256) as u8));
            assert_eq!(take(&coordinator, &a, steps).await, (400, 0));
        }
    }
    let kept = query::page(&*coordinator.trajectories(), &Filter::default(), None, 1000).unwrap().0;
    let bytes: u64 = kept.iter().map(|one| one.bytes).sum();
    assert!((1 << 20..=2 << 20).contains(&bytes), "{bytes}");
    let numbers: Vec<u64> = kept.iter().map(|one| one.episode).collect();
    assert_eq!(numbers, (400 - numbers.len() as u64..400).collect::<Vec<_>>(), "the latest are kept, without a gap");
    assert!(kept.iter().all(|one| one.steps == 800), "whole episodes only");
    let lines = csv(&coordinator).lines().count();
    assert_eq!(lines, 1 + 800 * kept.len());
    drop(coordinator);

    let coordinator = open();
    assert_eq!(csv(&coordinator).lines().count(), lines, "the same after a restart");
    // Those that were removed may come again.
    assert_eq!(take(&coordinator, &a, [step(0, 0, 0)]).await, (1, 0));
    clock.advance(Duration::from_secs(3599));
    coordinator.retain().await.unwrap();
    assert!(csv(&coordinator).lines().count() >= lines);
    clock.advance(Duration::from_secs(2));
    let b = coordinator.register(register("b")).await.unwrap();
    take(&coordinator, &b, [step(0, 0, 0)]).await;
    coordinator.retain().await.unwrap();
    clock.advance(Duration::from_secs(3602));
    coordinator.retain().await.unwrap();
    assert_eq!(csv(&coordinator).lines().count(), 1, "all are too old");
}
