//! JSON values as YAML: maps and lists by indentation, everything else as JSON writes it, which YAML reads alike.

use serde_json::Value;

/// A document.
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                text.push_str(&format!("{indent}{}:", scalar(&Value::from(key.as_str()))));
                below(value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{indent}-"));
                below(item, depth, text);
            }
        }
        other => text.push_str(&format!("{indent}{}\n", scalar(other))),
    }
}

/// A value behind a key or a dash.
fn below(value: &Value, depth: usize, text: &mut String) {
    let empty = value.as_object().is_some_and(|map| map.is_empty()) || value.as_array().is_some_and(Vec::is_empty);
    if (value.is_object() || value.is_array()) && !empty {
        text.push('\n');
        write(value, depth + 1, text);
    } else {
        text.push_str(&format!(" {}\n", scalar(value)));
    }
}

/// Words stand bare where nothing could take them for something else; the rest is quoted as in JSON.
fn scalar(value: &Value) -> String {
    const TAKEN: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];
    match value {
        Value::String(word) => {
            let plain =
                word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/' | b'.'));
            let starts = word.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
            let taken = TAKEN.iter().any(|taken| word.eq_ignore_ascii_case(taken));
            if plain && starts && !taken { word.clone() } else { value.to_string() }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_and_lists_are_indented_and_what_could_be_misread_is_quoted() {
        let value = json!({
            "agents": [{"name": "shop/cart", "paused": true, "claim": null}, {"name": "yes"}],
            "empty": [], "none": {}, "number": 1.5, "text": "a: b\nc", "version": "1.0", "word": "default"
        });
        let expected = "agents:\n  -\n    claim: null\n    name: shop/cart\n    paused: true\n  -\n    name: \"yes\"\n\
            empty: []\nnone: {}\nnumber: 1.5\ntext: \"a: b\\nc\"\nversion: \"1.0\"\nword: default\n";
        assert_eq!(text(&value), expected);
        assert_eq!(text(&json!("a")), "a\n");
    }
}
