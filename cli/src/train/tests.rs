//! Trainings that are stopped, resumed, damaged and refused.

use meanfield_learner::{Learner, Sharing};

use super::*;

fn settings(text: &str) -> anyhow::Result<Settings> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("training.toml");
    fs::write(&path, text)?;
    let settings = Settings::read(Some(&path))?;
    settings.config()?;
    settings.clusters()?;
    Ok(settings)
}

fn small(preset: &str, more: &str) -> Settings {
    let text = format!(
        "preset = {preset:?}\nepisodes = 6\ncheckpoint_every = 2\n{more}\n[learner]\nhorizon = 12\nenvironments = 2\n\
         curriculum = {{ first = 6, patience = 3, from = 1, to = 3 }}\n\
         [scenario]\nagents = 4\nloads = [\"diurnal\", \"bursty\"]\n"
    );
    settings(&text).unwrap()
}

/// All networks and the curve.
fn outcome(out: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = (fs::read_dir(out).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_training_that_was_stopped_comes_to_the_same_bits_as_one_that_was_not() {
    for preset in ["default", "paper-simppo", "simppo-all", "paper-cpq-rl"] {
        let settings = small(preset, "");
        let [through, stopped] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        train(&settings, through.path(), false, NonZero::new(2), None).unwrap();
        // Stopped between two checkpoints: the third episode is done again.
        train(&settings, stopped.path(), false, NonZero::new(1), Some(3)).unwrap();
        train(&settings, stopped.path(), true, NonZero::new(1), None).unwrap();
        let (one, other) = (outcome(through.path()), outcome(stopped.path()));
        assert!(one.iter().any(|(name, _)| name == "curve.csv") && one.len() >= 3, "{preset}");
        assert!(one == other, "{preset}");
        assert_eq!(checkpoint::all(through.path()).unwrap().len(), 1, "older checkpoints are gone");
        let again = train(&settings, through.path(), false, None, None).unwrap_err();
        assert!(again.to_string().contains("--resume"), "{again}");
    }
}

#[test]
fn a_checkpoint_of_other_networks_or_settings_is_refused_in_words() {
    let out = tempfile::tempdir().unwrap();
    train(&small("default", ""), out.path(), false, None, Some(2)).unwrap();
    let refusal = |settings: &Settings| format!("{:#}", train(settings, out.path(), true, None, None).unwrap_err());
    let shapes = refusal(&small("paper-simppo", ""));
    assert!(shapes.contains("29+12 inputs") && shapes.contains("7+12 inputs"), "{shapes}");
    let seed = refusal(&small("default", "seed = 2"));
    assert!(seed.contains("seed is 2 here and 1 there"), "{seed}");
    let mut other = small("default", "");
    other.learner.insert("gamma".to_owned(), toml::Value::Float(0.5));
    other.scenario.agents = 5;
    let both = refusal(&other);
    for part in
        ["learner.gamma is 0.5 here and 0.9 there", "scenario.agents is 5 here and 4 there", "checkpoint-000002"]
    {
        assert!(both.contains(part), "{both}");
    }
    assert!(!both.contains("seed is"), "{both}");
}

#[test]
fn going_on_from_nothing_is_refused_with_where_it_looked() {
    let folder = tempfile::tempdir().unwrap();
    for out in [folder.path().to_owned(), folder.path().join("nowhere")] {
        let error = train(&small("default", ""), &out, true, None, None).unwrap_err().to_string();
        assert!(error.contains(&out.join("checkpoint-*").display().to_string()), "{error}");
    }
    assert!(!folder.path().join("nowhere").exists(), "nothing was written");
}

#[test]
fn categories_that_nobody_is_of_leave_no_file() {
    let out = tempfile::tempdir().unwrap();
    let mut settings = small("default", "");
    settings.learner.insert("sharing".to_owned(), "category".into());
    settings.scenario.agents = 1;
    train(&settings, out.path(), false, None, None).unwrap();
    let models: Vec<_> = outcome(out.path()).into_iter().filter(|(name, _)| name.starts_with("model-")).collect();
    assert_eq!(models.len(), 1, "one agent is of one category");
}

#[test]
fn a_loss_that_is_no_number_stops_with_the_last_good_checkpoint() {
    let out = tempfile::tempdir().unwrap();
    let mut settings = small("default", "");
    settings.learner.insert("value_weight".to_owned(), toml::Value::Float(1e38));
    settings.learner.insert("max_gradient_norm".to_owned(), toml::Value::Float(1e30));
    let error = format!("{:#}", train(&settings, out.path(), false, None, None).unwrap_err());
    for part in ["no checkpoint yet", "episode 0", "all agents", "critic gradient"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn priorities_change_what_is_learnt_only_where_the_team_s_reward_is_weighted() {
    let trained = |weighted: bool, weights: &[f64]| {
        let out = tempfile::tempdir().unwrap();
        let mut settings = small("simppo", "");
        settings.learner.insert("team_weighted".to_owned(), weighted.into());
        settings.scenario.weights = weights.to_vec();
        train(&settings, out.path(), false, None, None).unwrap();
        fs::read(out.path().join("curve.csv")).unwrap()
    };
    assert!(trained(false, &[]) == trained(false, &[10.0, 1.0]));
    assert!(trained(true, &[]) == trained(true, &[2.0, 2.0]), "only proportions count");
    assert!(trained(true, &[]) != trained(true, &[10.0, 1.0]));
}

#[test]
fn the_last_good_checkpoint_stays_when_a_later_episode_fails() {
    let out = tempfile::tempdir().unwrap();
    let settings = small("default", "");
    train(&settings, out.path(), false, None, Some(2)).unwrap();
    let last = checkpoint::all(out.path()).unwrap().pop().unwrap();
    // A critic whose errors have no square.
    let network = last.join("network-0000.safetensors");
    let mut broken = Learner::load(&fs::read(&network).unwrap()).unwrap().network().clone();
    let (actor, critic) = (broken.parameters().0.to_vec(), vec![1e30; broken.parameters().1.len()]);
    broken.set_parameters(&actor, &critic).unwrap();
    fs::write(&network, Learner::from_network(broken, 1).save().unwrap()).unwrap();
    let before = outcome(&last);
    let error = format!("{:#}", train(&settings, out.path(), true, None, None).unwrap_err());
    for part in ["the last good checkpoint is", last.to_str().unwrap(), "episode 2", "all agents"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(outcome(&last) == before && checkpoint::all(out.path()).unwrap() == [last]);
}

#[test]
fn the_older_name_of_a_setting_is_understood() {
    let sharing = |text: &str| settings(&format!("[learner]\n{text}")).unwrap().config().unwrap().sharing;
    assert_eq!(sharing("shared_network = true"), Sharing::Pool);
    assert_eq!(sharing("shared_network = false"), Sharing::None);
}

#[test]
fn a_preset_is_taken_as_it_is_but_for_what_the_file_changes() {
    for name in ["default", "paper", "paper-cpq-rl", "simppo-all"] {
        let preset = meanfield_learner::Config::preset(name).unwrap();
        let read = |more: &str| settings(&format!("preset = {name:?}\n[learner]\n{more}")).unwrap().config().unwrap();
        assert_eq!(read(""), preset);
        assert_eq!(read("gamma = 0.5"), meanfield_learner::Config { gamma: 0.5, ..preset });
    }
}

#[test]
fn training_stops_when_nothing_becomes_better() {
    let curve = |rewards: &[f64]| -> Vec<Progress> {
        rewards.iter().map(|&reward| Progress { reward, ..Progress::default() }).collect()
    };
    let stop = Stop { window: 2, patience: 3 };
    assert!(!stale(&curve(&[1.0, 1.0, 1.0, 1.0]), &stop), "too early to say");
    assert!(stale(&curve(&[1.0, 1.0, 0.5, 0.7, 0.6]), &stop));
    assert!(!stale(&curve(&[1.0, 1.0, 0.5, 0.7, 1.6]), &stop));
}

#[test]
fn what_cannot_be_trained_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let workload = folder.path().join("shop.toml");
    let good = include_str!("../../../simulator/data/functions/base64.toml");
    let (before, _) = good.split_once("margin = ").unwrap();
    fs::write(&workload, format!("{before}margin = -1.0\n")).unwrap();
    let file = format!("[scenario]\nworkloads = [{:?}]", workload.display().to_string());
    for (text, parts) in [
        ("[learner]\ngamma = 1.5", &["learner.gamma", "1.5", "[0, 1]"][..]),
        ("[learner]\ngamma = nan", &["learner.gamma", "NaN", "finite"]),
        ("[learner]\nmax_gradient_norm = inf", &["learner.max_gradient_norm", "inf", "finite"]),
        ("[learner]\nreward = { kind = \"paper\", alpha = nan }", &["learner.reward.alpha", "NaN"]),
        ("[scenario]\nweights = [1.0, 0.0]", &["scenario.weights", "0", "[0.001, 1000]"]),
        ("[learner]\nteam_weighted = true\nteam_share = 0.0", &["learner.team_weighted", "true", "team_share"]),
        ("[scenario]\ndemand = nan", &["scenario.demand", "NaN"]),
        (
            "[learner]\nshared_network = true\nsharing = \"none\"",
            &["learner.shared_network", "true", "sharing = \"none\""],
        ),
        ("[learner]\nheads = []", &["learner.heads", "1 to 8"]),
        ("[learner]\nheads = [3, 3]", &["learner.heads", "[3, 3]"]),
        ("[learner]\ngama = 0.5", &["gama"]),
        ("preset = \"simpo\"", &["simpo", "simppo-all"]),
        ("episodes = 0", &["episodes", "from 1"]),
        ("[scenario]\nagents = 0", &["agents", "0"]),
        ("[scenario]\nloads = []", &["scenario.loads", "at least one"]),
        ("[scenario]\nloads = [\"flat\"]", &["flat"]),
        ("[scenario]\ndemand = 0.0", &["scenario.demand"]),
        ("[scenario]\nworkloads = [\"/nowhere.toml\"]", &["/nowhere.toml"]),
        (file.as_str(), &["slo", "-1"]),
        ("episode = 3", &["training.toml:1", "episode"]),
    ] {
        let error = format!("{:#}", settings(text).unwrap_err());
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
}
