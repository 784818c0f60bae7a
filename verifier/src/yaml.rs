//! The part of YAML in which a run writes its effective scenario, and JSON, which is YAML too.
//!
//! Block mappings and lists, `[]`, `{}`, plain, single and double quoted scalars that may go on in the next lines. No
//! aliases, tags, comments, block scalars or flow collections with something in them: what is written otherwise is an
//! error with its line, never a guess.

use std::path::Path;

use serde_json::{Map, Number, Value};

use crate::json::{parse_object, read_text, short, Object};
use crate::tally::Found;

const MAX_BYTES: u64 = 1 << 20;
const MAX_DEPTH: usize = 50;

pub fn read_object(path: &Path) -> Found<Object> {
    let text = read_text(path, MAX_BYTES)?;
    if text.trim_start().starts_with('{') {
        return parse_object(&text, path);
    }
    match parse(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{}: the top is no mapping", short(path))),
        Err(why) => Err(format!("{}: {why}", short(path))),
    }
}

struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

struct Reader<'a> {
    lines: Vec<Line<'a>>,
    at: usize,
}

fn parse(text: &str) -> Found<Value> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let content = line.trim_start_matches(' ');
        lines.push(Line { number: at + 1, indent: line.len() - content.len(), text: content.trim_end() });
    }
    while lines.last().is_some_and(|line| line.text.is_empty()) {
        lines.pop();
    }
    let mut reader = Reader { lines, at: 0 };
    let value = reader.block(0, 0)?;
    match reader.lines.get(reader.at) {
        None => Ok(value),
        Some(line) => Err(format!("line {}: not expected here", line.number)),
    }
}

impl Reader<'_> {
    fn wrong<T>(&self, why: &str) -> Found<T> {
        let number = self.lines.get(self.at.min(self.lines.len().saturating_sub(1))).map_or(0, |line| line.number);
        Err(format!("line {number}: {why}"))
    }

    /// The block that begins at this line, which is indented by `indent`.
    fn block(&mut self, indent: usize, depth: usize) -> Found<Value> {
        if depth > MAX_DEPTH {
            return self.wrong("nested too deep");
        }
        match self.lines.get(self.at) {
            Some(line) if line.indent == indent && is_item(line.text) => self.list(indent, depth),
            Some(line) if line.indent == indent => self.mapping(indent, depth),
            _ => self.wrong("a block is due"),
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Found<Value> {
        let mut items = Vec::new();
        while let Some(line) = self.lines.get(self.at).filter(|line| line.indent == indent && is_item(line.text)) {
            let rest = line.text[1..].trim_start();
            if rest.is_empty() {
                self.at += 1;
                items.push(self.inner(indent, depth)?);
            } else if is_item(rest) || key_of(rest).is_some() {
                // `- name: x`: a block of its own, which begins behind the dash
                let inner = indent + line.text.len() - rest.len();
                let (number, text) = (line.number, &line.text[line.text.len() - rest.len()..]);
                self.lines[self.at] = Line { number, indent: inner, text };
                items.push(self.block(inner, depth + 1)?);
            } else {
                items.push(self.scalar(rest.to_owned(), indent)?);
            }
        }
        Ok(Value::Array(items))
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Found<Value> {
        let mut members = Map::new();
        while let Some(line) = self.lines.get(self.at).filter(|line| line.indent == indent && !is_item(line.text)) {
            let Some((key, rest)) = key_of(line.text) else {
                return self.wrong("`key: value` is due");
            };
            let rest = rest.to_owned();
            let key = match resolve(&key)? {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                _ => return self.wrong("a key is text"),
            };
            let value = if rest.is_empty() {
                self.at += 1;
                // a list may stand at the indent of its key
                match self.lines.get(self.at) {
                    Some(next) if next.indent == indent && is_item(next.text) => self.list(indent, depth + 1)?,
                    _ => self.inner(indent, depth)?,
                }
            } else {
                self.scalar(rest, indent)?
            };
            if members.insert(key, value).is_some() {
                return self.wrong("a key comes twice");
            }
        }
        Ok(Value::Object(members))
    }

    /// What is indented further than `indent`; nothing there is null.
    fn inner(&mut self, indent: usize, depth: usize) -> Found<Value> {
        match self.lines.get(self.at) {
            Some(line) if line.indent > indent => {
                let further = line.indent;
                self.block(further, depth + 1)
            }
            _ => Ok(Value::Null),
        }
    }

    /// A scalar that begins in this line and may go on in further ones, indented beyond `indent`.
    fn scalar(&mut self, first: String, indent: usize) -> Found<Value> {
        let quote = first.chars().next().filter(|letter| matches!(letter, '"' | '\''));
        // where a quoted scalar ends; nothing of a quote or an escape goes beyond the end of a line
        let mut ended = quote.is_some_and(|quote| end_of(&first, 1, quote).is_some());
        let mut text = first;
        self.at += 1;
        let mut empty = 0;
        while let Some(line) = self.lines.get(self.at).filter(|_| !ended) {
            if line.text.is_empty() {
                empty += 1;
            } else if line.indent > indent {
                // folding: one line end is a blank, each empty line a line end
                let escaped = text.len() - text.trim_end_matches('\\').len();
                if quote == Some('"') && escaped % 2 == 1 && empty == 0 {
                    text.pop();
                } else if empty == 0 {
                    text.push(' ');
                }
                text.extend(std::iter::repeat_n('\n', empty));
                text.push_str(line.text);
                ended = quote.is_some_and(|quote| end_of(line.text, 0, quote).is_some());
                empty = 0;
            } else {
                break;
            }
            self.at += 1;
        }
        let found = match quote {
            Some(quote) => unquote(&text, quote).map(Value::String),
            None if text.contains(": ") || text.ends_with(':') => Err("a colon within plain text".to_owned()),
            None => resolve(&text),
        };
        found.or_else(|why| {
            self.at -= 1;
            self.wrong(&why)
        })
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// Key and what follows its colon.
fn key_of(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|letter| matches!(letter, '"' | '\'')) {
        let end = end_of(text, 1, quote)?;
        let rest = text[end + 1..].strip_prefix(':')?;
        return Some((unquote(&text[..=end], quote).ok()?, rest.trim()));
    }
    let at = text.find(": ").or_else(|| text.ends_with(':').then(|| text.len() - 1))?;
    Some((text[..at].to_owned(), text[at + 1..].trim()))
}

/// Place of the quote that ends a quoted scalar; `from` is behind the one that begins it.
fn end_of(text: &str, from: usize, quote: char) -> Option<usize> {
    let mut letters = text[from..].char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let twice = quote == '\'' && letter == quote && letters.peek().is_some_and(|(_, next)| *next == quote);
        if twice || (letter == '\\' && quote == '"') {
            letters.next();
        } else if letter == quote {
            return Some(from + at);
        }
    }
    None
}

fn unquote(text: &str, quote: char) -> Found<String> {
    if end_of(text, 1, quote) != Some(text.len() - 1) {
        return Err("a quoted scalar does not end, or not with its line".to_owned());
    }
    let inside = &text[1..text.len() - 1];
    if quote == '\'' {
        return Ok(inside.replace("''", "'"));
    }
    let mut out = String::new();
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        let escape = letters.next().ok_or("an escape is cut short")?;
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            let code: String = letters.by_ref().take(digits).collect();
            let found = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
            out.push(found.ok_or("an escape is no letter")?);
            continue;
        }
        out.push(match escape {
            '0' => '\0',
            'a' => '\u{7}',
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            'e' => '\u{1b}',
            '"' | '\\' | '/' | ' ' => escape,
            'N' => '\u{85}',
            '_' => '\u{a0}',
            'L' => '\u{2028}',
            'P' => '\u{2029}',
            _ => return Err(format!("an escape \\{escape}")),
        });
    }
    Ok(out)
}

/// What a plain scalar stands for in YAML 1.1, as far as a run writes such ones.
fn resolve(text: &str) -> Found<Value> {
    let first = text.chars().next().unwrap_or(' ');
    match text {
        "null" | "~" | "" => return Ok(Value::Null),
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        "[]" => return Ok(Value::Array(Vec::new())),
        "{}" => return Ok(Value::Object(Map::new())),
        _ => {}
    }
    if "&*!|>%@`[]{},#?\"'".contains(first) || text.contains(" #") {
        return Err("written in a way that no run uses".to_owned());
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
        let word = text.to_ascii_lowercase();
        if matches!(word.as_str(), "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "true" | "false") {
            return Err(format!("{text} means more than one thing"));
        }
        return Ok(Value::String(text.to_owned()));
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(unsigned) && (unsigned == "0" || !unsigned.starts_with('0')) {
        return Ok(Value::Number(text.trim_start_matches('+').parse::<Number>().map_err(|why| why.to_string())?));
    }
    // a float has a point; an exponent has a sign
    if let Some((whole, rest)) = unsigned.split_once('.') {
        let (part, exponent) = rest.split_once(['e', 'E']).map_or((rest, None), |(part, e)| (part, Some(e)));
        let signed = exponent.is_none_or(|e| e.strip_prefix(['-', '+']).is_some_and(digits));
        if digits(whole) && (part.is_empty() || digits(part)) && signed {
            let number: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
            // written so that it stays a floating number, whole or not
            let told = format!("{number:?}");
            return Ok(Value::Number(told.parse::<Number>().map_err(|why| why.to_string())?));
        }
    }
    // sexagesimal numbers, octal and hexadecimal ones, dates, infinities: nothing of a scenario is one of them
    let odd = unsigned.contains([':', '_', ','])
        || unsigned.starts_with("0x")
        || unsigned.starts_with("0b")
        || (digits(unsigned) && unsigned.starts_with('0'))
        || unsigned.to_ascii_lowercase().starts_with(".inf")
        || unsigned.to_ascii_lowercase().starts_with(".nan")
        || (unsigned.len() >= 8 && unsigned.bytes().filter(|byte| *byte == b'-').count() == 2);
    if odd {
        return Err(format!("{text} may be a number or a date"));
    }
    Ok(Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_a_run_writes() {
        let text = "name: smoke\ntitle: 'It''s: one'\nlong: a b\n  c d\n\"q\\x41\": \"x\\\n  \\ y\"\nempty:\nrates:\n- 600\n- 1.5\n\
            only: []\nblock:\n  a: null\n  b: 1.0e-05\n  list:\n  - name: x\n    set: {}\n  - - 1\n    - two\nlast: true\n";
        let told = parse(text).unwrap().to_string();
        let due = r#"{"block":{"a":null,"b":1e-5,"list":[{"name":"x","set":{}},[1,"two"]]},"empty":null,"last":true,"#
            .to_owned()
            + r#""long":"a b c d","name":"smoke","only":[],"qA":"x y","rates":[600,1.5],"title":"It's: one"}"#;
        assert_eq!(told, due);
    }

    #[test]
    fn what_no_run_writes_is_an_error() {
        for text in [
            "a: &x 1\n",
            "a: *x\n",
            "a: 010\n",
            "a: 1:30\n",
            "a: yes\n",
            "a: [1, 2]\n",
            "a: 'x\n",
            "a: 1\na: 2\n",
            "a: |\n  x\n",
            "a: 1\n   b: 2\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let deep: Vec<String> = (0..80).map(|n| format!("{}a:", " ".repeat(n))).collect();
        assert!(parse(&deep.join(
            "
"
        ))
        .is_err());
    }
}
