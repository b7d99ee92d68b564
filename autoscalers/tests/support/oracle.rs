//! Compares our decisions with those of an autoscaler's own code.
//!
//! Scenarios are lines of JSON made from a fixed seed. With `MEANFIELD_ORACLES` set to the directory that
//! `tests/oracles/build` fills, the real code answers them now. Without it the answers that it gave before are read from
//! `tests/oracles/vectors`; the file begins with a hash of the scenarios, since answers to other questions prove nothing.
//! The first answers stand there in full, the others as hashes: a wrong rule is wrong often, so it is the first ones that
//! a failure shows.
//! A test includes this file with `#[path = "support/oracle.rs"] mod oracle;`.

#![allow(dead_code)] // each test uses its part

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, BufWriter, Write},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

/// How many answers are committed in full.
const IN_FULL: usize = 200;

/// A question and what our code answers.
pub struct Case {
    /// The scenario: JSON on one line.
    pub scenario: String,
    /// Our answer, written as the oracle writes its own: on one line.
    pub answer: String,
}

/// A seed to try besides the fixed one, from `MEANFIELD_ORACLE_SEED`. Only the real code can answer it.
pub fn fresh_seed() -> Option<u64> {
    let seed = env::var("MEANFIELD_ORACLE_SEED").ok()?;
    assert!(directory().is_some(), "MEANFIELD_ORACLE_SEED asks for answers that only MEANFIELD_ORACLES can give");
    Some(seed.parse().unwrap_or_else(|_| panic!("MEANFIELD_ORACLE_SEED: {seed:?} is not a number")))
}

/// Demands that the oracle `name` answers every case as we do: the real code if it is built, else what it said before.
pub fn compare(name: &str, cases: &[Case]) {
    match directory() {
        Some(directory) => {
            let answers = ask(name, directory, cases);
            differences(name, cases, &in_full(cases), &answers, "real code");
            if env::var_os("MEANFIELD_BLESS").is_some() {
                let committed: Vec<_> = answers.into_iter().enumerate().map(committed).collect();
                let text = format!("{}\n{}\n", heading(cases), committed.join("\n"));
                fs::create_dir_all(vectors(name).parent().unwrap()).unwrap();
                fs::write(vectors(name), text).unwrap();
            }
        }
        None => {
            let text = fs::read_to_string(vectors(name))
                .unwrap_or_else(|error| panic!("{}: {error}; {}", vectors(name).display(), regenerate(name)));
            let mut lines = text.lines().map(str::to_owned);
            let drifted = format!("the scenarios are not those of the committed answers; {}", regenerate(name));
            assert_eq!(lines.next().unwrap_or_default(), heading(cases), "{drifted}");
            let ours: Vec<_> = in_full(cases).into_iter().enumerate().map(committed).collect();
            differences(name, cases, &ours, &lines.collect::<Vec<_>>(), "committed answers");
        }
    }
}

/// Demands that the real code answers as we do, when it is at hand. For scenarios without committed answers.
pub fn compare_now(name: &str, cases: &[Case]) {
    if let Some(directory) = directory() {
        differences(name, cases, &in_full(cases), &ask(name, directory, cases), "real code");
    }
}

/// How many scenarios exercised which rule.
#[derive(Default)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    /// Counts the rules that one scenario exercised, each once, however often it did.
    pub fn count(&mut self, rules: impl IntoIterator<Item = &'static str>) {
        let mut rules: Vec<_> = rules.into_iter().collect();
        rules.sort_unstable();
        rules.dedup();
        for rule in rules {
            *self.0.entry(rule).or_default() += 1;
        }
    }

    /// Prints the counts; fails unless each of `rules` was exercised at least `least` times, and nothing else was.
    pub fn demand(&self, rules: &[&'static str], least: u64) {
        for rule in rules {
            println!("{:>7}  {rule}", self.0.get(rule).unwrap_or(&0));
        }
        let unknown: Vec<_> = self.0.keys().filter(|rule| !rules.contains(rule)).collect();
        assert!(unknown.is_empty(), "counted, but not listed: {unknown:?}");
        let hollow: Vec<_> = rules.iter().filter(|rule| self.0.get(*rule).unwrap_or(&0) < &least).collect();
        assert!(hollow.is_empty(), "exercised fewer than {least} times: {hollow:?}");
    }
}

fn directory() -> Option<OsString> {
    env::var_os("MEANFIELD_ORACLES").filter(|directory| !directory.is_empty())
}

fn vectors(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/oracles/vectors").join(name).with_extension("txt")
}

fn regenerate(name: &str) -> String {
    format!(
        "to have the real code answer anew: tests/oracles/build {name} && MEANFIELD_BLESS=1 \
         MEANFIELD_ORACLES=$PWD/target/oracles cargo test -p meanfield-autoscalers --test {name}_oracle"
    )
}

/// The first line of the committed answers.
fn heading(cases: &[Case]) -> String {
    let scenarios = cases.iter().flat_map(|case| case.scenario.bytes().chain([b'\n']));
    format!("# answers to {} scenarios with hash {:016x}, {IN_FULL} in full", cases.len(), hash(scenarios))
}

/// The line of the committed answers for an answer and its place.
fn committed((index, answer): (usize, String)) -> String {
    if index < IN_FULL { answer } else { format!("{:016x}", hash(answer.bytes())) }
}

/// FNV-1a: it has to notice a change, not an attack.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn ask(name: &str, directory: OsString, cases: &[Case]) -> Vec<String> {
    let program = PathBuf::from(directory).join(name);
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; build it: tests/oracles/build {name}", program.display()));
    let mut questions = BufWriter::new(child.stdin.take().unwrap());
    let answers = BufReader::new(child.stdout.take().unwrap());
    // From a thread of its own: the oracle answers while it is still being asked, and pipes are short.
    let answers = thread::scope(|scope| {
        scope.spawn(move || {
            for case in cases {
                // An oracle that dies is reported below, by its exit code and by the answers that are missing.
                if writeln!(questions, "{}", case.scenario).is_err() {
                    return;
                }
            }
            let _ = questions.flush();
        });
        answers.lines().collect::<Result<Vec<_>, _>>().unwrap()
    });
    let status = child.wait().unwrap();
    assert!(status.success(), "{name}: {status} after {} answers", answers.len());
    answers
}

fn in_full(cases: &[Case]) -> Vec<String> {
    cases.iter().map(|case| case.answer.clone()).collect()
}

/// Our answers and the real ones must be the same, both in full or both as they are committed.
fn differences(name: &str, cases: &[Case], ours: &[String], real: &[String], source: &str) {
    assert_eq!(real.len(), cases.len(), "{name}: answers to every scenario ({source})");
    let differ: Vec<_> = (0..cases.len()).filter(|&index| ours[index] != real[index]).collect();
    println!("{name}: {} scenarios compared, {} differ ({source})", cases.len(), differ.len());
    if let Some(&first) = differ.first() {
        let Case { scenario, answer } = &cases[first];
        let hint = if ours[first] == *answer {
            String::new()
        } else {
            format!(" is its hash, ours is {}; build the oracle to see it: tests/oracles/build {name}", ours[first])
        };
        panic!(
            "{name}: {} of {} scenarios differ from the {source}; the first is number {first}:\n{scenario}\n\
             ours: {answer}\nreal: {}{hint}",
            differ.len(),
            cases.len(),
            real[first]
        );
    }
}
