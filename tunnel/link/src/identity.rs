//! Who is who: a GCS's signing keys and their hash, a drone's PSK, and the PSKs that a GCS knows.

use crate::primitives::PrimitiveError;
use crate::registry::Sig;
use crate::schedule::{PskKeys, PSK_BYTES};
use crate::secret::Secret;
use crate::transcript::gcs_key_id;
use crate::wire::{DRONE_ID_BYTES, GCS_ID_BYTES};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::HashMap;
use std::sync::Arc;

/// A drone's key id.
pub type DroneId = [u8; DRONE_ID_BYTES];

/// Public keys of one GCS, and their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcsPublic {
    keys: Vec<(&'static Sig, Vec<u8>)>,
    /// Bytes that a drone pins.
    pub key_id: [u8; GCS_ID_BYTES],
}

impl GcsPublic {
    /// Of at least one key, each of its scheme's length; `None` otherwise, or where a scheme comes twice.
    #[must_use]
    pub fn new(mut keys: Vec<(&'static Sig, Vec<u8>)>) -> Option<Self> {
        keys.sort_by_key(|(sig, _)| sig.code);
        let fits = keys.iter().all(|(sig, key)| key.len() == sig.public_bytes);
        let twice = keys.windows(2).any(|pair| pair[0].0.code == pair[1].0.code);
        if keys.is_empty() || !fits || twice {
            return None;
        }
        let key_id = gcs_key_id(keys.iter().map(|(sig, key)| (sig.code, &key[..])));
        Some(Self { keys, key_id })
    }

    /// The key of this scheme.
    #[must_use]
    pub fn key(&self, sig: &Sig) -> Option<&[u8]> {
        let mut found = self.keys.iter().filter(|(held, _)| *held == sig);
        found.next().map(|(_, key)| &key[..])
    }

    /// Every scheme with its key, in order of codes.
    pub fn keys(&self) -> impl Iterator<Item = (&'static Sig, &[u8])> {
        self.keys.iter().map(|(sig, key)| (*sig, &key[..]))
    }
}

/// A GCS's own identity: what it shows, and the signing key behind each public one that it may use.
pub struct GcsIdentity {
    /// What drones pin.
    pub public: GcsPublic,
    /// Signing keys.
    pub secrets: Vec<(&'static Sig, Secret)>,
}

impl GcsIdentity {
    /// The signing key of this scheme.
    #[must_use]
    pub fn secret(&self, sig: &Sig) -> Option<&[u8]> {
        let mut found = self.secrets.iter().filter(|(held, _)| *held == sig);
        found.next().map(|(_, key)| &key[..])
    }
}

/// Keys of every drone that a GCS knows. An unknown id is answered with the keys of a PSK that nobody holds: the same
/// work follows as for a wrong MAC, and the MAC fails by itself.
pub struct PskStore {
    drones: HashMap<DroneId, Arc<PskKeys>>,
    nobody: Arc<PskKeys>,
}

impl PskStore {
    /// Of these drones.
    ///
    /// # Errors
    /// The system has no randomness for the PSK of nobody.
    pub fn new(drones: Vec<(DroneId, PskKeys)>) -> Result<Self, PrimitiveError> {
        let mut psk = [0; PSK_BYTES];
        SystemRandom::new()
            .fill(&mut psk)
            .map_err(|_| PrimitiveError("the system gives no randomness".to_owned()))?;
        let shared = drones.into_iter().map(|(id, keys)| (id, Arc::new(keys)));
        Ok(Self {
            drones: shared.collect(),
            nobody: Arc::new(PskKeys::derive(&psk)),
        })
    }

    /// The keys of this drone alone: who holds them holds nobody else's.
    #[must_use]
    pub fn only(&self, id: &DroneId) -> Self {
        let own = self.drones.get(id);
        Self {
            drones: own
                .map(|keys| (*id, Arc::clone(keys)))
                .into_iter()
                .collect(),
            nobody: Arc::clone(&self.nobody),
        }
    }

    /// Keys of this drone, or of nobody; never tells which.
    #[must_use]
    pub fn lookup(&self, id: &DroneId) -> &PskKeys {
        self.drones.get(id).unwrap_or(&self.nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_one_drone_holds_no_other_ones_keys() {
        let keys = |byte| PskKeys::derive(&[byte; PSK_BYTES]);
        let store = PskStore::new(vec![(*b"vehicle1", keys(1)), (*b"vehicle2", keys(2))]);
        let store = store.expect("random");
        let held = store.only(b"vehicle1");
        let other = Arc::downgrade(&store.drones[b"vehicle2"]);
        assert!(other.upgrade().is_some());
        drop(store); // the other one was revoked
        assert!(other.upgrade().is_none(), "and its keys are erased");
        assert_eq!(*held.lookup(b"vehicle1").hello, *keys(1).hello);
        assert_ne!(*held.lookup(b"vehicle2").hello, *keys(2).hello);
    }
}
