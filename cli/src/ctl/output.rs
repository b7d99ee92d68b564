//! Answers on the terminal: tables for people, JSON and YAML for programs.

use comfy_table::CellAlignment;
use serde_json::{Value, json};

use super::{args::Format, yaml};
use crate::table::table;

/// A column: its header, and where its values are.
pub type Column = (&'static str, &'static str);

/// Many things of a kind: `pointer` leads to them, and in JSON and YAML the whole answer is shown.
pub fn list(format: Format, answer: &Value, pointer: &str, columns: &[Column]) {
    if format != Format::Table {
        return whole(format, answer);
    }
    let rows = answer.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let cells = |row: &Value| columns.iter().map(|(_, at)| cell(row.pointer(at).unwrap_or(&Value::Null))).collect();
    print(columns.iter().map(|(name, _)| (*name).to_owned()).collect(), rows.iter().map(cells).collect());
    if !answer["next"].is_null() {
        eprintln!("there are more than these {}: see --limit", rows.len());
    }
}

/// One thing: a line for each of its values.
pub fn detail(format: Format, answer: &Value) {
    if format != Format::Table {
        return whole(format, answer);
    }
    let mut rows = Vec::new();
    flatten("", answer, &mut rows);
    print(vec!["FIELD".to_owned(), "VALUE".to_owned()], rows);
}

/// What the coordinator answered to a change, with the new entity tag: nothing, what would happen, or what was made.
pub fn changed(format: Format, (mut answer, tag): (Value, Option<String>)) {
    if answer.is_null() {
        return match (format, &tag) {
            (Format::Table, Some(tag)) => say!("done, entity tag {tag}"),
            (Format::Table, None) => say!("done"),
            (format, tag) => whole(format, &json!({ "done": true, "etag": tag })),
        };
    }
    if answer["dry_run"] == Value::Bool(true) {
        return tried(format, &answer);
    }
    if let (Some(tag), Some(fields)) = (tag, answer.as_object_mut()) {
        fields.insert("etag".to_owned(), tag.into());
    }
    detail(format, &answer);
}

/// A change that was only tried.
fn tried(format: Format, ordered: &Value) {
    if format != Format::Table {
        return whole(format, ordered);
    }
    let part = |name: &str| cell(&ordered[name]);
    if ordered["changed"] == Value::Bool(true) {
        say!("would do {} to {}: {} becomes {}", part("action"), part("target"), part("before"), part("after"));
    } else {
        say!("would do {} to {}, and change nothing: it is {}", part("action"), part("target"), part("before"));
    }
}

/// All of an answer, for programs.
pub fn whole(format: Format, answer: &Value) {
    match format {
        Format::Yaml => say!("{}", yaml::text(answer).trim_end()),
        _ => say!("{}", serde_json::to_string_pretty(answer).unwrap_or_default()),
    }
}

/// One of many answers that come one by one: a line, or a document.
pub fn one(format: Format, answer: &Value) {
    match format {
        Format::Yaml => say!("---\n{}", yaml::text(answer).trim_end()),
        _ => say!("{answer}"),
    }
}

/// A value in a few letters.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64().filter(|value| value.fract() != 0.0) {
            Some(value) => format!("{value:.3}"),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn flatten(name: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    let join = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(object) if !object.is_empty() => {
            object.iter().for_each(|(key, value)| flatten(&join(key), value, rows));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(at, value)| flatten(&join(&at.to_string()), value, rows));
        }
        Value::Array(_) | Value::Object(_) => rows.push(vec![name.to_owned(), "-".to_owned()]),
        other => rows.push(vec![name.to_owned(), cell(other)]),
    }
}

fn print(header: Vec<String>, rows: Vec<Vec<String>>) {
    let mut table = table(header, rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Left);
    }
    let text = table.to_string();
    // Nobody wants blanks behind the last column in a file.
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    say!("{}", lines.join("\n"));
}
