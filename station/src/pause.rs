//! How long to wait before a program that ended is started again.

use std::time::Duration;

/// A program that lived this long did not die at once: the next pause is the first again.
pub const STEADY: Duration = Duration::from_secs(10);

/// Doubles from the first pause to the longest while the program dies at once.
#[derive(Debug)]
pub struct Pause {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Pause {
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            next: first,
        }
    }

    /// The pause after a program that lived so long.
    pub fn after(&mut self, lived: Duration) -> Duration {
        if lived >= STEADY {
            self.next = self.first;
        }
        let now = self.next;
        self.next = self.most.min(now * 2);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(value: u64) -> Duration {
        Duration::from_secs(value)
    }

    #[test]
    fn it_doubles_up_to_its_limit() {
        let mut pause = Pause::new(seconds(1), seconds(5));
        let found: Vec<u64> = (0..6).map(|_| pause.after(seconds(0)).as_secs()).collect();
        assert_eq!(found, [1, 2, 4, 5, 5, 5]);
    }

    #[test]
    fn a_program_that_lived_begins_anew() {
        let mut pause = Pause::new(seconds(1), seconds(60));
        pause.after(seconds(0));
        pause.after(seconds(0));
        assert_eq!(pause.after(STEADY), seconds(1));
        assert_eq!(
            pause.after(STEADY.checked_sub(Duration::from_millis(1)).unwrap()),
            seconds(2)
        );
    }

    #[test]
    fn a_limit_below_the_first_pause_never_lengthens_it() {
        let mut pause = Pause::new(seconds(3), seconds(3));
        assert_eq!(
            (pause.after(seconds(0)), pause.after(seconds(0))),
            (seconds(3), seconds(3))
        );
    }
}
