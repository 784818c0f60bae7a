//! Primitives for tests of the protocol itself: of the registry's lengths, fast, the same in each run, and no protection.
//! A test's attacker breaks no primitive; it owns the network.

#![allow(dead_code)] // each test takes what it needs

pub mod world;

use pq_link::primitives::{KemPair, PrimitiveError, Primitives};
use pq_link::registry::{Kem, Sig};
use pq_link::secret::Secret;
use pq_link::suite::Suite;
use ring::digest::{digest, SHA512};
use std::sync::atomic::{AtomicU64, Ordering};

/// The smallest frames of the registry.
pub fn suite() -> Suite {
    Suite::by_id("xs-x25519-aesgcm-ed25519").expect("defined")
}

/// Numbers its random values.
#[derive(Default)]
pub struct Toy(AtomicU64);

fn hashed(parts: &[&[u8]]) -> [u8; 64] {
    let found = digest(&SHA512, &parts.concat());
    found.as_ref().try_into().expect("64 bytes")
}

/// As many bytes as the registry says, of what is hashed.
fn stretched(length: usize, parts: &[&[u8]]) -> Vec<u8> {
    hashed(parts).iter().copied().cycle().take(length).collect()
}

impl Toy {
    /// 32 bytes that no other call gives.
    pub fn fresh(&self) -> [u8; 32] {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let found = hashed(&[b"toy", &number.to_be_bytes()]);
        found[..32].try_into().expect("32 bytes")
    }
}

impl Primitives for Toy {
    fn provider(&self) -> String {
        "toy".to_owned()
    }

    fn supports(&self, _: Suite) -> bool {
        true
    }

    fn kem_pair(&self, kem: &'static Kem) -> Result<KemPair, PrimitiveError> {
        let secret = self.fresh();
        Ok(KemPair {
            public: stretched(kem.public_bytes, &[b"public", &secret]),
            secret: Secret::copy_of(&secret),
        })
    }

    fn encapsulate(
        &self,
        kem: &'static Kem,
        public: &[u8],
    ) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        let ciphertext = stretched(kem.ciphertext_bytes, &[&self.fresh()]);
        let shared = stretched(kem.shared_bytes, &[b"shared", public, &ciphertext]);
        Ok((ciphertext, Secret::copy_of(&shared)))
    }

    fn decapsulate(
        &self,
        kem: &'static Kem,
        pair: &KemPair,
        ciphertext: &[u8],
    ) -> Result<Secret, PrimitiveError> {
        let shared = stretched(kem.shared_bytes, &[b"shared", &pair.public, ciphertext]);
        Ok(Secret::copy_of(&shared))
    }

    fn signing_pair(&self, sig: &'static Sig) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        let key = stretched(sig.public_bytes, &[&self.fresh()]);
        Ok((key.clone(), Secret::copy_of(&key)))
    }

    fn sign(
        &self,
        sig: &'static Sig,
        secret: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, PrimitiveError> {
        let parts = [&b"signed"[..], secret, message];
        Ok(stretched(sig.signature_bytes, &parts))
    }

    fn verify(&self, sig: &'static Sig, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
        stretched(sig.signature_bytes, &[b"signed", public, message]) == signature
    }
}
