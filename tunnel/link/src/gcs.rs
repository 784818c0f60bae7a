//! The GCS's end: challenges first, spends one MAC before it believes anything, checks before it decapsulates.

use crate::error::{HandshakeError, Reason};
use crate::established::{epoch_secrets, Established, RekeyBasis, SessionId};
use crate::identity::{DroneId, GcsIdentity, PskStore};
use crate::machine::{Machine, Progress, Side};
use crate::primitives::{KemPair, Primitives};
use crate::registry::{Kem, Sig};
use crate::schedule::{mac, mac_equal, PskKeys};
use crate::secret::Secret;
use crate::suite::Suite;
use crate::trace::Kind;
use crate::transcript::{drone_message, gcs_message, th1, th2, th3, Hash};
use crate::wire::{
    framed, prefix, server_hello_signed_part, split_early, Challenge, ClientKem, FrameType, Hello,
    FLAG_DRONE_SIGNS, MAC_BYTES, NONCE_BYTES, PURPOSE_NEW, PURPOSE_REKEY, SESSION_ID_BYTES,
};
use pq_core::session::Role;

/// Asked with the drone's key id once its MAC has verified; an error refuses.
pub type AdmitKey<'a> = &'a (dyn Fn(&DroneId) -> Result<(), HandshakeError> + 'a);
/// Told the key id that a Hello names before anything of it is believed: for the local log, and for nothing else.
pub type NoteClaim<'a> = &'a (dyn Fn(&DroneId) + 'a);
/// What a rekey of this session builds on; `None`: not held here.
pub type FindBasis<'a> = &'a (dyn Fn(&SessionId) -> Option<RekeyBasis> + 'a);
/// Is a nonce one that this GCS gave to who dials now, lately? An error refuses.
pub type Redeem<'a> = &'a (dyn Fn(&[u8; NONCE_BYTES]) -> Result<(), HandshakeError> + 'a);
/// A drone's registered public key of a scheme.
pub type FindDroneKey<'a> = &'a (dyn Fn(&DroneId, &Sig) -> Option<Vec<u8>> + 'a);

/// A pair of a KEM made before, for this handshake alone; `None`: made on the spot.
pub type ReadyPair<'a> = &'a (dyn Fn(&'static Kem) -> Option<KemPair> + 'a);

/// What one accepted handshake is made of. `nonce` must be fresh; `rx_index` free in the session.
pub struct GcsSetup<'a> {
    /// Its own keys.
    pub identity: &'a GcsIdentity,
    /// Of the drones it knows.
    pub psks: &'a PskStore,
    /// Suites that it may speak now.
    pub accepted: &'a [Suite],
    /// The policy floor.
    pub min_level: u8,
    /// This host's.
    pub primitives: &'a dyn Primitives,
    /// Fresh.
    pub nonce: [u8; NONCE_BYTES],
    /// 24 bits.
    pub rx_index: u32,
    /// Who claims to dial.
    pub note_claim: NoteClaim<'a>,
    /// Limits by key id.
    pub admit_key: AdmitKey<'a>,
    /// Sessions that may be rekeyed.
    pub rekey_basis: FindBasis<'a>,
    /// Registered keys of drones; where given, a drone must sign.
    pub drone_keys: Option<FindDroneKey<'a>>,
    /// Was this nonce given lately to who dials now? Where given, a Hello may answer it instead of this Challenge.
    pub redeem: Option<Redeem<'a>>,
}

/// What an accepted Hello leaves for ClientKem.
struct Offered<'a> {
    hello: Hello,
    psk: &'a PskKeys,
    pair: KemPair,
    th1: Hash,
    signature: Vec<u8>,
    drone_key: Vec<u8>,
    old_rekey_secret: Option<Secret>,
}

/// The GCS's side of a [`Machine`].
pub struct GcsSide<'a> {
    setup: GcsSetup<'a>,
    ready_pair: Option<ReadyPair<'a>>,
    challenge: Vec<u8>,
    handshake_id: [u8; 8],
    offered: Option<Offered<'a>>,
}

/// One accepted handshake.
pub type GcsHandshake<'a> = Machine<GcsSide<'a>>;

impl<'a> GcsHandshake<'a> {
    /// Not started yet.
    #[must_use]
    pub fn new(setup: GcsSetup<'a>) -> Self {
        let side = GcsSide {
            setup,
            ready_pair: None,
            challenge: Vec::new(),
            handshake_id: [0; 8],
            offered: None,
        };
        Machine::around(side, None, false)
    }

    /// Asks for a pair made before, once a Hello was found right.
    #[must_use]
    pub fn with_pairs(mut self, ready_pair: ReadyPair<'a>) -> Self {
        self.side.ready_pair = Some(ready_pair);
        self
    }

    /// One whose Hello was found right before, by whoever let it wait for its turn: its deadline has the allowance of the
    /// suite that this GCS speaks from the beginning, not only once the Hello was worked for.
    #[must_use]
    pub fn after_waiting(setup: GcsSetup<'a>, suite: Suite) -> Self {
        let mut machine = Self::new(setup);
        machine.agree(suite);
        machine
    }
}

fn refused<T>(reason: Reason, detail: impl Into<String>) -> Result<T, HandshakeError> {
    Err(HandshakeError::new(reason, detail))
}

/// The Hello of a whole frame, once its MAC over it and the Challenge's frame verified.
///
/// # Errors
/// `BadLength`, `BadVersion`, `BadMac`. `note_claim` has been told before, where the Hello could be read.
pub fn check_hello(
    psks: &PskStore,
    challenge_frame: &[u8],
    hello_frame: &[u8],
    hello_body: &[u8],
    note_claim: NoteClaim<'_>,
) -> Result<Hello, HandshakeError> {
    let hello = Hello::parse(hello_body)?;
    note_claim(&hello.drone_id);
    let psk = psks.lookup(&hello.drone_id);
    let covered = &hello_frame[..hello_frame.len() - MAC_BYTES];
    if !mac_equal(&mac(&psk.hello, &[challenge_frame, covered]), &hello.mac) {
        return refused(Reason::BadMac, "Hello: unknown key id or wrong MAC");
    }
    Ok(hello)
}

impl GcsSide<'_> {
    /// A Hello that answers the Challenge of an earlier connection.
    fn on_early_hello(
        &mut self,
        progress: &mut Progress,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        let (nonce, hello_body) = split_early(body)?;
        let Some(redeem) = self.setup.redeem else {
            return refused(Reason::BadLength, "no Challenge is remembered here");
        };
        redeem(&nonce)?;
        let gcs_id = self.setup.identity.public.key_id;
        self.challenge = Challenge { nonce, gcs_id }.encode();
        self.handshake_id.copy_from_slice(&nonce[..8]);
        let frame = framed(FrameType::EarlyHello, &[body]);
        self.on_hello(progress, &frame, hello_body)
    }

    fn on_hello(
        &mut self,
        progress: &mut Progress,
        hello_frame: &[u8],
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        progress.mark("check_hello", Kind::Kdf);
        let setup = &self.setup;
        let note = setup.note_claim;
        let hello = check_hello(setup.psks, &self.challenge, hello_frame, body, note)?;
        let psk = setup.psks.lookup(&hello.drone_id);
        (setup.admit_key)(&hello.drone_id)?;
        let suite = self.check_offer(&hello)?;
        let drone_key = self.check_drone_auth(&hello, suite)?;
        if !setup.primitives.supports(suite) {
            let detail = format!("{} is not available on this host", suite.id());
            return refused(Reason::UnknownSuite, detail);
        }
        let old_rekey_secret = self.check_purpose(&hello, hello_frame, psk)?;
        progress.mark("keygen", Kind::Crypto);
        let ready = self.ready_pair.and_then(|ready| ready(suite.kem));
        let pair = if let Some(pair) = ready {
            pair
        } else {
            progress.count("hs_keygens");
            setup.primitives.kem_pair(suite.kem)?
        };
        progress.size(pair.public.len());
        progress.mark("transcript", Kind::Codec);
        let signed_part = server_hello_signed_part(setup.rx_index, &pair.public);
        let first = th1(&self.challenge, hello_frame, &signed_part);
        let secret = setup.identity.secret(suite.sig).unwrap_or(&[]);
        let message = gcs_message(&first);
        progress.mark_crypto("sign", "hs_signatures");
        let signature = setup.primitives.sign(suite.sig, secret, &message)?;
        progress.size(signature.len());
        progress.mark("server_hello", Kind::Codec);
        let parts: [&[u8]; 3] = [&signed_part, &prefix(&signature), &signature];
        let answer = framed(FrameType::ServerHello, &parts);
        progress.suite = Some(suite);
        progress.drone_signs = !drone_key.is_empty();
        progress.awaited = Some(FrameType::ClientKem);
        progress.alternatives = &[];
        self.offered = Some(Offered {
            hello,
            psk,
            pair,
            th1: first,
            signature,
            drone_key,
            old_rekey_secret,
        });
        Ok(answer)
    }

    /// The offered suite, once the authentic Hello asks for nothing that policy forbids.
    fn check_offer(&self, hello: &Hello) -> Result<Suite, HandshakeError> {
        if hello.flags & !FLAG_DRONE_SIGNS != 0 {
            let detail = format!("Hello has flags {:#x}", hello.flags);
            return refused(Reason::BadLength, detail);
        }
        let Some(suite) = Suite::by_code(hello.suite_code) else {
            let detail = format!(
                "suite code {:02x?} is not in the registry",
                hello.suite_code
            );
            return refused(Reason::UnknownSuite, detail);
        };
        let (id, level, floor) = (suite.id(), suite.level(), self.setup.min_level);
        if level < floor {
            let detail = format!("{id} is level {level}, the floor is {floor}");
            return refused(Reason::Policy, detail);
        }
        if !self.setup.accepted.contains(&suite) {
            let accepted = self.setup.accepted;
            let spoken = match accepted.len() {
                0..=4 => accepted
                    .iter()
                    .map(Suite::id)
                    .collect::<Vec<_>>()
                    .join(", "),
                count => format!("{count} other suites"),
            };
            let detail = format!("{id} was offered, this end is prepared for {spoken}");
            return refused(Reason::Policy, detail);
        }
        if self.setup.identity.secret(suite.sig).is_none() {
            let detail = format!("this GCS holds no {} key", suite.sig.token);
            return refused(Reason::Policy, detail);
        }
        Ok(suite)
    }

    /// The drone's registered key, empty where it is not to sign: both ends must have been told the same.
    fn check_drone_auth(&self, hello: &Hello, suite: Suite) -> Result<Vec<u8>, HandshakeError> {
        let signs = hello.flags & FLAG_DRONE_SIGNS != 0;
        let key = match (signs, self.setup.drone_keys) {
            (false, None) => return Ok(Vec::new()),
            (true, Some(find)) => find(&hello.drone_id, suite.sig),
            (true, None) => {
                return refused(Reason::Policy, "the drone signs, none is to sign here");
            }
            (false, Some(_)) => {
                return refused(Reason::Policy, "the drone does not sign, it must here");
            }
        };
        let key = key.filter(|key| !key.is_empty());
        key.ok_or_else(|| {
            let detail = format!("no {} key is registered for this drone", suite.sig.token);
            HandshakeError::new(Reason::Policy, detail)
        })
    }

    /// The rekey secret to mix in: none for a new session, the old session's for a rekey of it.
    fn check_purpose(
        &self,
        hello: &Hello,
        hello_frame: &[u8],
        psk: &PskKeys,
    ) -> Result<Option<Secret>, HandshakeError> {
        let names_none = hello.old_session == [0; SESSION_ID_BYTES];
        match (hello.purpose, names_none) {
            (PURPOSE_NEW, true) => return Ok(None),
            (PURPOSE_REKEY, false) => {}
            (purpose, _) => {
                let detail = format!("purpose {purpose} with this old session is not defined");
                return refused(Reason::Policy, detail);
            }
        }
        let Some(basis) = (self.setup.rekey_basis)(&hello.old_session) else {
            let proof = mac(&psk.session_unknown, &[&self.challenge, hello_frame]);
            let detail = "a drone would rekey a session that is not held here";
            let mut error = HandshakeError::new(Reason::SessionUnknown, detail);
            error.answer = framed(FrameType::SessionUnknown, &[&proof]);
            return Err(error);
        };
        if basis.drone_id != hello.drone_id {
            return refused(
                Reason::Policy,
                "a drone would rekey another drone's session",
            );
        }
        if hello.epoch <= basis.epoch {
            let (new, old) = (hello.epoch, basis.epoch);
            let detail = format!("epoch {new} cannot replace epoch {old}: epochs only grow");
            return refused(Reason::Policy, detail);
        }
        Ok(Some(basis.rekey_secret))
    }

    fn on_client_kem(
        &mut self,
        progress: &mut Progress,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        let (Some(offered), Some(suite)) = (self.offered.take(), progress.suite) else {
            return refused(Reason::Ended, "ClientKem came before Hello");
        };
        let primitives = self.setup.primitives;
        progress.mark("check_finished", Kind::Kdf);
        let client = ClientKem::parse(body, suite, progress.drone_signs)?;
        let second = th2(&offered.th1, &offered.signature, client.ciphertext);
        let transcript = if progress.drone_signs {
            th3(&second, client.signature)
        } else {
            second
        };
        let expected = mac(&offered.psk.drone_finished, &[&transcript]);
        if !mac_equal(&expected, client.finished) {
            let detail = "FinishedDrone does not fit this transcript; nothing was decapsulated";
            return refused(Reason::BadFinished, detail);
        }
        if progress.drone_signs {
            let message = drone_message(&second);
            progress.mark_crypto("verify", "hs_verifies");
            if !primitives.verify(suite.sig, &offered.drone_key, &message, client.signature) {
                return refused(
                    Reason::BadSignature,
                    "the drone did not sign this handshake",
                );
            }
        }
        progress.mark_crypto("decaps", "hs_decaps");
        let shared = primitives.decapsulate(suite.kem, &offered.pair, client.ciphertext)?;
        progress.mark("kdf", Kind::Kdf);
        let old = offered.old_rekey_secret.as_deref().unwrap_or(&[]);
        let secrets = epoch_secrets(suite, offered.psk, shared, &transcript, old)?;
        progress.mark("finished", Kind::Codec);
        let parts: [&[u8]; 2] = [&transcript, client.finished];
        let finished = mac(&secrets.gcs_finished, &parts);
        progress.established = Some(Established {
            role: Role::Gcs,
            suite,
            epoch: offered.hello.epoch,
            session_id: secrets.session_id,
            peer_key_id: offered.hello.drone_id.to_vec(),
            handshake_id: self.handshake_id,
            rx_index: self.setup.rx_index,
            tx_index: offered.hello.rx_index,
            replaces: offered
                .old_rekey_secret
                .is_some()
                .then_some(offered.hello.old_session),
            send: secrets.gcs,
            receive: secrets.drone,
            rekey_secret: secrets.rekey_secret,
            exporter: secrets.exporter,
        });
        Ok(framed(FrameType::GcsFinished, &[&finished]))
    }
}

impl Side for GcsSide<'_> {
    fn steps(frame: Option<FrameType>) -> (&'static str, &'static str) {
        match frame {
            None => ("", "send_challenge"),
            Some(FrameType::ClientKem) => ("wait_client_kem", "send_finished"),
            Some(_) => ("wait_hello", "send_server_hello"),
        }
    }

    fn begin(&mut self, progress: &mut Progress) -> Result<Vec<u8>, HandshakeError> {
        progress.mark("challenge", Kind::Codec);
        let challenge = Challenge {
            nonce: self.setup.nonce,
            gcs_id: self.setup.identity.public.key_id,
        };
        self.challenge = challenge.encode();
        self.handshake_id.copy_from_slice(&self.setup.nonce[..8]);
        progress.awaited = Some(FrameType::Hello);
        if self.setup.redeem.is_some() {
            progress.alternatives = &[FrameType::EarlyHello];
        }
        Ok(self.challenge.clone())
    }

    fn handle(
        &mut self,
        progress: &mut Progress,
        frame: FrameType,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError> {
        match frame {
            FrameType::Hello => {
                let frame = framed(FrameType::Hello, &[body]);
                self.on_hello(progress, &frame, body)
            }
            FrameType::EarlyHello => self.on_early_hello(progress, body),
            FrameType::ClientKem => self.on_client_kem(progress, body),
            other => refused(Reason::BadLength, format!("{other:?} is the GCS's own")),
        }
    }

    fn wipe(&mut self) {
        self.offered = None;
    }
}
