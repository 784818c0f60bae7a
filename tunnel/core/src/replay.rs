//! Replay window and reconstruction of 64-bit sequences from their low 32 bits.
//!
//! Nothing here moves before a tag has verified: `reconstruct` and `seen` only read, `accept` is called
//! afterwards. A forged header can therefore never push the window, whatever sequence it claims.

/// Sequences that are remembered, up to and including the highest.
pub const WINDOW_PACKETS: u64 = 2048;
const WORDS: usize = (WINDOW_PACKETS / 64) as usize;

/// Sequences accepted so far: the highest, and one bit for each of the 2,048 up to it.
///
/// The bits form a ring (RFC 6479): a sequence's bit is at its value modulo the window, so nothing is shifted.
#[derive(Clone)]
pub struct ReplayWindow {
    next: u64,
    bits: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self {
            next: 0,
            bits: [0; WORDS],
        }
    }
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

    /// True for a sequence that was accepted before or is too old for the window to tell.
    #[must_use]
    pub fn seen(&self, sequence: u64) -> bool {
        if sequence >= self.next {
            return false;
        }
        if self.next - 1 - sequence >= WINDOW_PACKETS {
            return true;
        }
        let (word, bit) = place(sequence);
        self.bits[word] & bit != 0
    }

    /// Record a sequence whose tag has verified and that was not `seen`. Returns how many sequences were
    /// skipped over by it (0 unless it is a new highest).
    pub fn accept(&mut self, sequence: u64) -> u64 {
        let mut skipped = 0;
        if sequence >= self.next {
            skipped = sequence - self.next;
            if skipped >= WINDOW_PACKETS {
                self.bits = [0; WORDS];
            } else {
                for passed in self.next..sequence {
                    let (word, bit) = place(passed);
                    self.bits[word] &= !bit;
                }
            }
            self.next = sequence + 1;
        }
        let (word, bit) = place(sequence);
        self.bits[word] |= bit;
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
        window.accept((1 << 32) - 2);
        assert_eq!(window.reconstruct(0xFFFF_FFFF), (1 << 32) - 1);
        assert_eq!(window.reconstruct(5), (1 << 32) + 5);
        window.accept(1 << 32);
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
            assert_eq!(window.seen(sequence), expected, "sequence {sequence}");
            if !expected {
                let before = window.next_sequence();
                let skipped = window.accept(sequence);
                assert_eq!(skipped, sequence.saturating_sub(before));
                accepted.insert(sequence);
            }
        }
        assert!(accepted.len() > 10_000);
    }
}
