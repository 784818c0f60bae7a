//! `--name value` pairs.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

/// The options of one subcommand.
pub struct Args(HashMap<String, String>);

impl Args {
    /// From the words after the subcommand.
    pub fn new(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = HashMap::new();
        while let Some(word) = words.next() {
            let name = word
                .strip_prefix("--")
                .ok_or_else(|| format!("{word} is not an option"))?;
            let value = words.next().ok_or_else(|| format!("{word} has no value"))?;
            found.insert(name.to_owned(), value);
        }
        Ok(Self(found))
    }

    /// A value that must be there.
    pub fn get<T>(&self, name: &str) -> Result<T, String>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.optional(name)?
            .ok_or_else(|| format!("--{name} is missing"))
    }

    /// A value that may be there.
    pub fn optional<T>(&self, name: &str) -> Result<Option<T>, String>
    where
        T: FromStr,
        T::Err: Display,
    {
        let parse = |text: &String| {
            text.parse()
                .map_err(|error| format!("--{name} {text}: {error}"))
        };
        self.0.get(name).map(parse).transpose()
    }
}
