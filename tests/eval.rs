//! The experiments: complete reports, the same bytes on any number of threads, and nothing computed twice.

use std::{fs, path::Path, time::SystemTime};

use serde_json::Value;
use tempfile::tempdir;

use crate::support::Process;

/// Runs an experiment to its end and gives what it printed.
fn run(report: &Path, flags: &[&str]) -> String {
    let folder = ["--report", report.to_str().unwrap()];
    let mut process = Process::start(&[&["eval"], flags, &folder].concat());
    assert_eq!(process.wait().code(), Some(0), "{}", process.log());
    process.output()
}

fn changed(report: &Path) -> Vec<SystemTime> {
    let cells = fs::read_dir(report.join("cells")).unwrap().map(|cell| cell.unwrap().metadata().unwrap());
    let mut times: Vec<_> = cells.map(|cell| cell.modified().unwrap()).collect();
    times.sort();
    times
}

#[test]
#[ignore = "minutes long in a debug build: tests/run starts it with a release build"]
fn baselines_are_complete_resumed_and_the_same_on_any_number_of_threads() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let flags = ["baselines", "--seeds", "1", "--traces", "steady", "--model", "fluid"];
    let output = run(one.path(), &[&flags[..], &["--threads", "1"]].concat());
    println!("{output}");
    let policies =
        ["HPA on CPU + VPA (0.8)", "HPA on CPU + VPA, tuned", "KPA, tuned", "AIMD", "ENSURE-Util", "clairvoyant"];
    for part in policies.into_iter().chain(["requests %", "OOM/h", "Simulated", "baselines.md"]) {
        assert!(output.contains(part), "{part} is missing:\n{output}");
    }

    run(two.path(), &[&flags[..], &["--threads", "3"]].concat());
    for file in ["baselines.md", "baselines.csv", "baselines.json", "baselines.svg"] {
        let [one, two] = [&one, &two].map(|report| fs::read(report.path().join(file)).unwrap());
        assert!(one == two, "{file} depends on the number of threads");
    }

    let before = changed(one.path());
    assert_eq!(run(one.path(), &flags), output, "what is there is taken as it is");
    assert_eq!(changed(one.path()), before, "nothing was computed again");

    let json: Value = serde_json::from_slice(&fs::read(one.path().join("baselines.json")).unwrap()).unwrap();
    let entries = json["entries"].as_array().unwrap();
    assert!(entries.len() >= 18 && json["simulated"] == true);
    // Whoever knows the load keeps the objective, and cheaply; whoever stands still pays more or misses more.
    let total = |kind: &str, key: &str| {
        let entry = entries.iter().find(|entry| entry["contestant"]["kind"] == kind).unwrap();
        entry["result"]["total"][key].as_f64().unwrap()
    };
    assert!(total("clairvoyant", "slo_violation_rate_windows") < 0.02);
    assert!(total("clairvoyant", "cost_cores") < total("best-static", "cost_cores"));
    for entry in entries {
        assert_eq!(entry["result"]["functions"].as_array().unwrap().len(), 12);
    }
}

#[test]
#[ignore = "seconds in a release build, which tests/run starts it with, but a minute without"]
fn forecasts_are_complete_and_the_same_on_any_number_of_threads() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let flags = ["forecast", "--quick", "--seeds", "1", "--traces", "steady,diurnal"];
    let output = run(one.path(), &[&flags[..], &["--threads", "1"]].concat());
    println!("{output}");
    for part in ["naive", "Holt", "ETS", "MSTL", "network as shipped", "covered 90 %", "forecast.md"] {
        assert!(output.contains(part), "{part} is missing:\n{output}");
    }
    run(two.path(), &[&flags[..], &["--threads", "3"]].concat());
    for file in ["forecast.md", "forecast.json", "forecast.svg"] {
        let [one, two] = [&one, &two].map(|report| fs::read(report.path().join(file)).unwrap());
        assert!(one == two, "{file} depends on the number of threads");
    }

    let json: Value = serde_json::from_slice(&fs::read(one.path().join("forecast.json")).unwrap()).unwrap();
    let loss = |who: &str, preset: &str| {
        let entries = json.as_array().unwrap().iter();
        let mut of = entries.filter(|entry| entry["job"]["who"] == who && entry["job"]["preset"] == preset);
        of.next().unwrap()["figures"]["loss"][0].as_f64().unwrap()
    };
    // Whoever smooths or has learnt is better than whoever takes the last rate for the next.
    for who in ["holt", "ets", "raw"] {
        for preset in ["steady", "diurnal"] {
            assert!(loss(who, preset) < loss("naive", preset), "{who} on {preset}");
        }
    }
}

#[test]
#[ignore = "a minute or two in a release build, which tests/run starts it with, but many without"]
fn layers_on_recorded_days_are_complete_and_the_same_on_any_number_of_threads() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let recorded = one.path().join("recorded.csv");
    let recorded = recorded.to_str().unwrap();
    let synth = ["trace", "synth", "--preset", "worldcup", "--mean", "20", "--days", "3", "--output", recorded];
    assert_eq!(Process::start(&synth).wait().code(), Some(0));

    let flags = ["layers", "--quick", "--recorded", recorded, "--model", "fluid"];
    let output = run(one.path(), &[&flags[..], &["--threads", "1"]].concat());
    println!("{output}");
    for part in [
        "HPA on CPU + VPA, tuned",
        "queue model, price matched",
        "queue model + forecast (100)",
        "queue model + forecast + PPO, gated (100)",
        "queue model + forecast + PPO, ungated (100)",
        "recorded.csv",
    ] {
        assert!(output.contains(part), "{part} is missing:\n{output}");
    }
    run(two.path(), &[&flags[..], &["--threads", "3"]].concat());
    for file in ["layers.md", "layers.csv", "layers.json", "layers.svg"] {
        let [one, two] = [&one, &two].map(|report| fs::read(report.path().join(file)).unwrap());
        assert!(one == two, "{file} depends on the number of threads");
    }

    let json: Value = serde_json::from_slice(&fs::read(one.path().join("layers.json")).unwrap()).unwrap();
    let figure = |kind: &str, key: &str| {
        let mut entries = json["entries"].as_array().unwrap().iter();
        let entry = entries.find(|entry| entry["contestant"]["kind"] == kind).unwrap();
        entry["result"]["total"][key].as_f64().unwrap()
    };
    // Who plans with what it has measured earns more than who follows a target, even a tuned one.
    assert!(figure("plan-forecast", "reward") > figure("hpa-cpu", "reward"));
    assert!(figure("plan-known2", "cpu_reserved_cores") < figure("hpa-cpu", "cpu_reserved_cores"));
}

#[test]
fn experiments_refuse_what_makes_no_sense() {
    let report = tempdir().unwrap();
    let refused = |flags: &[&str]| {
        let folder = ["--report", report.path().to_str().unwrap()];
        let mut process = Process::start(&[&["eval", "layers", "--quick"], flags, &folder].concat());
        assert_ne!(process.wait().code(), Some(0));
        process.log()
    };
    assert!(refused(&["--limits", "0.5"]).contains("--limits: 0.5 is not within [1, 100]"));
    assert!(refused(&["--recorded", "nowhere.csv"]).contains("nowhere.csv"));
    let short = report.path().join("short.csv");
    fs::write(&short, "time,requests\n0,5\n60,6\n120,7\n").unwrap();
    assert!(refused(&["--recorded", short.to_str().unwrap()]).contains("usable days: 0 is not at least 2"));
}

#[test]
#[ignore = "seconds in a release build, which tests/run starts it with, but a minute without"]
fn regimes_are_complete_the_same_on_any_number_of_threads_and_grants_help_in_overload() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let flags = ["regimes", "--quick", "--seeds", "5", "--model", "fluid"];
    let output = run(one.path(), &[&flags[..], &["--threads", "1"]].concat());
    println!("{output}");
    for part in [
        "roomy",
        "overload",
        "queue model + grants",
        "queue model + forecast + grants",
        "learner + headroom in g",
        "central",
        "Simulated",
    ] {
        assert!(output.contains(part), "{part} is missing:\n{output}");
    }
    run(two.path(), &[&flags[..], &["--threads", "3"]].concat());
    for file in ["regimes.md", "regimes.csv", "regimes.json", "regimes.svg"] {
        let [one, two] = [&one, &two].map(|report| fs::read(report.path().join(file)).unwrap());
        assert!(one == two, "{file} depends on the number of threads");
    }

    let json: Value = serde_json::from_slice(&fs::read(one.path().join("regimes.json")).unwrap()).unwrap();
    let entries = json["entries"].as_array().unwrap();
    let violations = |regime: &str, coordination: &str| {
        let days = entries.iter().filter(|entry| {
            let rule = &entry["job"]["player"]["rule"];
            entry["job"]["regime"] == regime
                && rule["contestant"]["kind"] == "plan-forecast"
                && rule["coordination"] == coordination
        });
        let rates: Vec<_> =
            days.map(|day| day["result"]["total"]["slo_violation_rate_windows"].as_f64().unwrap()).collect();
        assert_eq!(rates.len(), 5);
        rates.iter().sum::<f64>() / 5.0
    };
    // The same days for both, so the difference is the grants' doing; two would be too few where hardly anything is missed.
    assert!(violations("overload", "grants") < 0.75 * violations("overload", "none"));
    assert!(violations("roomy", "grants") < 1.25 * violations("roomy", "none"));
}
