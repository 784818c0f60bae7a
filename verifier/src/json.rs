//! JSON documents and lines within bounds, and the questions that checks ask of them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::tally::Found;

/// Documents are read whole: a plan of 70,000 cells is smaller.
const MAX_DOCUMENT_BYTES: u64 = 32 << 20;
const MAX_DOCUMENT_VALUES: usize = 2_000_000;
/// Lines of NDJSON, and how many of them a file of a cell may have.
const MAX_LINE_BYTES: u64 = 1 << 20;
const MAX_LINES: usize = 1_000_000;

/// What the first verifier may take.
pub const TOO_LARGE: &str = "more than this verifier takes";

pub type Object = Map<String, Value>;

/// The last two parts of a path, which say enough in a message.
pub fn short(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// A whole file as text, within `most` bytes.
pub fn read_text(path: &Path, most: u64) -> Found<String> {
    let cannot = |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}", short(path));
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|why| cannot(&why))?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|why| cannot(&why))?;
    if bytes.len() as u64 > most {
        return Err(cannot(&format!("longer than {most} bytes, {TOO_LARGE}")));
    }
    String::from_utf8(bytes).map_err(|why| cannot(&format!("not UTF-8 at byte {}", why.utf8_error().valid_up_to())))
}

/// A JSON document whose top is an object.
pub fn read_object(path: &Path) -> Found<Object> {
    parse_object(&read_text(path, MAX_DOCUMENT_BYTES)?, path)
}

pub fn parse_object(text: &str, path: &Path) -> Found<Object> {
    // counted before anything is built of them: brackets alone can stand for many times the memory of their text
    if text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_DOCUMENT_VALUES {
        return Err(format!("{} holds more than {MAX_DOCUMENT_VALUES} values, {TOO_LARGE}", short(path)));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{}: the top is no object", short(path))),
        Err(why) => Err(format!("{}: {why}", short(path))),
    }
}

/// One object a line, each handed to `take`; empty lines are damage, because no writer makes them.
pub fn each_line(path: &Path, mut take: impl FnMut(Object) -> Found<()>) -> Found<()> {
    let file = fs::File::open(path).map_err(|why| format!("{}: {why}", short(path)))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1_usize.. {
        line.clear();
        let at = |why: &dyn std::fmt::Display| format!("{} line {number}: {why}", short(path));
        let size = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(|why| at(&why))?;
        if size == 0 {
            break;
        }
        if number > MAX_LINES || (size as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n')) {
            return Err(at(&format!("beyond {MAX_LINES} lines of {MAX_LINE_BYTES} bytes, {TOO_LARGE}")));
        }
        match serde_json::from_slice(&line) {
            Ok(Value::Object(object)) => take(object).map_err(|why| at(&why))?,
            Ok(_) => return Err(at(&"no object")),
            Err(why) => return Err(at(&why)),
        }
    }
    Ok(())
}

/// A member that must be there.
pub fn member<'a>(object: &'a Object, name: &str) -> Found<&'a Value> {
    object.get(name).ok_or_else(|| format!("'{name}' is missing"))
}

/// A whole number; a fraction that is none (3.0) counts as one. None comes near 2^62, so that two of them can be added.
pub fn whole(value: &Value) -> Found<i64> {
    // within what a double holds exactly
    #[allow(clippy::cast_possible_truncation)]
    let of_double = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    let found = value.as_i64().or_else(|| value.as_f64().and_then(of_double));
    found.filter(|number| number.unsigned_abs() < 1 << 62).ok_or_else(|| format!("{} is no whole number", brief(value)))
}

pub fn whole_of(object: &Object, name: &str) -> Found<i64> {
    whole(member(object, name)?).map_err(|why| format!("{name}: {why}"))
}

pub fn number_of(object: &Object, name: &str) -> Found<f64> {
    member(object, name)?.as_f64().ok_or_else(|| format!("{name} is no number"))
}

pub fn text_of<'a>(object: &'a Object, name: &str) -> Found<&'a str> {
    member(object, name)?.as_str().ok_or_else(|| format!("{name} is no text"))
}

pub fn object_of<'a>(object: &'a Object, name: &str) -> Found<&'a Object> {
    member(object, name)?.as_object().ok_or_else(|| format!("{name} is no object"))
}

pub fn list_of<'a>(object: &'a Object, name: &str) -> Found<&'a [Value]> {
    member(object, name)?.as_array().map(Vec::as_slice).ok_or_else(|| format!("{name} is no list"))
}

/// A member that may be absent or null.
pub fn given<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// Objects of a list that may be absent or null; what is no object is left out.
pub fn objects<'a>(object: &'a Object, name: &str) -> impl Iterator<Item = &'a Object> {
    given(object, name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// Texts of a list that may be absent or null.
pub fn texts<'a>(object: &'a Object, name: &str) -> Option<Vec<&'a str>> {
    Some(given(object, name)?.as_array()?.iter().filter_map(Value::as_str).collect())
}

/// Is a setting on? Absent, null, false, 0 and what is empty are off.
pub fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(on)) => *on,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
    }
}

/// Equal as values: numbers by what they are, not by how they are written.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x == y,
            _ => x == y || (x.as_f64().is_some() && x.as_f64() == y.as_f64()),
        },
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, value)| y.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

/// A value in few letters, for messages.
pub fn brief(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}
