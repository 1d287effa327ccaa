//! The library's figures as JSON or as text, with the same names in both.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::output::Output;

/// Converts figures of the library to JSON.
pub fn facts(of: &impl Serialize) -> Result<Value> {
    serde_json::to_value(of).map_err(|error| Failure::Failed(format!("the result cannot be written as JSON: {error}")))
}

/// Writes one object: with `--json` as it is, otherwise with a line for each of its facts.
pub fn write_list(output: &mut Output, object: &Map<String, Value>) -> Result<()> {
    output.object(object)?;
    let lines = flat(object);
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().try_for_each(|(name, value)| output.line(format_args!("{name:width$}  {value}")))
}

/// Writes one object of many: with `--json` as it is, otherwise with all its facts on one line.
pub fn write_line(output: &mut Output, object: &impl Serialize) -> Result<()> {
    let value = facts(object)?;
    output.object(&value)?;
    match &value {
        Value::Object(object) => {
            let words: Vec<String> = flat(object).iter().map(|(name, value)| format!("{name} {value}")).collect();
            output.line(words.join("  "))
        }
        other => output.line(plain(other)),
    }
}

/// Returns an object's facts by name. The name of a fact of an inner object is the object's name, a point, and the
/// fact's own name. An object in a list is named by its own `name`, or else by its place in the list.
fn flat(object: &Map<String, Value>) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let inside = |name: &str, inner: &Map<String, Value>| {
        let facts = flat(inner).into_iter();
        facts.map(|(rest, value)| (format!("{name}.{rest}"), value)).collect::<Vec<_>>()
    };
    for (name, value) in object {
        match value {
            Value::Object(inner) => lines.extend(inside(name, inner)),
            Value::Array(all) if all.iter().any(Value::is_object) => {
                for (place, inner) in all.iter().filter_map(Value::as_object).enumerate() {
                    let own = inner.get("name").map_or_else(|| place.to_string(), plain);
                    let mut others = inner.clone();
                    others.remove("name");
                    lines.extend(inside(&format!("{name}.{own}"), &others));
                }
            }
            other => lines.push((name.clone(), plain(other))),
        }
    }
    lines
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_string(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_inside_objects_and_lists_become_names_with_points() {
        let Value::Object(object) = json!({
            "b": { "x": 1, "y": ["p", 2] }, "a": null, "c": "t", "d": [{ "name": "n", "z": 3 }], "e": [{ "z": 4 }]
        }) else {
            panic!()
        };
        let mut lines: Vec<String> = flat(&object).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.sort();
        assert_eq!(lines, ["a=-", "b.x=1", "b.y=p 2", "c=t", "d.n.z=3", "e.0.z=4"]);
    }
}
