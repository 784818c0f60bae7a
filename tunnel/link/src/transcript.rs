//! Transcript hashes and the bytes that are signed (docs/PROTOCOL.md, section 4).

use crate::schedule::HASH_BYTES;
use crate::wire::prefix;
use ring::digest;

/// A transcript hash.
pub type Hash = [u8; HASH_BYTES];

fn sha512(parts: &[&[u8]]) -> Hash {
    let mut context = digest::Context::new(&digest::SHA512);
    for part in parts {
        context.update(part);
    }
    let mut found = [0; HASH_BYTES];
    found.copy_from_slice(context.finish().as_ref());
    found
}

/// TH1, over everything before the GCS's signature.
#[must_use]
pub fn th1(challenge_frame: &[u8], hello_frame: &[u8], signed_part: &[u8]) -> Hash {
    sha512(&[challenge_frame, hello_frame, signed_part])
}

/// TH2, over signature and ciphertext too.
#[must_use]
pub fn th2(th1: &Hash, signature: &[u8], ciphertext: &[u8]) -> Hash {
    let (before, after) = (prefix(signature), prefix(ciphertext));
    sha512(&[th1, &before, signature, &after, ciphertext])
}

/// TH3, which takes TH2's place where the drone signs.
#[must_use]
pub fn th3(th2: &Hash, signature: &[u8]) -> Hash {
    sha512(&[th2, &prefix(signature), signature])
}

/// What the GCS signs. The context is part of the message, because not every scheme takes one.
#[must_use]
pub fn gcs_message(th1: &Hash) -> Vec<u8> {
    [&b"pqtunnel/1 ServerHello signature\0"[..], th1].concat()
}

/// What the drone signs, where it does.
#[must_use]
pub fn drone_message(th2: &Hash) -> Vec<u8> {
    [&b"pqtunnel/1 ClientKem signature\0"[..], th2].concat()
}

/// A GCS's key id: the hash of its public keys in order of their codes.
#[must_use]
pub fn gcs_key_id<'a>(keys: impl Iterator<Item = (u8, &'a [u8])>) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA512);
    context.update(b"pqtunnel/1 GCS identity\0");
    for (code, key) in keys {
        context.update(&[code]);
        context.update(&prefix(key));
        context.update(key);
    }
    let mut found = [0; 32];
    found.copy_from_slice(&context.finish().as_ref()[..32]);
    found
}
