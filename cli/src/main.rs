//! The `meanfield` binary: composes coordinator, agents, simulator and learner.
//!
//! Configuration is layered: defaults, then the configuration file, then the environment, then flags. What is wrong
//! with it is said in one line, and the exit code is then 64; anything that fails later exits with 1.

/// A line of result on standard output. Whoever stopped reading has read enough: that is no reason to fail.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

mod agent;
mod args;
mod bench;
mod config;
mod contest;
mod coordinator;
mod ctl;
mod demo;
mod eval;
mod file;
mod in_process;
mod loadgen;
mod plot;
mod progress;
mod score;
mod signals;
mod table;
mod telemetry;
mod trace;
mod train;

use std::process::ExitCode;

use args::Command;

/// The exit code of a usage error (EX_USAGE of sysexits).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let command = match config::load() {
        Ok(command) => command,
        Err(config::Stop::Shown) => return ExitCode::SUCCESS,
        Err(config::Stop::Bad(line)) => {
            eprintln!("meanfield: {line}");
            return ExitCode::from(USAGE);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("meanfield: {error:#}");
            let usage = error.chain().any(|cause| cause.is::<meanfield_common::invalid::Invalid>());
            ExitCode::from(ctl::exit_code(&error).unwrap_or(if usage { USAGE } else { 1 }))
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Coordinator(args) => coordinator::run(args),
        Command::Agent(args) => agent::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Loadgen(args) => loadgen::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Completions(args) => {
            config::completions(args.shell);
            Ok(())
        }
    }
}
