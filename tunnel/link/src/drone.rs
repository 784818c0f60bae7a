//! The drone's end: dials, proves its PSK, verifies the GCS, encapsulates.

use crate::error::{HandshakeError, Reason};
use crate::established::{epoch_secrets, Established, RekeyFrom};
use crate::identity::{DroneId, GcsPublic};
use crate::machine::{Machine, Progress, Side};
use crate::primitives::Primitives;
use crate::schedule::{mac, mac_equal, EpochSecrets, PskKeys};
use crate::suite::Suite;
use crate::trace::Kind;
use crate::transcript::{drone_message, gcs_message, th1, th2, th3, Hash};
use crate::wire::{
    client_kem, parse_mac, Challenge, FrameType, Hello, ServerHello, FLAG_DRONE_SIGNS, MAC_BYTES,
    NONCE_BYTES, PURPOSE_NEW, PURPOSE_REKEY, SESSION_ID_BYTES,
};
use pq_core::session::Role;

/// What one dialled handshake is made of. `nonce` must be fresh; `rx_index` free in the session.
pub struct DroneSetup<'a> {
    /// What is offered.
    pub suite: Suite,
    /// This drone's key id.
    pub drone_id: DroneId,
    /// Of its PSK.
    pub psk: &'a PskKeys,
    /// The pinned identities; the first two count.
    pub trusted: &'a [GcsPublic],
    /// The policy floor.
    pub min_level: u8,
    /// 32-bit number of the epoch.
    pub epoch: u32,
    /// This host's.
    pub primitives: &'a dyn Primitives,
    /// Fresh.
    pub nonce: [u8; NONCE_BYTES],
    /// 24 bits.
    pub rx_index: u32,
    /// The session to replace.
    pub rekey: Option<RekeyFrom>,
    /// This drone's signing key in the suite's scheme, where it is to sign.
    pub signing_key: Option<&'a [u8]>,
    /// The Challenge of a connection that ended with a Retry: answered at once, before another one comes.
    pub early: Option<Challenge>,
}

/// The drone's side of a [`Machine`].
pub struct DroneSide<'a> {
    setup: DroneSetup<'a>,
    /// The Challenge of this connection.
    newest: Option<Challenge>,
    gcs: Option<&'a GcsPublic>,
    challenge: Vec<u8>,
    hello: Vec<u8>,
    handshake_id: [u8; 8],
    transcript: Hash,
    finished: [u8; MAC_BYTES],
    tx_index: u32,
    secrets: Option<EpochSecrets>,
}

/// One dialled handshake.
pub type DroneHandshake<'a> = Machine<DroneSide<'a>>;

impl<'a> DroneHandshake<'a> {
    /// Not started yet.
    #[must_use]
    pub fn new(setup: DroneSetup<'a>) -> Self {
        let (suite, signs) = (setup.suite, setup.signing_key.is_some());
        let side = DroneSide {
            setup,
            newest: None,
            gcs: None,
            challenge: Vec::new(),
            hello: Vec::new(),
            handshake_id: [0; 8],
            transcript: [0; 64],
            finished: [0; MAC_BYTES],
            tx_index: 0,
            secrets: None,
        };
        Machine::around(side, Some(suite), signs)
    }

    /// After a Retry: the Challenge to answer first on the next connection.
    #[must_use]
    pub fn to_answer(&self) -> Option<&Challenge> {
        self.side.newest.as_ref()
    }
}

fn refused<T>(reason: Reason, detail: impl Into<String>) -> Result<T, HandshakeError> {
    Err(HandshakeError::new(reason, detail))
}

impl<'a> DroneSide<'a> {
    /// Who gives this Challenge, where it is pinned and signs as the suite wants it.
    fn pinned(&self, challenge: &Challenge) -> Result<&'a GcsPublic, HandshakeError> {
        let setup = &self.setup;
        let mut pinned = setup.trusted.iter().take(2);
        let Some(gcs) = pinned.find(|gcs| gcs.key_id == challenge.gcs_id) else {
            let detail = "the GCS presents a key id that is not pinned here";
            return refused(Reason::UnpinnedGcs, detail);
        };
        if gcs.key(setup.suite.sig).is_none() {
            let detail = format!("the pinned GCS holds no {} key", setup.suite.sig.token);
            return refused(Reason::Policy, detail);
        }
        Ok(gcs)
    }

    /// The Hello to `challenge`; `early`: in the frame that goes before any Challenge of its connection.
    fn hello(&mut self, challenge: &Challenge, early: bool) -> Result<(), HandshakeError> {
        self.handshake_id.copy_from_slice(&challenge.nonce[..8]);
        self.gcs = Some(self.pinned(challenge)?);
        let setup = &self.setup;
        self.challenge = challenge.encode();
        let rekey = setup.rekey.as_ref();
        let hello = Hello {
            purpose: if rekey.is_some() {
                PURPOSE_REKEY
            } else {
                PURPOSE_NEW
            },
            suite_code: setup.suite.code(),
            flags: if setup.signing_key.is_some() {
                FLAG_DRONE_SIGNS
            } else {
                0
            },
            drone_id: setup.drone_id,
            nonce: setup.nonce,
            epoch: setup.epoch,
            rx_index: setup.rx_index,
            old_session: rekey.map_or([0; SESSION_ID_BYTES], |from| from.session_id),
            mac: [0; MAC_BYTES],
        };
        self.hello = hello.encode_unauthenticated(early.then_some(&challenge.nonce));
        let proof = mac(&setup.psk.hello, &[&self.challenge, &self.hello]);
        self.hello.extend_from_slice(&proof);
        Ok(())
    }

    fn on_challenge(
        &mut self,
        progress: &mut Progress,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        progress.mark("hello", Kind::Codec);
        let challenge = Challenge::parse(body)?;
        progress.awaited = Some(FrameType::ServerHello);
        progress.alternatives = if self.setup.rekey.is_some() {
            &[FrameType::Retry, FrameType::SessionUnknown]
        } else {
            &[FrameType::Retry]
        };
        let is_answered = self.setup.early.is_some();
        if is_answered {
            self.pinned(&challenge)?;
        } else {
            self.hello(&challenge, false)?;
        }
        // Kept for the connection after this one, where this one ends with a Retry.
        self.newest = Some(challenge);
        Ok(if is_answered {
            Vec::new()
        } else {
            self.hello.clone()
        })
    }

    fn on_session_unknown(
        &self,
        progress: &Progress,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        progress.mark("verify_finished", Kind::Kdf);
        let told = parse_mac(FrameType::SessionUnknown, body)?;
        let key = &self.setup.psk.session_unknown;
        if !mac_equal(&mac(key, &[&self.challenge, &self.hello]), told) {
            let detail = "SessionUnknown does not answer this Hello: forged or replayed";
            return refused(Reason::BadMac, detail);
        }
        let detail =
            "the GCS does not hold the session to rekey; it has restarted or let it go: dial anew";
        refused(Reason::SessionUnknown, detail)
    }

    fn on_server_hello(
        &mut self,
        progress: &mut Progress,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        let setup = &self.setup;
        let (suite, primitives) = (setup.suite, setup.primitives);
        progress.alternatives = &[];
        progress.mark("transcript", Kind::Codec);
        let hello = ServerHello::parse(body, suite)?;
        let first = th1(&self.challenge, &self.hello, hello.signed_part);
        let key = self.gcs.and_then(|gcs| gcs.key(suite.sig)).unwrap_or(&[]);
        let message = gcs_message(&first);
        progress.mark_crypto("verify", "hs_verifies");
        if !primitives.verify(suite.sig, key, &message, hello.signature) {
            let detail = "the ServerHello's signature does not verify under the pinned key";
            return refused(Reason::BadSignature, detail);
        }
        progress.mark_crypto("encaps", "hs_encaps");
        let (ciphertext, shared) = primitives.encapsulate(suite.kem, hello.public_key)?;
        progress.size(ciphertext.len());
        let mut signature = Vec::new();
        if let Some(secret) = setup.signing_key {
            progress.mark("transcript_2", Kind::Codec);
            self.transcript = th2(&first, hello.signature, &ciphertext);
            let message = drone_message(&self.transcript);
            progress.mark_crypto("sign", "hs_signatures");
            signature = primitives.sign(suite.sig, secret, &message)?;
            progress.size(signature.len());
            progress.mark("kdf", Kind::Kdf);
            self.transcript = th3(&self.transcript, &signature);
        } else {
            progress.mark("kdf", Kind::Kdf);
            self.transcript = th2(&first, hello.signature, &ciphertext);
        }
        self.finished = mac(&setup.psk.drone_finished, &[&self.transcript]);
        let old = setup.rekey.as_ref();
        let old = old.map_or(&[][..], |from| &from.rekey_secret[..]);
        let secrets = epoch_secrets(suite, setup.psk, shared, &self.transcript, old)?;
        self.secrets = Some(secrets);
        progress.mark("client_kem", Kind::Codec);
        self.tx_index = hello.rx_index;
        progress.awaited = Some(FrameType::GcsFinished);
        Ok(client_kem(&ciphertext, &self.finished, &signature))
    }

    fn on_gcs_finished(
        &mut self,
        progress: &mut Progress,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        progress.mark("verify_finished", Kind::Kdf);
        let told = parse_mac(FrameType::GcsFinished, body)?;
        let (Some(secrets), Some(gcs)) = (self.secrets.take(), self.gcs) else {
            return refused(Reason::Ended, "FinishedGcs came before ServerHello");
        };
        let parts: [&[u8]; 2] = [&self.transcript, &self.finished];
        if !mac_equal(&mac(&secrets.gcs_finished, &parts), told) {
            let detail = "FinishedGcs does not fit this transcript and secret";
            return refused(Reason::BadFinished, detail);
        }
        progress.established = Some(Established {
            role: Role::Drone,
            suite: self.setup.suite,
            epoch: self.setup.epoch,
            session_id: secrets.session_id,
            peer_key_id: gcs.key_id.to_vec(),
            handshake_id: self.handshake_id,
            rx_index: self.setup.rx_index,
            tx_index: self.tx_index,
            replaces: self.setup.rekey.as_ref().map(|from| from.session_id),
            send: secrets.drone,
            receive: secrets.gcs,
            rekey_secret: secrets.rekey_secret,
            exporter: secrets.exporter,
        });
        Ok(Vec::new())
    }
}

impl Side for DroneSide<'_> {
    fn steps(frame: Option<FrameType>) -> (&'static str, &'static str) {
        match frame {
            None | Some(FrameType::Challenge) => ("wait_challenge", "send_hello"),
            Some(FrameType::ServerHello) => ("wait_server_hello", "send_client_kem"),
            Some(_) => ("wait_finished", ""),
        }
    }

    fn begin(&mut self, progress: &mut Progress) -> Result<Vec<u8>, HandshakeError> {
        let setup = &self.setup;
        let suite = setup.suite;
        if suite.level() < setup.min_level {
            let (level, floor) = (suite.level(), setup.min_level);
            let detail = format!("{} is level {level}, the floor is {floor}", suite.id());
            return refused(Reason::Policy, detail);
        }
        match &setup.rekey {
            Some(from) if setup.epoch <= from.epoch => {
                let (new, old) = (setup.epoch, from.epoch);
                let detail = format!("epoch {new} cannot replace epoch {old}: epochs only grow");
                return refused(Reason::Policy, detail);
            }
            Some(from) if from.session_id == [0; SESSION_ID_BYTES] => {
                return refused(Reason::Policy, "a session id of zeros names no session");
            }
            _ => {}
        }
        progress.awaited = Some(FrameType::Challenge);
        let Some(challenge) = self.setup.early.clone() else {
            return Ok(Vec::new());
        };
        self.hello(&challenge, true)?;
        Ok(self.hello.clone())
    }

    fn handle(
        &mut self,
        progress: &mut Progress,
        frame: FrameType,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        match frame {
            FrameType::Challenge => self.on_challenge(progress, body),
            FrameType::ServerHello => self.on_server_hello(progress, body),
            FrameType::SessionUnknown => self.on_session_unknown(progress, body),
            FrameType::GcsFinished => self.on_gcs_finished(progress, body),
            FrameType::Retry => refused(
                Reason::Retry,
                "the GCS is under load and asks for the Hello first",
            ),
            FrameType::Hello | FrameType::EarlyHello | FrameType::ClientKem => {
                refused(Reason::BadLength, format!("{frame:?} is the drone's own"))
            }
        }
    }

    fn wipe(&mut self) {
        self.secrets = None;
        self.setup.rekey = None;
    }
}
