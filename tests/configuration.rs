//! docs/configuration.md says what the help says: all of it for every command but those of `ctl`, which have a line each
//! and the options that they share once. `MEANFIELD_BLESS=1` writes the page anew.

use std::{collections::BTreeSet, env, fs};

use crate::{
    command_line::{commands, printed},
    support::root,
};

/// The help of a command, without blanks at the ends of lines.
fn help(command: &str) -> String {
    let words: Vec<_> = command.split(' ').collect();
    let help = printed(&[words.as_slice(), &["--help"]].concat());
    help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The section of a command.
fn section(command: &str) -> String {
    format!("## meanfield {command}\n\n```text\n{}\n```\n", help(command))
}

/// What a help text says, in parts.
struct Parts {
    /// What the command does.
    does: String,
    /// What comes behind its name, `[OPTIONS]` left out.
    takes: String,
    /// The paragraphs of its options, by the line that names them.
    options: Vec<String>,
}

impl Parts {
    fn of(command: &str) -> Self {
        let text = help(command);
        let does = text.split("\n\n").next().unwrap().replace('\n', " ");
        let usage = text.lines().find_map(|line| line.strip_prefix("Usage: meanfield ")).unwrap();
        let takes = usage.strip_prefix(command).unwrap().replace(" [OPTIONS]", "");
        let options = text.split_once("\nOptions:\n").unwrap().1;
        let mut paragraphs: Vec<String> = Vec::new();
        for line in options.lines() {
            let begins =
                line.trim_start().starts_with('-') && line.starts_with("  ") && !line.starts_with("          ");
            match paragraphs.last_mut() {
                Some(last) if !begins => *last = format!("{last}\n{line}"),
                _ => paragraphs.push(line.to_owned()),
            }
        }
        let options = paragraphs.iter().map(|paragraph| paragraph.trim_end().to_owned()).collect();
        Self { does, takes: takes.trim().to_owned(), options }
    }
}

/// The first line of an option's paragraph, as it is typed.
fn typed(option: &str) -> &str {
    let line = option.lines().next().unwrap().trim();
    line.split_once(", ").map_or(line, |(_, long)| long)
}

/// The section of all commands of `ctl`.
fn ctl(commands: &[String]) -> String {
    let parts: Vec<_> = commands.iter().map(|command| Parts::of(command)).collect();
    let of = |parts: &Parts| parts.options.iter().cloned().collect::<BTreeSet<_>>();
    let shared = parts.iter().map(of).reduce(|one, other| &one & &other).unwrap();
    let terms: BTreeSet<_> = &of(&Parts::of("ctl pause on")) - &shared;
    let in_order = |of: &BTreeSet<String>, from: &Parts| {
        let options: Vec<_> = from.options.iter().filter(|option| of.contains(*option)).cloned().collect();
        options.join("\n\n")
    };
    let mut text = "## meanfield ctl\n\n| command | does |\n|---|---|\n".to_owned();
    for (command, parts) in commands.iter().zip(&parts) {
        let mut words = vec![command.clone()];
        words.extend((!parts.takes.is_empty()).then(|| parts.takes.clone()));
        for option in &parts.options {
            // What must be given stands in the usage already.
            let known = shared.contains(option) || terms.contains(option) || parts.takes.contains(typed(option));
            words.extend((!known).then(|| format!("[{}]", typed(option))));
        }
        words.extend(terms.is_subset(&of(parts)).then(|| "[TERMS]".to_owned()));
        text += &format!("| `{}` | {} |\n", words.join(" "), parts.does);
    }
    let example = Parts::of("ctl pause on");
    text += &format!("\nAll of them take these options:\n\n```text\n{}\n```\n", in_order(&shared, &example));
    text += &format!("\n`[TERMS]` are the terms of a change:\n\n```text\n{}\n```\n", in_order(&terms, &example));
    text + "\n`--help` behind any of them explains the rest.\n"
}

#[test]
fn settings_are_documented_as_the_help_says() {
    let (of_ctl, others): (Vec<_>, Vec<_>) = commands().into_iter().partition(|command| command.starts_with("ctl "));
    assert!(of_ctl.len() > 30, "{of_ctl:?}");
    let sections: Vec<_> = others.iter().map(|command| section(command)).chain([ctl(&of_ctl)]).collect();
    let wanted = sections.join("\n");
    let path = root().join("docs/configuration.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, documented) = text.split_once("\n## meanfield ").unwrap();
    if env::var_os("MEANFIELD_BLESS").is_some() {
        fs::write(&path, format!("{head}\n{wanted}")).unwrap();
        return;
    }
    let documented = format!("## meanfield {documented}");
    for (documented, wanted) in documented.lines().zip(wanted.lines()) {
        assert_eq!(documented, wanted, "docs/configuration.md must say what the help says");
    }
    assert!(documented == wanted, "docs/configuration.md has more or fewer lines than the help");
}
