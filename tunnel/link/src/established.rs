//! What a completed handshake hands to the data plane, and what a rekey builds on.

use crate::identity::DroneId;
use crate::primitives::PrimitiveError;
use crate::schedule::{derive_epoch, DirectionSecrets, EpochSecrets, Inputs, PskKeys};
use crate::secret::Secret;
use crate::suite::Suite;
use crate::wire::SESSION_ID_BYTES;
use pq_core::session::{EpochKeys, Role};

/// A session's id; sixteen zeros name none.
pub type SessionId = [u8; SESSION_ID_BYTES];

/// One authenticated epoch. Its keys are erased when it is dropped.
#[derive(Debug)]
pub struct Established {
    /// Which end this is.
    pub role: Role,
    /// What was agreed.
    pub suite: Suite,
    /// 32-bit number of the epoch.
    pub epoch: u32,
    /// Names the session in a rekey's Hello.
    pub session_id: SessionId,
    /// The GCS's key id at the drone, the drone's at the GCS.
    pub peer_key_id: Vec<u8>,
    /// First 8 bytes of the Challenge's nonce, the same at both ends.
    pub handshake_id: [u8; 8],
    /// Index that this end chose.
    pub rx_index: u32,
    /// Index that the peer chose.
    pub tx_index: u32,
    /// The session that is replaced; `None`: it begins anew.
    pub replaces: Option<SessionId>,
    /// Keys of what this end sends.
    pub send: DirectionSecrets,
    /// Keys of what it receives.
    pub receive: DirectionSecrets,
    /// Mixed into the next handshake.
    pub rekey_secret: Secret,
    /// For uses outside the tunnel.
    pub exporter: Secret,
}

impl Established {
    /// Was a session replaced?
    #[must_use]
    pub fn is_rekey(&self) -> bool {
        self.replaces.is_some()
    }

    /// As the data plane takes it in.
    #[must_use]
    pub fn epoch_keys(&self) -> EpochKeys<'_> {
        EpochKeys {
            role: self.role,
            algorithm: self.suite.aead.algorithm,
            epoch: self.epoch,
            rx_index: self.rx_index,
            tx_index: self.tx_index,
            send: (&self.send.key, &self.send.iv),
            receive: (&self.receive.key, &self.receive.iv),
        }
    }
}

/// At the GCS: whose session a rekey would replace, its epoch, and the secret it left.
#[derive(Debug)]
pub struct RekeyBasis {
    /// Whose.
    pub drone_id: DroneId,
    /// Of the session to replace.
    pub epoch: u32,
    /// 32 bytes.
    pub rekey_secret: Secret,
}

/// At the drone: the session to replace.
#[derive(Debug)]
pub struct RekeyFrom {
    /// Never zeros.
    pub session_id: SessionId,
    /// Of the session to replace.
    pub epoch: u32,
    /// 32 bytes.
    pub rekey_secret: Secret,
}

impl RekeyFrom {
    /// For one more try.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            rekey_secret: Secret::copy_of(&self.rekey_secret),
            ..*self
        }
    }
}

/// The key schedule under a suite; `shared` is what its KEM gave (hybrids: X25519's part first), erased with this call.
///
/// # Errors
/// A shared secret of another length than the suite's: part of the schedule would be empty, unnoticed.
#[allow(clippy::needless_pass_by_value)] // dropped, and so erased, here
pub fn epoch_secrets(
    suite: Suite,
    psk: &PskKeys,
    shared: Secret,
    transcript: &[u8],
    old_rekey_secret: &[u8],
) -> Result<EpochSecrets, PrimitiveError> {
    if shared.len() != suite.kem.shared_bytes {
        return Err(PrimitiveError(format!(
            "{}: a shared secret of {} bytes",
            suite.kem.token,
            shared.len()
        )));
    }
    let (x25519_secret, kem_secret) = shared.split_at(suite.kem.x25519_bytes());
    let inputs = Inputs {
        kem_secret,
        x25519_secret,
        old_rekey_secret,
    };
    let algorithm = suite.aead.algorithm;
    let (key_bytes, iv_bytes) = (algorithm.key_bytes(), algorithm.nonce_bytes());
    Ok(derive_epoch(psk, &inputs, transcript, key_bytes, iv_bytes))
}
