//! Bad settings and bad inputs are refused with an error that names them, and leave the learner as it was.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_learner::{
    ActScratch, ActorCritic, Batch, Choice, Config, Curriculum, Error, Family, Learner, Mode, Reward, Segment, Sharing,
    Step, Turns, Variant,
};

#[test]
fn the_presets_hold() {
    Config::paper().validate().unwrap();
    Config::preset_default().validate().unwrap();
    Config::residual().validate().unwrap();
    assert_eq!(Config::preset("residual").unwrap(), Config::residual());
    assert_eq!(Config::default(), Config::preset_default());
}

#[test]
fn every_variant_of_both_families_has_a_name_and_holds() {
    for (family, before) in [(Family::Paper, "paper-"), (Family::Default, "")] {
        for variant in Variant::ALL {
            let config = Config::preset(&format!("{before}{}", variant.name())).unwrap();
            assert_eq!(config, variant.of(family));
            config.validate().unwrap();
        }
    }
    assert_eq!(Config::preset("paper").unwrap(), Config::preset("paper-simppo").unwrap(), "as published");
    assert_eq!(Config::preset("default").unwrap(), Config::default());
    let error = Config::preset("simpo").unwrap_err().to_string();
    assert!(error.contains("\"simpo\"") && error.contains("cpq-rl") && error.contains("simppo-all"), "{error}");
}

#[test]
fn episodes_grow_as_the_curriculum_says() {
    let config = Config::paper();
    let lengths = [0, 69, 70, 105, 139, 140, 1000].map(|episode| config.horizon_at(episode));
    assert_eq!(lengths, [10, 10, 10, 30, 49, 50, 50]);
    assert_eq!((config.patience_at(139), config.patience_at(140)), (Some(5), None));
    assert_eq!(Config::default().horizon_at(0), 50);
}

/// Fixed sizes, so that the shapes below do not move with the preset.
fn sized() -> Config {
    Config { observation: 24, embedding: 8, auxiliary: 12, heads: vec![3, 3, 3], ..Config::default() }
}

const LESSONS: Curriculum = Curriculum { first: 10, patience: 5, from: 70, to: 140 };

#[test]
fn bad_settings_are_named() {
    let cases: Vec<(&str, &str, Config)> = vec![
        ("gamma", "1.5", Config { gamma: 1.5, ..sized() }),
        ("gamma", "NaN", Config { gamma: f32::NAN, ..sized() }),
        ("lambda", "-0.1", Config { lambda: -0.1, ..sized() }),
        ("heads", "0", Config { heads: vec![], ..sized() }),
        ("heads", "9", Config { heads: vec![2; 9], ..sized() }),
        ("heads", "0", Config { heads: vec![3, 0], ..sized() }),
        ("heads", "256", Config { heads: vec![256], ..sized() }),
        ("hidden", "0", Config { hidden: vec![64, 0], ..sized() }),
        ("observation", "0", Config { observation: 0, ..sized() }),
        ("auxiliary", "1000000000", Config { auxiliary: 1_000_000_000, ..sized() }),
        ("minibatch", "0", Config { minibatch: 0, ..sized() }),
        ("epochs", "0", Config { epochs: 0, ..sized() }),
        ("clip", "0", Config { clip: 0.0, ..sized() }),
        ("learning_rate", "inf", Config { learning_rate: f32::INFINITY, ..sized() }),
        ("max_gradient_norm", "0", Config { max_gradient_norm: Some(0.0), ..sized() }),
        ("team_weighted", "true", Config { team_weighted: true, team_share: 0.0, ..sized() }),
        ("team_share", "2", Config { team_share: 2.0, ..sized() }),
        ("heads", "1", Config { heads: vec![1, 1], ..sized() }),
        ("base_rate", "2", Config { base_rate: 2.0, ..sized() }),
        ("team_share", "0.5", Config { team_share: 0.5, turns: Turns::One, ..sized() }),
        ("auxiliary", "12", Config { auxiliary_in_actor: true, ..sized() }),
        ("curriculum.first", "60", Config { curriculum: Some(Curriculum { first: 60, ..LESSONS }), ..sized() }),
        ("curriculum.to", "8", Config { curriculum: Some(Curriculum { from: 9, to: 8, ..LESSONS }), ..sized() }),
        ("reward.alpha", "7", Config { reward: Reward::Paper { alpha: 7.0 }, ..sized() }),
        ("embedding", "25", Config { embedding: 25, ..sized() }),
    ];
    for (name, shown, config) in cases {
        let error = Learner::new(config, 0).unwrap_err();
        let Error::Config { field, value, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!((*field, value.as_str()), (name, shown));
    }
    let message = Config { gamma: 1.5, ..sized() }.validate().unwrap_err().to_string();
    assert_eq!(message, "configuration: `gamma` is 1.5, but must be in [0, 1]");
}

#[test]
fn a_configuration_survives_json_and_refuses_unknown_fields() {
    for config in [Config::paper(), Config::default()] {
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }
    for (old, sharing) in [("true", Sharing::Pool), ("false", Sharing::None)] {
        let config: Config = serde_json::from_str(&format!(r#"{{"shared_network": {old}}}"#)).unwrap();
        assert_eq!(config.sharing, sharing, "as older checkpoints say it");
    }
    let error = serde_json::from_str::<Config>(r#"{"sharing": "some"}"#).unwrap_err().to_string();
    assert!(error.contains("category or pool"), "{error}");
    let partial: Config = serde_json::from_str(r#"{"gamma": 0.5}"#).unwrap();
    assert_eq!(partial, Config { gamma: 0.5, ..Config::default() });
    let error = serde_json::from_str::<Config>(r#"{"gama": 0.5}"#).unwrap_err().to_string();
    assert!(error.contains("gama"), "{error}");
    assert!(serde_json::from_str::<Config>(r#"{"reward": {"paper": {"alpha": 0.3, "beta": 1}}}"#).is_err());
}

#[test]
fn bad_observations_are_refused() {
    let network = ActorCritic::new(sized(), 0).unwrap();
    let mut scratch = ActScratch::default();
    let mut act =
        |observation: &[f32], mask: Option<&[bool]>| network.act(observation, mask, Mode::Greedy, &mut scratch);
    assert!(act(&[0.0; 24], None).is_ok());
    assert!(matches!(act(&[0.0; 23], None), Err(Error::Shape { what: "observation", expected: 24, found: 23 })));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut observation = [0.0; 24];
        observation[17] = bad;
        assert_eq!(act(&observation, None), Err(Error::NonFinite { what: "observation" }));
    }
    // Enormous but finite: whatever comes out, it comes out as a result.
    let _ = act(&[f32::MAX; 24], None);
    let mut mask = [true; 9];
    mask[3..6].fill(false);
    assert_eq!(act(&[0.0; 24], Some(&mask)), Err(Error::MaskedHead { head: 1 }));
    assert!(network.value(&[0.0; 24], &[0.0; 11], &mut scratch).is_err());
    assert!(network.value(&[0.0; 24], &[f32::NAN; 12], &mut scratch).is_err());
}

fn step<'a>(config: &Config, observation: &'a [f32], auxiliary: &'a [f32], reward: f32) -> Step<'a> {
    let choice = Choice::new(&vec![0; config.heads.len()], -1.0).unwrap();
    Step { observation, auxiliary, mask: None, choice, reward, value: 0.0, terminated: false }
}

#[test]
fn bad_steps_are_refused_and_not_recorded() {
    let config = sized();
    let (observation, auxiliary) = ([0.0; 24], [0.0; 12]);
    let good = step(&config, &observation, &auxiliary, 1.0);
    let mut segment = Segment::new(&config, 4);
    let mask = [false, true, true, true, true, true, true, true, true];
    for bad in [
        Step { observation: &[0.0; 3], ..good },
        Step { auxiliary: &[f32::NAN; 12], ..good },
        Step { mask: Some(&[true; 2]), ..good },
        Step { mask: Some(&mask), ..good },
        Step { reward: f32::NAN, ..good },
        Step { value: f32::INFINITY, ..good },
        Step { choice: Choice::new(&[0, 0, 3], -1.0).unwrap(), ..good },
        Step { choice: Choice::new(&[0, 0], -1.0).unwrap(), ..good },
        Step { choice: Choice::new(&[0, 0, 0], f32::NEG_INFINITY).unwrap(), ..good },
    ] {
        segment.push(&bad).unwrap_err();
        assert!(segment.is_empty());
    }
    assert_eq!(segment.truncate(0.0), Err(Error::EmptyBatch));
    segment.push(&good).unwrap();
    assert_eq!(segment.truncate(f32::NAN), Err(Error::NonFinite { what: "bootstrap value" }));

    let mut learner = Learner::new(config.clone(), 0).unwrap();
    let mut batch = Batch::new(&config, 4);
    assert_eq!(learner.update(&batch, 0.0), Err(Error::EmptyBatch));
    batch.push_segment(&segment, f32::NAN).unwrap_err();
    batch.push_segment(&segment, 0.0).unwrap();
    assert_eq!(learner.update(&batch, f32::NAN), Err(Error::NonFinite { what: "progress" }));
    let paper = Config::paper();
    assert!(matches!(Learner::new(paper.clone(), 0).unwrap().update(&batch, 0.0), Err(Error::Shape { .. })));
    assert!(matches!(Batch::new(&paper, 4).push_segment(&segment, 0.0), Err(Error::Shape { .. })));
}

#[test]
fn nothing_that_is_not_finite_gets_into_a_batch() {
    let config = sized();
    let (observation, auxiliary) = ([0.1; 24], [0.2; 12]);
    let good = step(&config, &observation, &auxiliary, 1.0);
    let mut clean = Segment::new(&config, 8);
    let mut tried = Segment::new(&config, 8);
    for _ in 0..8 {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in 0..24 {
                let mut observation = observation;
                observation[place] = bad;
                let error = tried.push(&Step { observation: &observation, ..good }).unwrap_err();
                assert_eq!(error.to_string(), "observation is not finite");
            }
            for place in 0..12 {
                let mut auxiliary = auxiliary;
                auxiliary[place] = bad;
                let error = tried.push(&Step { auxiliary: &auxiliary, ..good }).unwrap_err();
                assert_eq!(error.to_string(), "auxiliary is not finite");
            }
            let error = tried.push(&Step { reward: bad, ..good }).unwrap_err();
            assert_eq!(error.to_string(), "reward is not finite");
            let error = tried.push(&Step { value: bad, ..good }).unwrap_err();
            assert_eq!(error.to_string(), "value is not finite");
            let choice = Choice::new(&[0, 0, 0], bad).unwrap();
            let error = tried.push(&Step { choice, ..good }).unwrap_err();
            assert_eq!(error.to_string(), "log-probability is not finite");
        }
        clean.push(&good).unwrap();
        tried.push(&good).unwrap();
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(tried.truncate(bad), Err(Error::NonFinite { what: "bootstrap value" }));
    }
    // What was refused left no trace: both teach exactly the same.
    let taught = |segment: &Segment| {
        let mut learner = Learner::new(config.clone(), 0).unwrap();
        let mut batch = Batch::new(&config, 8);
        for bad in [f32::NAN, f32::INFINITY] {
            assert_eq!(batch.push_segment(segment, bad), Err(Error::NonFinite { what: "bootstrap value" }));
        }
        batch.push_segment(segment, 0.0).unwrap();
        learner.update(&batch, 0.0).unwrap();
        learner.save().unwrap()
    };
    assert_eq!(taught(&clean), taught(&tried));
}

#[test]
fn finite_numbers_that_add_up_to_infinity_leave_no_trace() {
    for normalise_advantages in [false, true] {
        let config = Config { normalise_advantages, ..sized() };
        let (observation, auxiliary) = ([0.1; 24], [0.2; 12]);
        let mut learner = Learner::new(config.clone(), 0).unwrap();
        let before = learner.save().unwrap();
        for reward in [f32::MAX, f32::MIN] {
            let mut segment = Segment::new(&config, 8);
            for _ in 0..8 {
                segment.push(&step(&config, &observation, &auxiliary, reward)).unwrap();
            }
            let mut batch = Batch::new(&config, 8);
            batch.push_segment(&segment, 0.0).unwrap();
            let error = learner.update(&batch, 0.0).unwrap_err();
            assert!(matches!(error, Error::Diverged { epoch: 0, .. }), "{error}");
            assert!(error.to_string().ends_with("the parameters were left as before the update"), "{error}");
            assert_eq!(learner.save().unwrap(), before);
        }
    }
}

#[test]
fn a_diverging_update_leaves_no_trace() {
    let config = Config { normalise_advantages: false, minibatch: 4, ..sized() };
    let (observation, auxiliary) = ([0.5; 24], [0.5; 12]);
    let batch = |rewards: &[f32], log_prob: f32| {
        let mut segment = Segment::new(&config, 4);
        for &reward in rewards {
            let choice = Choice::new(&[0, 0, 0], log_prob).unwrap();
            segment.push(&Step { choice, ..step(&config, &observation, &auxiliary, reward) }).unwrap();
        }
        let mut batch = Batch::new(&config, 4);
        batch.push_segment(&segment, 0.0).unwrap();
        batch
    };
    let mut learner = Learner::new(config.clone(), 0).unwrap();
    let good = batch(&[1.0; 40], -3.3);
    learner.update(&good, 0.0).unwrap();
    let before = learner.save().unwrap();

    // One enormous reward among many, so that some minibatches are applied before the bad one comes up.
    let mut rewards = [0.0; 400];
    rewards[0] = 1e30;
    let error = learner.update(&batch(&rewards, -3.3), 0.0).unwrap_err();
    assert!(matches!(error, Error::Diverged { term: "value loss", .. }), "{error}");
    assert_eq!(learner.save().unwrap(), before);

    let error = learner.update(&batch(&[-1.0; 8], -1e4), 0.0).unwrap_err();
    assert!(matches!(error, Error::Diverged { term: "policy loss", .. }), "{error}");
    assert_eq!(learner.save().unwrap(), before);
    learner.update(&good, 0.0).unwrap();

    let (actor, critic) = learner.network().parameters();
    let (mut actor, critic) = (actor.to_vec(), critic.to_vec());
    actor[0] = f32::NAN;
    assert!(learner.network_mut().set_parameters(&actor, &critic).is_err());
    assert!(learner.network_mut().set_parameters(&critic, &critic).is_err());
}
