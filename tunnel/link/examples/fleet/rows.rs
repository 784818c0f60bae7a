//! What happened, as rows of comma-separated values, kept until the end: nothing is written while something is measured.

use std::sync::Mutex;

/// splitmix64: moments that a seed repeats, nothing secret.
pub fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A time that may not have come.
pub fn or_empty(time_ns: Option<i64>) -> String {
    time_ns.map_or_else(String::new, |time_ns| time_ns.to_string())
}

#[derive(Default)]
pub struct Rows(Mutex<Vec<String>>);

impl Rows {
    pub fn add(&self, row: String) {
        self.held().push(row);
    }

    pub fn tell(&self) {
        for row in self.held().drain(..) {
            println!("{row}");
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
