//! Analysis tables: a header, then rows of as many fields; none of their fields is quoted by who writes them, but a
//! quoted one is read as RFC 4180 says.

use std::collections::HashMap;
use std::path::Path;

use crate::json::{read_text, short};
use crate::tally::Found;

const MAX_TABLE_BYTES: u64 = 64 << 20;

pub struct Table {
    columns: HashMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn read(path: &Path) -> Found<Self> {
        let text = read_text(path, MAX_TABLE_BYTES)?;
        let mut rows = parse(&text).map_err(|why| format!("{}: {why}", short(path)))?.into_iter();
        let header = rows.next().ok_or_else(|| format!("{} is empty", short(path)))?;
        let columns = header.into_iter().enumerate().map(|(at, name)| (name, at)).collect();
        Ok(Self { columns, rows: rows.collect() })
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|fields| Row { table: self, fields })
    }
}

pub struct Row<'a> {
    table: &'a Table,
    fields: &'a [String],
}

impl<'a> Row<'a> {
    pub fn text(&self, column: &str) -> Found<&'a str> {
        let at = self.table.columns.get(column);
        at.and_then(|at| self.fields.get(*at)).map(String::as_str).ok_or_else(|| format!("no column {column}"))
    }

    /// A number; None where the field is empty, which is what missing looks like.
    pub fn number(&self, column: &str) -> Found<Option<f64>> {
        let text = self.text(column)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| format!("{column}: {text} is no number"))
    }
}

fn parse(text: &str) -> Found<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut letters = text.chars().peekable();
    let mut inside = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' if inside || field.is_empty() => inside = !inside,
            ',' if !inside => row.push(std::mem::take(&mut field)),
            '\n' if !inside => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            _ => field.push(letter),
        }
    }
    if inside || !field.is_empty() || !row.is_empty() {
        return Err("its last line is cut short".to_owned());
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn quoted_fields_and_cut_ends() {
        assert_eq!(parse("a,b\n\"x, \"\"y\"\"\",\n").unwrap()[1], ["x, \"y\"", ""]);
        assert!(parse("a,b\n1,").is_err());
    }
}
