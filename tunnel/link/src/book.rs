//! The epochs that may be rekeyed, found by session id and by nothing else: numbers begin anew when a drone restarts.

use crate::error::{HandshakeError, Reason};
use crate::established::{Established, RekeyBasis, RekeyFrom, SessionId};
use crate::identity::DroneId;
use crate::secret::Secret;
use pq_core::session::Role;
use std::time::{Duration, Instant};

/// Of an epoch, what a rekey needs.
struct Known {
    session_id: SessionId,
    epoch: u32,
    peer_key_id: Vec<u8>,
    rekey_secret: Secret,
}

/// Of one session.
#[derive(Default)]
pub struct Book {
    /// The peer has been heard on it.
    confirmed: Option<Known>,
    /// Made last, not heard yet.
    newest: Option<Known>,
    /// Arrival of the handshake that was entered last.
    arrival: u64,
}

impl Book {
    /// GCS: may these keys be taken in? `arrival` orders the handshakes of one station. Between a Hello and its end time
    /// passes, in which the drone may have dialled again: whoever holds back an older handshake's last frame must not
    /// put its keys, which nobody has any more, in the place of the newer ones.
    ///
    /// # Errors
    /// `Policy`: a newer handshake of this drone has completed, or the session to replace is held no more.
    pub fn admits(&self, established: &Established, arrival: u64) -> Result<(), HandshakeError> {
        let what = if arrival < self.arrival {
            "a newer handshake of this drone has completed before this one"
        } else if established
            .replaces
            .is_some_and(|session| self.basis(&session).is_none())
        {
            "the session that this rekey would replace has been replaced before its end"
        } else {
            return Ok(());
        };
        Err(HandshakeError::new(Reason::Policy, what))
    }

    /// A handshake has completed. At the drone it ends the one before.
    pub fn enter(&mut self, established: Established, arrival: u64) {
        self.arrival = self.arrival.max(arrival);
        if established.role == Role::Drone {
            self.confirmed = None; // the drone rekeys from its newest epoch alone
        }
        self.newest = Some(Known {
            session_id: established.session_id,
            epoch: established.epoch,
            peer_key_id: established.peer_key_id,
            rekey_secret: established.rekey_secret,
        });
    }

    /// Once the newest epoch was heard, the one before it is never named again.
    pub fn settle(&mut self, is_confirmed: bool) {
        if is_confirmed {
            if let Some(newest) = self.newest.take() {
                self.confirmed = Some(newest);
            }
        }
    }

    /// GCS: what a rekey of this session builds on.
    #[must_use]
    pub fn basis(&self, session: &SessionId) -> Option<RekeyBasis> {
        let held = [&self.newest, &self.confirmed];
        let mut found = held.into_iter().flatten();
        let known = found.find(|known| known.session_id == *session)?;
        let drone_id: DroneId = known.peer_key_id[..].try_into().ok()?;
        Some(RekeyBasis {
            drone_id,
            epoch: known.epoch,
            rekey_secret: Secret::copy_of(&known.rekey_secret),
        })
    }

    /// Drone: what the next rekey builds on.
    #[must_use]
    pub fn from(&self) -> Option<RekeyFrom> {
        let known = self.newest.as_ref().or(self.confirmed.as_ref())?;
        Some(RekeyFrom {
            session_id: known.session_id,
            epoch: known.epoch,
            rekey_secret: Secret::copy_of(&known.rekey_secret),
        })
    }

    /// GCS: the key ids whose sessions are held.
    #[must_use]
    pub fn holds(&self, id: &DroneId) -> bool {
        let held = [&self.newest, &self.confirmed];
        held.into_iter()
            .flatten()
            .any(|known| known.peer_key_id == *id)
    }
}

/// The last completed handshake, to be shown.
#[derive(Clone)]
pub struct LastHandshake {
    /// Suite id.
    pub suite: String,
    /// Number of its epoch.
    pub epoch: u32,
    /// Did it replace a session?
    pub is_rekey: bool,
    /// From connect or accept to the keys, at this end.
    pub wall: Duration,
    /// When it completed.
    pub at: Instant,
    /// First 8 bytes of the Challenge's nonce.
    pub handshake_id: [u8; 8],
}

impl LastHandshake {
    /// It completed now.
    #[must_use]
    pub fn of(established: &Established, wall: Duration) -> Self {
        Self {
            suite: established.suite.id(),
            epoch: established.epoch,
            is_rekey: established.is_rekey(),
            wall,
            at: Instant::now(),
            handshake_id: established.handshake_id,
        }
    }

    /// For the log.
    #[must_use]
    pub fn line(&self) -> String {
        let what = if self.is_rekey {
            "rekey"
        } else {
            "new session"
        };
        let ms = self.wall.as_secs_f64() * 1e3;
        format!("{what}: {}, epoch {}, {ms:.2} ms", self.suite, self.epoch)
    }
}
