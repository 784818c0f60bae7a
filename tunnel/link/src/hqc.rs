//! HQC of the newer specification by the crate `hqc-kem`: another provider than liboqs, for suites beyond the 72.
//!
//! What that crate draws from a generator is drawn here and given to it, so that all randomness comes from one place.

use crate::secret::{scrub, Secret};
use hqc_kem::{
    Ciphertext, DecapsulationKey, EncapsulationKey, Hqc128Params, Hqc192Params, Hqc256Params,
    HqcKem, HqcParams,
};

/// What is said wherever a suite of this provider is shown; the lock file holds the version.
pub const PROVIDER: &str = "hqc-kem 0.1.0-rc.0 (not audited)";
/// From which a key pair is made.
pub const SEED_BYTES: usize = 32;
/// Public part of what an encapsulation draws.
pub const SALT_BYTES: usize = 16;
/// Its calls went 200 KiB deep (HQC-256, decapsulation, release build), and leave copies of keys there.
const DEPTH: usize = 384 * 1024;

/// The parameter set of a level.
macro_rules! by_level {
    ($level:expr, $function:ident($($argument:expr),*)) => {{
        let result = match $level {
            1 => $function::<Hqc128Params>($($argument),*),
            3 => $function::<Hqc192Params>($($argument),*),
            _ => $function::<Hqc256Params>($($argument),*),
        };
        scrub::<DEPTH>();
        result
    }};
}

/// Secret part of what an encapsulation draws.
#[must_use]
pub fn message_bytes(level: u8) -> usize {
    match level {
        1 => hqc_kem::hqc128::MESSAGE_SIZE,
        3 => hqc_kem::hqc192::MESSAGE_SIZE,
        _ => hqc_kem::hqc256::MESSAGE_SIZE,
    }
}

/// Public and secret key of this seed; `None` where its length is wrong.
#[must_use]
pub fn pair(level: u8, seed: &[u8]) -> Option<(Vec<u8>, Secret)> {
    by_level!(level, pair_of(seed))
}

/// Ciphertext and shared secret; `None` where a length is wrong.
#[must_use]
pub fn encapsulate(
    level: u8,
    public: &[u8],
    message: &[u8],
    salt: &[u8],
) -> Option<(Vec<u8>, Secret)> {
    by_level!(level, encapsulated(public, message, salt))
}

/// The shared secret; `None` where a length is wrong. A ciphertext that was altered gives another secret.
#[must_use]
pub fn decapsulate(level: u8, secret: &[u8], ciphertext: &[u8]) -> Option<Secret> {
    by_level!(level, decapsulated(secret, ciphertext))
}

// Never inlined: what they leave on the stack shall lie below the caller, where it is overwritten.

#[inline(never)]
fn pair_of<P: HqcParams>(seed: &[u8]) -> Option<(Vec<u8>, Secret)> {
    let (public, secret) = HqcKem::<P>::generate_key_deterministic(seed.try_into().ok()?);
    Some((public.as_ref().to_vec(), Secret::copy_of(secret.as_ref())))
}

#[inline(never)]
fn encapsulated<P: HqcParams>(
    public: &[u8],
    message: &[u8],
    salt: &[u8],
) -> Option<(Vec<u8>, Secret)> {
    let public = EncapsulationKey::<P>::try_from(public).ok()?;
    let salt = salt.try_into().ok()?;
    let (ciphertext, shared) = public.encapsulate_deterministic(message, salt).ok()?;
    Some((
        ciphertext.as_ref().to_vec(),
        Secret::copy_of(shared.as_ref()),
    ))
}

#[inline(never)]
fn decapsulated<P: HqcParams>(secret: &[u8], ciphertext: &[u8]) -> Option<Secret> {
    let secret = DecapsulationKey::<P>::try_from(secret).ok()?;
    let ciphertext = Ciphertext::<P>::try_from(ciphertext).ok()?;
    Some(Secret::copy_of(secret.decapsulate(&ciphertext).as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use ring::digest::{digest, SHA256};

    const LEVELS: [u8; 3] = [1, 3, 5];
    /// What a test draws of each kind; the same each time.
    const SEED: [u8; SEED_BYTES] = [1; SEED_BYTES];
    const SALT: [u8; SALT_BYTES] = [2; SALT_BYTES];

    /// Vector 0 of the official `hqc-1.rsp`, `hqc-3.rsp` and `hqc-5.rsp` in the crate's source: what they draw (the same
    /// stream, of which each takes seed, message and salt), then SHA-256 of public key, secret key and ciphertext, and
    /// the shared secret.
    const DRAWN: &str = "cefc0d60050e04c3171859e54ba888d2f670e22ebe926b0b307a65264fbc08f8\
        3deca12f8963918f537c67f2571fffde4bb80684d826860c7515ce86e35571f5\
        fff32ba9c40be67657b1f25319c6e2af";
    const KNOWN: [[&str; 4]; 3] = [
        [
            "c37fe10f235824d901893d33c78b65080da74ae93f4046ae0187faf027986add",
            "99daf449b2b69fa8e259be9415db23f944f622a99ac72fea3840e040e12a93a4",
            "1188c0195d653c53f2724e41cc28a41c1de728f0adff5d50d09ad796ca389d52",
            "56321ed955c76c4d3d9429501505e6b38037fe33f10b779ef5977190b5f4004b",
        ],
        [
            "9886db25b41bd5d82d94a57bd9053325aa66de520eeb204c375c6b4f2a45ce0a",
            "a76ea51c0bab761f02dc9cab0595b9631201d038077977d719a09dd43805e502",
            "acbf56e6658de5dfdf7aea5f7231f6d55dab5f2e129311683c5319334542d08f",
            "5e5aea663e602462fe4750392b7aab8fab4c0d76546b8e2aba6e8a8c254e34bd",
        ],
        [
            "06652b24ee6cc6717defc73fc2aa16ebafb53e9b1db73c700f82ba38d9f57ea9",
            "101c30deb9023d671a80bcf63676419c6e0ce1a982ef6eb1b9481d91453c644d",
            "07ed53ae6977885ead0182afd94d787ef5bee8092b21479baf3813fdd5f76464",
            "79b1d284daa69112fea8323f7d4c60bd3c862cd500661adcf335c60b92b6abaf",
        ],
    ];

    fn sum(bytes: &[u8]) -> String {
        hex::shown(digest(&SHA256, bytes).as_ref())
    }

    #[test]
    fn the_official_vectors_come_out() {
        let drawn = hex::read(DRAWN).expect("hexadecimal");
        for (level, known) in LEVELS.into_iter().zip(KNOWN) {
            let (seed, rest) = drawn.split_at(SEED_BYTES);
            let (message, rest) = rest.split_at(message_bytes(level));
            let (public, secret) = pair(level, seed).expect("made");
            let salt = &rest[..SALT_BYTES];
            let (ciphertext, shared) = encapsulate(level, &public, message, salt).expect("made");
            let opened = decapsulate(level, &secret, &ciphertext).expect("made");
            let made = [sum(&public), sum(&secret), sum(&ciphertext)];
            assert_eq!(
                (&made[..], &hex::shown(&opened)[..]),
                (&known.map(str::to_owned)[..3], known[3])
            );
            assert_eq!(*opened, *shared);
        }
    }

    /// Bytes without end that look random and are the same each time.
    fn noise(length: usize, number: u8) -> Vec<u8> {
        let block = |count: usize| digest(&SHA256, &[&count.to_be_bytes()[..], &[number]].concat());
        let blocks = (0..=length / 32).map(block);
        let mut bytes: Vec<u8> = blocks.flat_map(|block| block.as_ref().to_vec()).collect();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn another_ciphertext_gives_another_secret() {
        for level in LEVELS {
            let message = vec![3; message_bytes(level)];
            let (public, secret) = pair(level, &SEED).expect("made");
            let (right, shared) = encapsulate(level, &public, &message, &SALT).expect("made");
            let length = right.len();
            let mut others = vec![vec![0; length], vec![0xff; length]];
            others.extend((0..8).map(|number| noise(length, number)));
            // The first bits, the last of the code word, its spare ones, and the salt.
            for place in [
                0,
                1,
                length / 2,
                length - 18,
                length - 17,
                length - 16,
                length - 1,
            ] {
                let mut altered = right.clone();
                altered[place] ^= 0x80;
                others.push(altered);
            }
            for other in others {
                let opened = decapsulate(level, &secret, &other).expect("a secret all the same");
                assert_ne!(*opened, *shared);
                let again = decapsulate(level, &secret, &other).expect("likewise");
                assert_eq!(*opened, *again, "refused in silence, always alike");
            }
        }
    }

    #[test]
    fn keys_that_are_none_do_no_harm() {
        for level in LEVELS {
            let message = vec![3; message_bytes(level)];
            let (public, secret) = pair(level, &SEED).expect("made");
            let (ciphertext, _) = encapsulate(level, &public, &message, &SALT).expect("made");
            for number in 0..4 {
                let public = noise(public.len(), number);
                assert!(encapsulate(level, &public, &message, &SALT).is_some());
                let secret = noise(secret.len(), number);
                assert!(decapsulate(level, &secret, &ciphertext).is_some());
            }
            assert!(encapsulate(level, &vec![0xff; public.len()], &message, &SALT).is_some());
        }
    }

    #[test]
    fn a_wrong_length_is_refused() {
        for level in LEVELS {
            let message = vec![3; message_bytes(level)];
            let (public, secret) = pair(level, &SEED).expect("made");
            let (ciphertext, _) = encapsulate(level, &public, &message, &SALT).expect("made");
            assert!(pair(level, &SEED[1..]).is_none());
            for length in [0, 1, public.len() - 1, public.len() + 1, secret.len()] {
                let public = noise(length, 0);
                assert!(encapsulate(level, &public, &message, &SALT).is_none());
            }
            assert!(encapsulate(level, &public, &message[1..], &SALT).is_none());
            assert!(encapsulate(level, &public, &message, &SALT[1..]).is_none());
            for length in [0, 1, ciphertext.len() - 1, ciphertext.len() + 1] {
                assert!(decapsulate(level, &secret, &noise(length, 0)).is_none());
                assert!(decapsulate(level, &noise(length, 0), &ciphertext).is_none());
            }
        }
    }

    #[test]
    fn the_version_shown_is_the_one_built_in() {
        let built = include_str!("../Cargo.lock").split_once("name = \"hqc-kem\"\nversion = \"");
        let (version, _) = built
            .and_then(|(_, rest)| rest.split_once('"'))
            .expect("a version");
        assert_eq!(PROVIDER, format!("hqc-kem {version} (not audited)"));
    }
}
