//! The AEADs behind one type, and `null`, which protects nothing. Sealing and opening work in place; the nonce is
//! the caller's.

use crate::packet::{HEADER_BYTES, TAG_BYTES};
use crate::raw::wiped::Wiped;
use ascon_aead::aead::{AeadInPlace, KeyInit as _};
use ascon_aead::Ascon128a;
use ascon_aead128::aead::{AeadInOut, KeyInit as _};
use ascon_aead128::AsconAead128;
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, CHACHA20_POLY1305};

/// An AEAD of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-256-GCM, SP 800-38D.
    AesGcm,
    /// ChaCha20-Poly1305, RFC 8439.
    ChaCha20Poly1305,
    /// Ascon-128a of Ascon v1.2.
    Ascon128a,
    /// Ascon-AEAD128 of SP 800-232: another algorithm than Ascon-128a.
    AsconAead128,
    /// No encryption and no tag: the `plain` baseline, which both ends must have been told to run.
    Null,
}

impl Algorithm {
    /// By its token in suite ids.
    #[must_use]
    pub fn by_token(token: &str) -> Option<Self> {
        match token {
            "aesgcm" => Some(Self::AesGcm),
            "chacha20poly1305" => Some(Self::ChaCha20Poly1305),
            "ascon128a" => Some(Self::Ascon128a),
            "asconaead128" => Some(Self::AsconAead128),
            "null" => Some(Self::Null),
            _ => None,
        }
    }

    /// Length of a key in bytes.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        match self {
            Self::AesGcm | Self::ChaCha20Poly1305 => 32,
            Self::Ascon128a | Self::AsconAead128 => 16,
            Self::Null => 0,
        }
    }

    /// Length of IV and nonce in bytes.
    #[must_use]
    pub fn nonce_bytes(self) -> usize {
        match self {
            Self::AesGcm | Self::ChaCha20Poly1305 => 12,
            Self::Ascon128a | Self::AsconAead128 => 16,
            Self::Null => 0,
        }
    }

    /// Length of the tag in bytes.
    #[must_use]
    pub fn tag_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            _ => TAG_BYTES,
        }
    }
}

/// A key or IV has a length that its algorithm does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKeyLength {
    /// `key` or `iv`.
    pub what: &'static str,
    /// Length in bytes of what was given.
    pub got: usize,
    /// Length in bytes that the algorithm takes.
    pub expected: usize,
}

enum Cipher {
    Ring(Wiped<LessSafeKey>),
    Ascon(Wiped<Ascon128a>),
    AsconAead(Wiped<AsconAead128>),
    Null,
}

/// Key and IV of one direction; both are erased when it is dropped.
pub struct DirectionKey {
    cipher: Cipher,
    iv: Wiped<u128>,
}

fn expect(what: &'static str, bytes: &[u8], expected: usize) -> Result<(), BadKeyLength> {
    let got = bytes.len();
    if got == expected {
        Ok(())
    } else {
        Err(BadKeyLength {
            what,
            got,
            expected,
        })
    }
}

impl DirectionKey {
    /// From key and IV of the algorithm's lengths.
    ///
    /// # Errors
    /// Another length.
    pub fn new(algorithm: Algorithm, key: &[u8], iv: &[u8]) -> Result<Self, BadKeyLength> {
        expect("key", key, algorithm.key_bytes())?;
        expect("iv", iv, algorithm.nonce_bytes())?;
        let wrong = |_| BadKeyLength {
            what: "key",
            got: key.len(),
            expected: algorithm.key_bytes(),
        };
        let cipher = match algorithm {
            Algorithm::AesGcm => Cipher::Ring(Wiped::new(LessSafeKey::new(
                UnboundKey::new(&AES_256_GCM, key).map_err(wrong)?,
            ))),
            Algorithm::ChaCha20Poly1305 => Cipher::Ring(Wiped::new(LessSafeKey::new(
                UnboundKey::new(&CHACHA20_POLY1305, key).map_err(wrong)?,
            ))),
            Algorithm::Ascon128a => Cipher::Ascon(Wiped::new(Ascon128a::new(key.into()))),
            Algorithm::AsconAead128 => Cipher::AsconAead(Wiped::new(
                AsconAead128::new_from_slice(key).map_err(|_| wrong(ring::error::Unspecified))?,
            )),
            Algorithm::Null => Cipher::Null,
        };
        let mut wide = [0; 16];
        wide[16 - iv.len()..].copy_from_slice(iv);
        Ok(Self {
            cipher,
            iv: Wiped::new(u128::from_be_bytes(wide)),
        })
    }

    fn nonce(&self, sequence: u64) -> [u8; 16] {
        (*self.iv ^ u128::from(sequence)).to_be_bytes()
    }

    /// Length of the tag in bytes.
    #[must_use]
    pub fn tag_bytes(&self) -> usize {
        match self.cipher {
            Cipher::Null => 0,
            _ => TAG_BYTES,
        }
    }

    /// Encrypt `body` in place under the sequence's nonce and return the tag, of which `tag_bytes` count. The AAD is
    /// `header`.
    ///
    /// # Panics
    /// Above the AEAD's length limit, which is gigabytes away from any datagram.
    pub fn seal(
        &self,
        sequence: u64,
        header: &[u8; HEADER_BYTES],
        body: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let nonce = self.nonce(sequence);
        let mut tag = [0; TAG_BYTES];
        match &self.cipher {
            Cipher::Ring(key) => {
                let sealed = key
                    .seal_in_place_separate_tag(ring_nonce(&nonce), Aad::from(header), body)
                    .expect("a datagram is far below the length limit of the AEAD");
                tag.copy_from_slice(sealed.as_ref());
            }
            Cipher::Ascon(key) => {
                let sealed = key
                    .encrypt_in_place_detached(&nonce.into(), header, body)
                    .expect("Ascon-128a has no length limit that a datagram could reach");
                tag.copy_from_slice(&sealed);
            }
            Cipher::AsconAead(key) => {
                let sealed = key
                    .encrypt_inout_detached(&nonce.into(), header, body.into())
                    .expect("Ascon-AEAD128 has no length limit that a datagram could reach");
                tag.copy_from_slice(&sealed);
            }
            Cipher::Null => {}
        }
        tag
    }

    /// Decrypt `sealed` (ciphertext, then tag) in place; `None` when the tag does not fit, and then the content of
    /// `sealed` means nothing. On success its first `len - tag_bytes` bytes are the plaintext.
    #[must_use]
    pub fn open(
        &self,
        sequence: u64,
        header: &[u8; HEADER_BYTES],
        sealed: &mut [u8],
    ) -> Option<usize> {
        let nonce = self.nonce(sequence);
        let length = sealed.len().checked_sub(self.tag_bytes())?;
        match &self.cipher {
            Cipher::Ring(key) => {
                key.open_in_place(ring_nonce(&nonce), Aad::from(header), sealed)
                    .ok()?;
            }
            Cipher::Ascon(key) => {
                let (body, tag) = sealed.split_at_mut(length);
                let tag: &[u8; TAG_BYTES] = (&*tag).try_into().ok()?;
                key.decrypt_in_place_detached(&nonce.into(), header, body, tag.into())
                    .ok()?;
            }
            Cipher::AsconAead(key) => {
                let (body, tag) = sealed.split_at_mut(length);
                let tag: &[u8; TAG_BYTES] = (&*tag).try_into().ok()?;
                key.decrypt_inout_detached(&nonce.into(), header, body.into(), tag.into())
                    .ok()?;
            }
            Cipher::Null => {}
        }
        Some(length)
    }
}

fn ring_nonce(wide: &[u8; 16]) -> Nonce {
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&wide[4..]);
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Algorithm; 4] = [
        Algorithm::AesGcm,
        Algorithm::ChaCha20Poly1305,
        Algorithm::Ascon128a,
        Algorithm::AsconAead128,
    ];

    fn key(algorithm: Algorithm) -> DirectionKey {
        let key = vec![7; algorithm.key_bytes()];
        let iv = vec![9; algorithm.nonce_bytes()];
        DirectionKey::new(algorithm, &key, &iv).expect("lengths fit")
    }

    #[test]
    fn round_trip_and_every_altered_byte() {
        for algorithm in ALL {
            let key = key(algorithm);
            let header = [1, 2, 3, 4, 5, 6, 7, 8];
            let mut sealed = b"one MAVLink datagram".to_vec();
            let tag = key.seal(5, &header, &mut sealed);
            sealed.extend_from_slice(&tag);
            for place in 0..sealed.len() {
                let mut altered = sealed.clone();
                altered[place] ^= 0x20;
                assert_eq!(key.open(5, &header, &mut altered), None);
            }
            assert_eq!(key.open(6, &header, &mut sealed.clone()), None);
            assert_eq!(key.open(5, &[0; 8], &mut sealed.clone()), None);
            assert_eq!(key.open(5, &header, &mut [0; 15]), None);
            assert_eq!(key.open(5, &header, &mut sealed), Some(20));
            assert_eq!(&sealed[..20], b"one MAVLink datagram");
        }
    }

    #[test]
    fn lengths_are_checked() {
        for algorithm in ALL {
            let (key, iv) = (algorithm.key_bytes(), algorithm.nonce_bytes());
            let short_key = DirectionKey::new(algorithm, &vec![0; key - 1], &vec![0; iv]);
            assert_eq!(
                short_key.err().map(|e| (e.what, e.got)),
                Some(("key", key - 1))
            );
            let long_iv = DirectionKey::new(algorithm, &vec![0; key], &vec![0; iv + 1]);
            assert_eq!(
                long_iv.err().map(|e| (e.what, e.expected)),
                Some(("iv", iv))
            );
        }
    }

    #[test]
    fn null_is_reached_by_its_name_alone_and_says_that_it_protects_nothing() {
        let named: Vec<_> = ["", "plain", "none", "NULL", "aesgcm", "null"]
            .into_iter()
            .filter(|token| Algorithm::by_token(token) == Some(Algorithm::Null))
            .collect();
        assert_eq!(named, ["null"]);
        let key = DirectionKey::new(Algorithm::Null, b"", b"").expect("no key");
        let mut body = b"one MAVLink datagram".to_vec();
        let _ = key.seal(5, &[0; 8], &mut body);
        assert_eq!(key.tag_bytes(), 0);
        assert_eq!(body, b"one MAVLink datagram");
        assert_eq!(key.open(99, &[1; 8], &mut body), Some(20));
        assert!(ALL.iter().all(|algorithm| algorithm.tag_bytes() == 16));
        assert!(DirectionKey::new(Algorithm::Null, b"k", b"").is_err());
    }

    #[test]
    fn the_two_ascons_are_different_algorithms() {
        let seal = |algorithm| {
            let key = DirectionKey::new(algorithm, &[7; 16], &[9; 16]).expect("lengths fit");
            let mut body = [0; 20];
            (key.seal(0, &[0; 8], &mut body), body)
        };
        let (old, standard) = (seal(Algorithm::Ascon128a), seal(Algorithm::AsconAead128));
        assert_ne!(old.0, standard.0);
        assert_ne!(old.1, standard.1);
    }
}
