//! Defaults < configuration file < environment < flags.
//!
//! Flags and environment are clap's. A configuration file becomes new defaults of the same arguments, so that there is
//! one list of keys, one set of checks and one text of help.

use std::{collections::BTreeMap, ffi::OsString, fs, path::PathBuf};

use clap::{ArgAction, CommandFactory, FromArgMatches, error::ErrorKind};
use clap_complete::Shell;
use meanfield_coordinator::access::blank;
use toml::Value;

use crate::args::{Cli, Command};

/// Why there is nothing to run.
pub enum Stop {
    /// Help or version was asked for and printed.
    Shown,
    /// Something is wrong with the configuration; one line says what.
    Bad(String),
}

type Sections = BTreeMap<String, BTreeMap<String, Value>>;

/// The command with all its settings.
pub fn load() -> Result<Command, Stop> {
    parse(std::env::args_os().collect())
}

fn parse(arguments: Vec<OsString>) -> Result<Command, Stop> {
    let mut command = Cli::command();
    if let Some(path) = file(&arguments) {
        command = with_file(command, &path).map_err(Stop::Bad)?;
    }
    let matches = command.try_get_matches_from(arguments).map_err(|error| stop(&error))?;
    Ok(Cli::from_arg_matches(&matches).map_err(|error| stop(&error))?.command)
}

/// Prints a completion script.
pub fn completions(shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "meanfield", &mut script);
    say!("{}", String::from_utf8_lossy(&script).trim_end());
}

/// The configuration file, which must be known before the arguments can be read.
fn file(arguments: &[OsString]) -> Option<PathBuf> {
    let mut arguments = arguments.iter().skip(1);
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        if text == "--config" {
            return arguments.next().map(PathBuf::from);
        }
        if let Some(path) = text.strip_prefix("--config=") {
            return Some(path.into());
        }
    }
    std::env::var_os("MEANFIELD_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn with_file(mut command: clap::Command, path: &PathBuf) -> Result<clap::Command, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        // In bytes: a span may begin within a character.
        let before = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(before).filter(|&byte| byte == b'\n').count() + 1;
        format!("{name}:{line}: {}", error.message().trim())
    })?;
    let mut sections = Sections::new();
    collect(&command, "", &table, &mut sections).map_err(|line| format!("{name}: {line}"))?;
    for (section, keys) in sections {
        let Some(known) = find(&command, &section) else { continue };
        for key in keys.keys() {
            check_key(known, &section, key).map_err(|line| format!("{name}: {line}"))?;
        }
        for (key, value) in keys {
            let values = plain(&value).map_err(|kind| format!("{name}: {section}.{key}: {kind}"))?;
            let id = key.replace('-', "_");
            check_value(&command, &section, &id, &values).map_err(|line| format!("{name}: {section}.{key}: {line}"))?;
            command = with_default(command, &section, &id, values);
        }
    }
    Ok(command)
}

/// The sections of a table: one a command, and within a command that has commands of its own, one for each of those.
fn collect(command: &clap::Command, outer: &str, table: &toml::Table, sections: &mut Sections) -> Result<(), String> {
    for (name, value) in table {
        let path = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
        let Value::Table(keys) = value else { return Err(format!("{path} stands outside of a section")) };
        match command.find_subcommand(name) {
            Some(inner) if inner.has_subcommands() => collect(inner, &path, keys, sections)?,
            Some(_) => drop(sections.insert(path, keys.clone().into_iter().collect())),
            None => {
                let commands: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
                return Err(format!("unknown section [{path}]; sections are {}", commands.join(", ")));
            }
        }
    }
    Ok(())
}

/// The command of a section.
fn find<'a>(command: &'a clap::Command, section: &str) -> Option<&'a clap::Command> {
    section.split('.').try_fold(command, |command, name| command.find_subcommand(name))
}

fn with_default(command: clap::Command, section: &str, id: &str, values: Vec<String>) -> clap::Command {
    let (name, inner) = section.split_once('.').unwrap_or((section, ""));
    command.mut_subcommand(name, |command| match inner {
        "" => command.mut_arg(id, |argument| argument.default_values(values)),
        _ => with_default(command, inner, id, values),
    })
}

fn check_key(command: &clap::Command, section: &str, key: &str) -> Result<(), String> {
    let keys: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    if keys.contains(&key) && key != "config" {
        return Ok(());
    }
    Err(format!("unknown key {section}.{key}; keys of [{section}] are {}", keys.join(", ")))
}

/// Tries a value on its own, so that the error names the file and not a flag that nobody gave.
fn check_value(command: &clap::Command, section: &str, id: &str, values: &[String]) -> Result<(), String> {
    let known = find(command, section).and_then(|command| command.get_arguments().find(|a| a.get_id() == id));
    let Some(argument) = known else { return Ok(()) };
    let flag = matches!(argument.get_action(), ArgAction::SetTrue);
    let trial = if flag {
        // A flag takes no value on the command line.
        let boolean = values.iter().all(|value| value == "true" || value == "false");
        return if boolean { Ok(()) } else { Err(format!("{:?} is not true or false", values.join(","))) };
    } else {
        let argument = argument.clone().env(None::<&str>);
        clap::Command::new("trial").no_binary_name(true).arg(argument)
    };
    let words = values.iter().map(|value| format!("--{}={value}", id.replace('_', "-")));
    trial.try_get_matches_from(words).map(drop).map_err(|error| one_line(&error))
}

/// A TOML value as the words that a flag would take.
fn plain(value: &Value) -> Result<Vec<String>, &'static str> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Boolean(flag) => Ok(vec![flag.to_string()]),
        Value::Array(items) => {
            items.iter().map(plain).collect::<Result<Vec<_>, _>>().map(|items| items.into_iter().flatten().collect())
        }
        Value::Table(_) => Err("a table is not a value"),
        Value::Datetime(_) => Err("a date is not a value"),
    }
}

fn stop(error: &clap::Error) -> Stop {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nothing can be done about a closed standard output.
            let _ = error.print();
            if error.exit_code() == 0 { Stop::Shown } else { Stop::Bad("a command is needed; see --help".to_owned()) }
        }
        _ => Stop::Bad(one_line(error)),
    }
}

/// The first paragraph of clap's message on one line; the rest is hints and usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let line = lines.collect::<Vec<_>>().join(" ");
    // clap repeats what was given, and that may be a token that was put where none belongs.
    blank(line.strip_prefix("error: ").unwrap_or(&line).to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(file: &str, flags: &[&str]) -> Result<Command, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("meanfield.toml");
        fs::write(&path, file).unwrap();
        let mut arguments: Vec<OsString> = ["meanfield", "coordinator", "--config"].map(OsString::from).to_vec();
        arguments.push(path.into());
        arguments.extend(flags.iter().map(OsString::from));
        parse(arguments).map_err(|stop| match stop {
            Stop::Shown => "shown".to_owned(),
            Stop::Bad(line) => line,
        })
    }

    fn coordinator(file: &str, flags: &[&str]) -> crate::args::CoordinatorArgs {
        match load(file, flags) {
            Ok(Command::Coordinator(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_file_stands_between_defaults_and_flags() {
        let file =
            "[coordinator]\nlisten = \"127.0.0.1:1\"\npools = [\"a\", \"b\"]\nmax-body = 4096\n[demo]\nquick = true";
        let args = coordinator(file, &[]);
        assert_eq!((args.listen.port(), args.pools.len(), args.serving.max_body), (1, 2, 4096));
        assert_eq!(args.grace.as_secs(), 10, "the default stays");
        assert_eq!(coordinator(file, &["--listen", "127.0.0.1:2"]).listen.port(), 2, "a flag wins");
    }

    #[test]
    fn what_is_wrong_is_named_in_one_line() {
        for (file, flags, parts) in [
            ("[coordinator]\nlisten = \"nowhere\"", &[][..], &["meanfield.toml: coordinator.listen: ", "nowhere"][..]),
            ("[coordinator]\nlisen = 1", &[], &["unknown key coordinator.lisen", "listen"]),
            ("[cordinator]\nlisten = 1", &[], &["unknown section [cordinator]", "coordinator"]),
            ("listen = 1", &[], &["listen stands outside of a section"]),
            ("[coordinator", &[], &["meanfield.toml:1: "]),
            ("[demo]\nquick = \"maybe\"", &[], &["demo.quick", "maybe"]),
            ("[demo]\nagents = 1", &[], &["demo.agents", "1"]),
            ("", &["--grace", "soon"], &["--grace", "soon"]),
            ("", &["--lisen", "x"], &["--lisen"]),
            ("", &["--pools", "A"], &["--pools", "a-z"]),
        ] {
            let line = load(file, flags).unwrap_err();
            assert!(!line.contains('\n') && parts.iter().all(|part| line.contains(part)), "{line}");
        }
    }

    #[test]
    fn the_line_is_named_beside_characters_of_several_bytes() {
        for (file, line) in [
            ("[coordinator]\n# \u{e4}\u{20ac}\u{1f980}\nlisten = \u{e4}", ":3: "),
            ("\u{1f980}", ":1: "),
            ("[demo]\nquick = \"\\\u{20ac}\"", ":2: "),
        ] {
            let message = load(file, &[]).unwrap_err();
            assert!(message.contains(&format!("meanfield.toml{line}")), "{file:?}: {message}");
        }
    }

    proptest! {
        /// Whatever a file holds: it is taken, or one line says what is wrong.
        #[test]
        fn any_file_is_taken_or_refused_in_one_line(
            section in "(coordinator|agent|demo|eval\\.layers|ctl\\.agents\\.list|[a-z.]{0,6})",
            key in "(listen|pools|max-body|capacity|suspect-after|config|quick|[a-z-]{0,8})",
            value in "(-?[0-9]{1,20}|[0-9.e+-]{1,8}|true|\"[ -~]{0,12}\"|\\[[0-9a-z\", ]{0,12}\\]|\\{ a = 1 \\}|[ -~\n]{0,16})",
            rest in "[ -~\n\\PC]{0,40}",
        ) {
            let file = format!("[{section}]\n{key} = {value}\n{rest}");
            if let Err(line) = load(&file, &[]) {
                prop_assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
            }
        }
    }
}
