//! Numbers as the bundle writes and compares them: canonical JSON, quantiles, sums.

use serde_json::Value;

use crate::bag::hex;

/// JSON with sorted keys, no blanks, ASCII alone, and each number in its shortest form: what ids are hashes of.
pub fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(on) => out.push_str(if *on { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&shortest(&number.to_string())),
        Value::String(text) => quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            // serde_json's map is sorted by the bytes of its keys, which is the order of code points
            out.push('{');
            for (at, (key, item)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quoted(key, out);
                out.push(':');
                canonical(item, out);
            }
            out.push('}');
        }
    }
}

/// A whole number stays as it is; any other is the shortest text that reads as the same double: digits with at least
/// one behind the point from 0.0001 up to below 1e16, else `1e-05`, `1.5e+16`.
fn shortest(text: &str) -> String {
    if !text.contains(['.', 'e', 'E']) {
        return text.to_owned();
    }
    let Ok(number) = text.parse::<f64>() else {
        return text.to_owned();
    };
    let told = format!("{number:e}");
    let (digits, exponent) = told.split_once('e').unwrap_or((&told, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..16).contains(&exponent) {
        return format!("{number:?}");
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(letter),
            _ => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    out.push_str("\\u");
                    out.push_str(&hex(&unit.to_be_bytes()));
                }
            }
        }
    }
    out.push('"');
}

/// The value at `share` of the sorted values, by linear interpolation (type 7); None of nothing.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    let place = (ordered.len() - 1) as f64 * share;
    // a place lies within the list
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let below = place.floor() as usize;
    let part = place - place.floor();
    if part == 0.0 {
        return Some(ordered[below]);
    }
    let (low, high) = (ordered[below], ordered[below + 1]);
    Some(if (part - 0.5).abs() < 1e-12 { f64::midpoint(low, high) } else { low + (high - low) * part })
}

pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

pub fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

pub fn greatest(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_is_sorted_ascii_and_shortest() {
        let text = r#"{"b": [1, 2.50, 1e-5, 15e15, 0.0001, -0.0], "a": "é\u0007\"", "ab": null}"#;
        let mut out = String::new();
        canonical(&serde_json::from_str(text).unwrap(), &mut out);
        assert_eq!(out, r#"{"a":"\u00e9\u0007\"","ab":null,"b":[1,2.5,1e-05,1.5e+16,0.0001,-0.0]}"#);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25), Some(2.0));
        assert_eq!(median(&[]), None);
    }
}
