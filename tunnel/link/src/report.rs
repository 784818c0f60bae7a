//! What an end tells of itself: names with values, and lists of such; as lines (which are TOML) or as JSON.

use std::fmt::Write as _;

enum Value {
    Text(String),
    Number(u64),
    Truth(bool),
}

/// Names with values, in order, then lists. A name that comes again keeps its place and takes the new value.
#[derive(Default)]
pub struct Report {
    fields: Vec<(String, Value)>,
    lists: Vec<(&'static str, Vec<Report>)>,
}

impl Report {
    fn set(&mut self, name: &str, value: Value) {
        match self.fields.iter_mut().find(|field| field.0 == name) {
            Some(field) => field.1 = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    /// A text.
    pub fn text_of(&mut self, name: &str, value: &str) {
        self.set(name, Value::Text(value.to_owned()));
    }

    /// A count.
    pub fn number(&mut self, name: &str, value: u64) {
        self.set(name, Value::Number(value));
    }

    /// True or false.
    pub fn truth(&mut self, name: &str, value: bool) {
        self.set(name, Value::Truth(value));
    }

    /// Everything of another one.
    pub fn append(&mut self, other: Report) {
        for (name, value) in other.fields {
            self.set(&name, value);
        }
        self.lists.extend(other.lists);
    }

    /// One more of a list.
    pub fn items(&mut self, list: &'static str, one: Report) {
        match self.lists.iter_mut().find(|held| held.0 == list) {
            Some(held) => held.1.push(one),
            None => self.lists.push((list, vec![one])),
        }
    }

    /// Lines of `name = value`; each of a list after a line `[[list]]`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.lines(&mut text);
        for (name, list) in &self.lists {
            for one in list {
                let _ = writeln!(text, "\n[[{name}]]"); // writing to a String cannot fail
                one.lines(&mut text);
            }
        }
        text
    }

    fn lines(&self, text: &mut String) {
        for (name, value) in &self.fields {
            let _ = writeln!(text, "{name} = {}", shown(value));
        }
    }

    /// One object, on one line.
    #[must_use]
    pub fn json(&self) -> String {
        self.object() + "\n"
    }

    fn object(&self) -> String {
        let fields = self.fields.iter();
        let mut parts: Vec<String> = fields
            .map(|(name, value)| format!("\"{name}\":{}", shown(value)))
            .collect();
        for (name, list) in &self.lists {
            let objects: Vec<String> = list.iter().map(Self::object).collect();
            parts.push(format!("\"{name}\":[{}]", objects.join(",")));
        }
        format!("{{{}}}", parts.join(","))
    }
}

/// The same in TOML and JSON: quotes, backslashes and control characters are escaped.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Truth(truth) => truth.to_string(),
        Value::Text(text) => {
            let mut quoted = String::from('"');
            for one in text.chars() {
                match one {
                    '"' | '\\' => quoted.extend(['\\', one]),
                    one if one.is_control() => {
                        let _ = write!(quoted, "\\u{:04x}", u32::from(one));
                    }
                    one => quoted.push(one),
                }
            }
            quoted.push('"');
            quoted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_json_say_the_same() {
        let (mut report, mut one) = (Report::default(), Report::default());
        report.text_of("role", "gcs");
        report.number("pid", 1);
        report.number("pid", 7);
        one.text_of("name", "a\"\\\n");
        one.truth("handshake_was_rekey", true);
        report.items("drone", one);
        assert_eq!(
            report.text(),
            "role = \"gcs\"\npid = 7\n\n[[drone]]\nname = \"a\\\"\\\\\\u000a\"\nhandshake_was_rekey = true\n"
        );
        assert_eq!(
            report.json(),
            "{\"role\":\"gcs\",\"pid\":7,\"drone\":[{\"name\":\"a\\\"\\\\\\u000a\",\"handshake_was_rekey\":true}]}\n"
        );
    }
}
