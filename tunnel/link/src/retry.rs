//! When to dial, sans-IO: back-off after failures (docs/PROTOCOL.md, section 7). Times are monotonic nanoseconds of the
//! caller, jitter a random byte of the caller: unpredictable, so that ends that failed together do not try together.

const SECOND_NS: i64 = 1_000_000_000;
const REDIAL_S: [i64; 2] = [1, 2];
const REKEY_PAUSE_NS: i64 = SECOND_NS / 2;
const REKEY_PAUSE_LIMIT_NS: i64 = 8 * SECOND_NS;
/// Tries of one rekey.
pub const REKEY_TRIES: u32 = 6;

/// New sessions: one begins no sooner than 1 and from then on 2 s, each times 1 to 1.5, after the one before. Never later than
/// 3 s, however long nobody answered: so long after its GCS is back a drone is, too.
#[derive(Default)]
pub struct Redial {
    failures: usize,
    not_before_ns: i64,
}

impl Redial {
    /// May one begin now?
    #[must_use]
    pub fn is_due(&self, now_ns: i64) -> bool {
        now_ns >= self.not_before_ns
    }

    /// One begins.
    pub fn begun(&mut self, now_ns: i64, jitter: u8) {
        let pause_ns = REDIAL_S[self.failures.min(REDIAL_S.len() - 1)] * SECOND_NS;
        self.failures += 1;
        self.not_before_ns = now_ns + pause_ns + pause_ns * i64::from(jitter) / 512;
    }

    /// One completed.
    pub fn completed(&mut self) {
        *self = Self::default();
    }
}

/// Tries of one rekey: pauses of 0.5 s times 2^k, at most 8 s, each within 25 %.
#[derive(Default)]
pub struct RekeyTries {
    failures: u32,
    not_before_ns: i64,
}

impl RekeyTries {
    /// May the next try begin now?
    #[must_use]
    pub fn is_due(&self, now_ns: i64) -> bool {
        now_ns >= self.not_before_ns
    }

    /// A try failed; false where it was the last one, and what is still due starts again.
    pub fn failed(&mut self, now_ns: i64, jitter: u8) -> bool {
        let pause_ns = (REKEY_PAUSE_NS << self.failures.min(10)).min(REKEY_PAUSE_LIMIT_NS);
        self.failures += 1;
        self.not_before_ns = now_ns + pause_ns * 3 / 4 + pause_ns * i64::from(jitter) / 512;
        if self.failures < REKEY_TRIES {
            return true;
        }
        self.failures = 0;
        false
    }

    /// A try succeeded, or the session was replaced.
    pub fn completed(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redials_are_spaced_as_the_protocol_says() {
        let mut redial = Redial::default();
        let mut now_ns = 0;
        for (pause_s, jitter) in [(1, 0), (2, 0), (2, 0), (2, 255), (2, 255)] {
            assert!(redial.is_due(now_ns));
            redial.begun(now_ns, jitter);
            assert!(!redial.is_due(now_ns + pause_s * SECOND_NS - 1));
            assert!(redial.is_due(now_ns + pause_s * SECOND_NS * 3 / 2));
            assert_eq!(redial.is_due(now_ns + pause_s * SECOND_NS), jitter == 0);
            now_ns += pause_s * SECOND_NS * 3 / 2;
        }
        redial.completed();
        assert!(redial.is_due(now_ns));
    }

    #[test]
    fn however_long_nobody_answered_a_dial_begins_within_three_seconds() {
        let mut redial = Redial::default();
        for failures in 0..100 {
            redial.begun(0, 255);
            assert!(redial.is_due(3 * SECOND_NS), "after {failures} failures");
        }
    }

    #[test]
    fn a_rekey_is_tried_six_times() {
        let mut tries = RekeyTries::default();
        let pauses_ns = [500, 1000, 2000, 4000, 8000, 8000].map(|ms| ms * SECOND_NS / 1000);
        for (place, pause_ns) in pauses_ns.into_iter().enumerate() {
            let again = tries.failed(0, 128);
            assert_eq!(again, place < 5);
            assert!(!tries.is_due(pause_ns - 1) && tries.is_due(pause_ns));
        }
    }
}
