//! Key schedule: HKDF-SHA-512 (RFC 5869) from PSK and KEM secret to every key of an epoch (docs/PROTOCOL.md, section 5).

use crate::secret::Secret;
use crate::wire::{MAC_BYTES, SESSION_ID_BYTES};
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// Bytes of SHA-512.
pub const HASH_BYTES: usize = 64;
/// Bytes of a PSK.
pub const PSK_BYTES: usize = 32;
/// Bytes of a rekey secret and of an exporter.
pub const SECRET_BYTES: usize = 32;

/// HMAC-SHA-512 over the parts, whose first `length` bytes are kept.
fn hmac_sha512(key: &[u8], parts: &[&[u8]], length: usize) -> Secret {
    let key = hmac::Key::new(hmac::HMAC_SHA512, key);
    let mut context = hmac::Context::with_key(&key);
    for part in parts {
        context.update(part);
    }
    Secret::copy_of(&context.sign().as_ref()[..length])
}

/// HKDF-Expand for at most one block; no key of this protocol is longer.
fn expand(prk: &[u8], label: &str, context: &[u8], length: usize) -> Secret {
    let label = format!("pqtunnel/1 {label}");
    let size = (length as u16).to_be_bytes();
    let parts: [&[u8]; 5] = [&size, &[label.len() as u8], label.as_bytes(), context, &[1]];
    hmac_sha512(prk, &parts, length)
}

/// HMAC-SHA-512 over the parts, truncated to 32 bytes.
#[must_use]
pub fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; MAC_BYTES] {
    let mut found = [0; MAC_BYTES];
    found.copy_from_slice(&hmac_sha512(key, parts, MAC_BYTES));
    found
}

/// A comparison whose time does not depend on where the inputs differ.
#[must_use]
pub fn mac_equal(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

/// What one PSK yields on its own; computed once for each PSK.
#[derive(Debug)]
pub struct PskKeys {
    /// Checked before any public-key work.
    pub hello: Secret,
    /// Checked before decapsulation.
    pub drone_finished: Secret,
    /// The one authenticated refusal.
    pub session_unknown: Secret,
    mix: Secret,
}

impl PskKeys {
    /// From a PSK of 32 bytes.
    #[must_use]
    pub fn derive(psk: &[u8; PSK_BYTES]) -> Self {
        let prk0 = hmac_sha512(&[0; HASH_BYTES], &[psk], HASH_BYTES);
        let key = |label| expand(&prk0, label, b"", HASH_BYTES);
        Self {
            hello: key("hello mac"),
            drone_finished: key("drone finished"),
            session_unknown: key("session unknown"),
            mix: key("mix"),
        }
    }
}

/// Key and IV of one direction.
#[derive(Debug)]
pub struct DirectionSecrets {
    /// The AEAD's key.
    pub key: Secret,
    /// Of the nonce's length.
    pub iv: Secret,
}

/// All that one handshake yields; `drone` and `gcs` name the sender.
#[derive(Debug)]
pub struct EpochSecrets {
    /// Key of FinishedGcs.
    pub gcs_finished: Secret,
    /// Packets from the drone.
    pub drone: DirectionSecrets,
    /// Packets from the GCS.
    pub gcs: DirectionSecrets,
    /// Mixed into the next handshake of the session.
    pub rekey_secret: Secret,
    /// For uses outside the tunnel.
    pub exporter: Secret,
    /// Names the session; not secret.
    pub session_id: [u8; SESSION_ID_BYTES],
}

/// Inputs of the key schedule beside the PSK; absent ones are empty and still length-prefixed.
pub struct Inputs<'a> {
    /// The KEM's.
    pub kem_secret: &'a [u8],
    /// X25519's in a hybrid.
    pub x25519_secret: &'a [u8],
    /// The replaced session's in a rekey.
    pub old_rekey_secret: &'a [u8],
}

/// Secrets of one epoch under TH2; lengths of key and IV are the AEAD's.
#[must_use]
pub fn derive_epoch(
    psk: &PskKeys,
    inputs: &Inputs<'_>,
    th2: &[u8],
    key_bytes: usize,
    iv_bytes: usize,
) -> EpochSecrets {
    let length = |secret: &[u8]| (secret.len() as u32).to_be_bytes();
    let Inputs {
        kem_secret,
        x25519_secret,
        old_rekey_secret,
    } = *inputs;
    let parts: [&[u8]; 6] = [
        &length(kem_secret),
        kem_secret,
        &length(x25519_secret),
        x25519_secret,
        &length(old_rekey_secret),
        old_rekey_secret,
    ];
    let master = hmac_sha512(&psk.mix, &parts, HASH_BYTES);
    let key = |label, length| expand(&master, label, th2, length);
    let mut session_id = [0; SESSION_ID_BYTES];
    session_id.copy_from_slice(&key("session id", SESSION_ID_BYTES));
    EpochSecrets {
        gcs_finished: key("gcs finished", HASH_BYTES),
        drone: DirectionSecrets {
            key: key("drone key", key_bytes),
            iv: key("drone iv", iv_bytes),
        },
        gcs: DirectionSecrets {
            key: key("gcs key", key_bytes),
            iv: key("gcs iv", iv_bytes),
        },
        rekey_secret: key("rekey", SECRET_BYTES),
        exporter: key("exporter", SECRET_BYTES),
        session_id,
    }
}
