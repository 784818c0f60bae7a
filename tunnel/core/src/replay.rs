//! Replay window and reconstruction of 64-bit sequences from their low 32 bits.
//!
//! Nothing here moves before a tag has verified: `reconstruct` and `judge` only read, `accept` and `accept_copy` are called
//! afterwards. A forged header can therefore never push the window, whatever sequence it claims.

/// Sequences that are remembered, up to and including the highest.
pub const WINDOW_PACKETS: u64 = 2048;
const WORDS: usize = (WINDOW_PACKETS / 64) as usize;

/// A second copy within this time of the first is the way's doing (a Wi-Fi retry, a bonded link), and no replay.
pub const DUPLICATE_NS: i64 = 1_000_000_000;
/// Times are kept this finely.
const TICK_NS: i64 = 1_000_000;

/// What a sequence is, before its tag is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Not accepted before.
    Fresh,
    /// Accepted once, so lately that its second copy may still be on the way.
    Copy,
    /// Accepted before, or too old to tell.
    Replay,
}

/// Sequences accepted so far: the highest, and for each of the 2,048 up to it whether it came, when, and whether a second
/// copy of it came.
///
/// They form a ring (RFC 6479): a sequence's place is its value modulo the window, so nothing is shifted.
#[derive(Clone)]
pub struct ReplayWindow {
    next: u64,
    came: [u64; WORDS],
    doubled: [u64; WORDS],
    /// Low 32 bits of the milliseconds at which each came.
    ticks: Box<[u32]>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self {
            next: 0,
            came: [0; WORDS],
            doubled: [0; WORDS],
            ticks: vec![0; WINDOW_PACKETS as usize].into_boxed_slice(),
        }
    }
}

fn tick(now_ns: i64) -> u32 {
    (now_ns / TICK_NS) as u32
}

fn place(sequence: u64) -> (usize, u64) {
    let bit = sequence % WINDOW_PACKETS;
    ((bit / 64) as usize, 1 << (bit % 64))
}

impl ReplayWindow {
    /// Highest authenticated sequence + 1; 0 before the first packet.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The 64-bit sequence with these low bits that lies nearest to highest authenticated + 1. A tie (exactly
    /// 2^31 away) goes backwards; a result below 0 is impossible and goes forwards.
    #[must_use]
    pub fn reconstruct(&self, low32: u32) -> u64 {
        let ahead = u64::from(low32.wrapping_sub(self.next as u32));
        let forward = self.next + ahead;
        if ahead >= 1 << 31 && forward >= 1 << 32 {
            forward - (1 << 32)
        } else {
            forward
        }
    }

    /// What a sequence is that comes now.
    #[must_use]
    pub fn judge(&self, sequence: u64, now_ns: i64) -> Judged {
        if sequence >= self.next {
            return Judged::Fresh;
        }
        if self.next - 1 - sequence >= WINDOW_PACKETS {
            return Judged::Replay;
        }
        let (word, bit) = place(sequence);
        if self.came[word] & bit == 0 {
            return Judged::Fresh;
        }
        let age = tick(now_ns).wrapping_sub(self.ticks[(sequence % WINDOW_PACKETS) as usize]);
        if self.doubled[word] & bit == 0 && age <= tick(DUPLICATE_NS) {
            Judged::Copy
        } else {
            Judged::Replay
        }
    }

    /// Record a sequence that was judged a `Copy` and whose tag has verified: the next one is a replay.
    pub fn accept_copy(&mut self, sequence: u64) {
        let (word, bit) = place(sequence);
        self.doubled[word] |= bit;
    }

    /// Record a sequence that was judged `Fresh` and whose tag has verified. Returns how many sequences were
    /// skipped over by it (0 unless it is a new highest).
    pub fn accept(&mut self, sequence: u64, now_ns: i64) -> u64 {
        let mut skipped = 0;
        if sequence >= self.next {
            skipped = sequence - self.next;
            if skipped >= WINDOW_PACKETS {
                self.came = [0; WORDS];
            } else {
                for passed in self.next..sequence {
                    let (word, bit) = place(passed);
                    self.came[word] &= !bit;
                }
            }
            self.next = sequence + 1;
        }
        let (word, bit) = place(sequence);
        self.came[word] |= bit;
        self.doubled[word] &= !bit;
        self.ticks[(sequence % WINDOW_PACKETS) as usize] = tick(now_ns);
        skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn reconstruct_takes_the_nearest() {
        let mut window = ReplayWindow::default();
        assert_eq!(window.reconstruct(0), 0);
        assert_eq!(
            window.reconstruct(0xFFFF_FFFF),
            0xFFFF_FFFF,
            "there is no sequence below 0"
        );
        window.accept((1 << 32) - 2, 0);
        assert_eq!(window.reconstruct(0xFFFF_FFFF), (1 << 32) - 1);
        assert_eq!(window.reconstruct(5), (1 << 32) + 5);
        window.accept(1 << 32, 0);
        assert_eq!(window.reconstruct(0xFFFF_FFFF), (1 << 32) - 1);
        assert_eq!(
            window.reconstruct(1 + (1 << 31)),
            1 + (1 << 31),
            "a tie goes backwards"
        );
    }

    #[test]
    fn window_agrees_with_a_set_that_forgets_nothing() {
        let mut window = ReplayWindow::default();
        let mut accepted = BTreeSet::new();
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        for _ in 0..60_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let base = window.next_sequence();
            let sequence = match state % 10 {
                0 => base + state / 16 % 5_000,
                1..=4 => base + state / 16 % 3,
                _ => base.saturating_sub(state / 16 % 2_200),
            };
            let highest = accepted.last().copied();
            let too_old = highest.is_some_and(|top| top >= sequence + WINDOW_PACKETS);
            let expected = too_old || accepted.contains(&sequence);
            // So much later that nothing is a second copy.
            let judged = window.judge(sequence, 10 * DUPLICATE_NS);
            assert_eq!(
                judged == Judged::Replay,
                expected,
                "sequence {sequence}: {judged:?}"
            );
            if !expected {
                let before = window.next_sequence();
                let skipped = window.accept(sequence, 0);
                assert_eq!(skipped, sequence.saturating_sub(before));
                accepted.insert(sequence);
            }
        }
        assert!(accepted.len() > 10_000);
    }

    #[test]
    fn one_second_copy_is_the_ways_and_every_other_a_replay() {
        let mut window = ReplayWindow::default();
        window.accept(7, 5 * DUPLICATE_NS);
        let end_ns = 6 * DUPLICATE_NS;
        assert_eq!(window.judge(7, end_ns), Judged::Copy);
        assert_eq!(window.judge(7, end_ns + TICK_NS), Judged::Replay);
        assert_eq!(window.judge(6, end_ns), Judged::Fresh);
        window.accept_copy(7);
        assert_eq!(window.judge(7, 5 * DUPLICATE_NS), Judged::Replay);
        // Its place is another's a window later.
        window.accept(7 + WINDOW_PACKETS, end_ns);
        assert_eq!(window.judge(7 + WINDOW_PACKETS, end_ns), Judged::Copy);
        assert_eq!(window.judge(7, end_ns), Judged::Replay);
    }
}
