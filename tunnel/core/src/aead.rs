//! The three AEADs behind one type. Sealing and opening work in place; the nonce is the caller's.

use crate::packet::{HEADER_BYTES, TAG_BYTES};
use crate::raw::wiped::Wiped;
use ascon_aead::aead::{AeadInPlace, KeyInit};
use ascon_aead::Ascon128a;
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
}

impl Algorithm {
    /// By its token in suite ids.
    #[must_use]
    pub fn by_token(token: &str) -> Option<Self> {
        match token {
            "aesgcm" => Some(Self::AesGcm),
            "chacha20poly1305" => Some(Self::ChaCha20Poly1305),
            "ascon128a" => Some(Self::Ascon128a),
            _ => None,
        }
    }

    /// Length of a key in bytes.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        match self {
            Self::AesGcm | Self::ChaCha20Poly1305 => 32,
            Self::Ascon128a => 16,
        }
    }

    /// Length of IV and nonce in bytes.
    #[must_use]
    pub fn nonce_bytes(self) -> usize {
        match self {
            Self::AesGcm | Self::ChaCha20Poly1305 => 12,
            Self::Ascon128a => 16,
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

    /// Encrypt `body` in place under the sequence's nonce and return the tag. The AAD is `header`.
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
        }
        tag
    }

    /// Decrypt `sealed` (ciphertext, then tag) in place; `None` when the tag does not fit, and then the content of
    /// `sealed` means nothing. On success its first `len - 16` bytes are the plaintext.
    #[must_use]
    pub fn open(
        &self,
        sequence: u64,
        header: &[u8; HEADER_BYTES],
        sealed: &mut [u8],
    ) -> Option<usize> {
        let nonce = self.nonce(sequence);
        let length = sealed.len().checked_sub(TAG_BYTES)?;
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

    const ALL: [Algorithm; 3] = [
        Algorithm::AesGcm,
        Algorithm::ChaCha20Poly1305,
        Algorithm::Ascon128a,
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
}
