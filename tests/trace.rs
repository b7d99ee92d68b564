//! `meanfield trace` from outside: made, read again, described, drawn; and files that are refused.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::{command_line::printed, support::Process};

#[test]
fn a_made_trace_is_described_imported_and_drawn() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (csv, again, svg) = (path("made.csv"), path("again.csv"), path("made.svg"));
    let synth = ["trace", "synth", "--preset", "worldcup", "--mean", "50", "--days", "0.5", "--series", "2"];
    assert_eq!(printed(&[&synth[..], &["--output", &csv]].concat()), "");
    assert_eq!(printed(&synth), fs::read_to_string(&csv).unwrap(), "the same seed gives the same file");

    let figures: Value = serde_json::from_str(&printed(&["trace", "describe", &csv, "--json"])).unwrap();
    assert_eq!(figures["series"][1]["name"], "worldcup-2");
    assert_eq!(figures["sum"]["intervals"], 2880);
    let table = printed(&["trace", "describe", &csv]);
    assert!(["worldcup-1", "median", "sum of 2", "peak/mean"].iter().all(|part| table.contains(part)), "{table}");

    assert_eq!(printed(&["trace", "import", &csv, "--output", &again]), "");
    assert_eq!(fs::read(&again).unwrap(), fs::read(&csv).unwrap());
    assert_eq!(printed(&["trace", "plot", &csv, "--series", "2", "--output", &svg]), "");
    let drawing = fs::read_to_string(&svg).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("worldcup-2"));
}

#[test]
fn a_malformed_file_is_refused_with_its_place_and_a_mended_one_is_said() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("bad.csv").to_str().unwrap().to_owned();
    fs::write(&path, "time,requests\n0,1\n60,many\n").unwrap();
    let mut process = Process::start(&["trace", "describe", &path]);
    assert_eq!((process.wait().code(), process.output().as_str()), (Some(1), ""));
    assert_eq!(process.log(), format!("meanfield: {path}:3:2: \"many\" is not a number\n"));

    fs::write(&path, "time,requests\n0,1\n60,1\n120,1\n240,4\n").unwrap();
    let mut process = Process::start(&["trace", "import", &path]);
    assert_eq!(process.wait().code(), Some(0));
    let note = format!("meanfield: {path}: 1 missing intervals filled on a straight line, first at line 5\n");
    assert_eq!(process.log(), note);
    assert_eq!(
        process.output(),
        "series,time,requests\nrequests,0,1\nrequests,60,1\nrequests,120,1\nrequests,180,2.5\nrequests,240,4\n"
    );
}
