//! What one check saw over the whole bundle, and the line that says so.

/// A result, or why it cannot be had, in words for whoever checks.
pub type Found<T> = Result<T, String>;

/// `looked` counts what was examined, `unit` names it. Only the first problem is kept in words: a spoiled bundle may
/// have a million of them.
pub struct Tally {
    pub name: &'static str,
    pub unit: &'static str,
    expected: &'static str,
    looked: usize,
    problems: usize,
    first: String,
    pub note: String,
}

impl Tally {
    pub fn new(name: &'static str, expected: &'static str, unit: &'static str) -> Self {
        Self { name, unit, expected, looked: 0, problems: 0, first: String::new(), note: String::new() }
    }

    pub fn see(&mut self) {
        self.looked += 1;
    }

    pub fn saw(&mut self, count: usize) {
        self.looked += count;
    }

    pub fn fail(&mut self, text: impl FnOnce() -> String) {
        self.problems += 1;
        if self.problems == 1 {
            // a line stays a line, whatever a file holds
            self.first = text().chars().take(300).map(|c| if c.is_control() { '?' } else { c }).collect();
        }
    }

    pub fn require(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.fail(text);
        }
    }

    pub fn failed(&self) -> bool {
        self.problems > 0
    }

    pub fn line(&self) -> String {
        if self.failed() {
            let more = if self.problems > 1 { format!(" (and {} more)", self.problems - 1) } else { String::new() };
            return format!("[ ] {}: {}{more}; expected {}", self.name, self.first, self.expected);
        }
        let note = if self.note.is_empty() { String::new() } else { format!(", {}", self.note) };
        format!("[x] {}: {} {}{note}; expected {}", self.name, self.looked, self.unit, self.expected)
    }
}
