//! What chance decided, drawn again: the Mersenne Twister MT19937 as Python's `random` seeds and uses it.

use sha2::{Digest, Sha512};

const WORDS: usize = 624;
const SHIFT: usize = 397;

pub struct Twister {
    state: [u32; WORDS],
    at: usize,
}

impl Twister {
    /// Seeded by text: its UTF-8 bytes and their SHA-512 behind them are one big-endian number, whose 32-bit words,
    /// least significant first, are the key of `init_by_array`.
    pub fn of_text(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend(Sha512::digest(text.as_bytes()));
        let mut key: Vec<u32> =
            bytes.rchunks(4).map(|chunk| chunk.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte))).collect();
        while key.len() > 1 && key.last() == Some(&0) {
            key.pop();
        }
        Self::of_key(&key)
    }

    fn of_key(key: &[u32]) -> Self {
        let mut state = [0_u32; WORDS];
        state[0] = 19_650_218;
        let mut index = 0_u32;
        for at in 1..WORDS {
            index += 1;
            state[at] = 1_812_433_253_u32.wrapping_mul(state[at - 1] ^ (state[at - 1] >> 30)).wrapping_add(index);
        }
        let (mut i, mut j) = (1, 0);
        for _ in 0..WORDS.max(key.len()) {
            let before = state[i - 1] ^ (state[i - 1] >> 30);
            let place = u32::try_from(j).unwrap_or(0);
            state[i] = (state[i] ^ before.wrapping_mul(1_664_525)).wrapping_add(key[j]).wrapping_add(place);
            i += 1;
            j = (j + 1) % key.len();
            if i >= WORDS {
                state[0] = state[WORDS - 1];
                i = 1;
            }
        }
        for _ in 1..WORDS {
            let before = state[i - 1] ^ (state[i - 1] >> 30);
            let place = u32::try_from(i).unwrap_or(0);
            state[i] = (state[i] ^ before.wrapping_mul(1_566_083_941)).wrapping_sub(place);
            i += 1;
            if i >= WORDS {
                state[0] = state[WORDS - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        Self { state, at: WORDS }
    }

    fn output(&mut self) -> u32 {
        if self.at == WORDS {
            for i in 0..WORDS {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % WORDS] & 0x7fff_ffff);
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + SHIFT) % WORDS] ^ (y >> 1) ^ odd;
            }
            self.at = 0;
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// From 0 to below `count`: as many of the highest bits as `count` has, drawn again while they are too large.
    fn below(&mut self, count: u32) -> u32 {
        let bits = 32 - count.leading_zeros();
        loop {
            let drawn = self.output() >> (32 - bits);
            if drawn < count {
                return drawn;
            }
        }
    }

    /// From the last place down to the second, each is exchanged with one drawn from those up to itself.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let count = u32::try_from(at + 1).unwrap_or(u32::MAX);
            items.swap(at, self.below(count) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Twister;

    /// `random.Random("7/0").shuffle(list(range(10)))` of Python 3.
    #[test]
    fn shuffles_as_python_does() {
        let mut items: Vec<u32> = (0..10).collect();
        Twister::of_text("7/0").shuffle(&mut items);
        assert_eq!(items, DUE);
    }

    const DUE: [u32; 10] = [8, 2, 6, 3, 4, 7, 9, 1, 0, 5];
}
