//! Frames of the handshake: bytes to fields and back, with lengths that the registry fixes (docs/PROTOCOL.md, section 3).
//!
//! What a field must contain is the machines' business.

use crate::error::{HandshakeError, Reason};
use crate::suite::Suite;

/// The one version.
pub const VERSION: u8 = 1;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 4;
/// Bytes of a MAC.
pub const MAC_BYTES: usize = 32;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;
/// Bytes of a drone's key id.
pub const DRONE_ID_BYTES: usize = 8;
/// Bytes of a GCS's key id.
pub const GCS_ID_BYTES: usize = 32;
/// Bytes of a session's id.
pub const SESSION_ID_BYTES: usize = 16;
/// A Hello that begins anew.
pub const PURPOSE_NEW: u8 = 1;
/// A Hello that replaces a session.
pub const PURPOSE_REKEY: u8 = 2;
/// Hello flag: the drone signs too.
pub const FLAG_DRONE_SIGNS: u8 = 1;
/// The one Retry there is.
pub const RETRY: [u8; HEADER_BYTES] = [(VERSION << 4) | 7, 0, 0, 0];
/// The longest frame that may begin a drone's side of a connection.
pub const FIRST_FRAME_BYTES: usize = HEADER_BYTES + EARLY_HELLO_BODY_BYTES;
/// The one alert there is.
pub const ALERT: [u8; HEADER_BYTES] = [(VERSION << 4) | 15, 0, 0, 0];

const CHALLENGE_BODY_BYTES: usize = 1 + NONCE_BYTES + GCS_ID_BYTES;
const HELLO_BODY_BYTES: usize = 69 + MAC_BYTES;
const EARLY_HELLO_BODY_BYTES: usize = NONCE_BYTES + HELLO_BODY_BYTES;
const INDEX_BYTES: usize = 3;
const PREFIX_BYTES: usize = 4;

/// Frame types that may be awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameType {
    /// GCS, first and cheap.
    Challenge = 1,
    /// Drone, with a MAC under its PSK.
    Hello = 2,
    /// GCS: ephemeral key and signature.
    ServerHello = 3,
    /// Drone: ciphertext and FinishedDrone.
    ClientKem = 4,
    /// GCS: the last word.
    GcsFinished = 5,
    /// GCS: it does not hold the session to rekey.
    SessionUnknown = 6,
    /// GCS, which is under load: come again, with the Hello first.
    Retry = 7,
    /// Drone, after a Retry: the nonce of the Challenge it was given, and its Hello to that one.
    EarlyHello = 8,
}

/// The header of a frame whose body has `length` bytes.
#[must_use]
pub fn header(frame: FrameType, length: usize) -> [u8; HEADER_BYTES] {
    let length = (length as u32).to_be_bytes();
    [
        (VERSION << 4) | frame as u8,
        length[1],
        length[2],
        length[3],
    ]
}

/// A whole frame of these parts.
#[must_use]
pub fn framed(frame: FrameType, parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len()).sum();
    let mut whole = Vec::with_capacity(HEADER_BYTES + length);
    whole.extend_from_slice(&header(frame, length));
    for part in parts {
        whole.extend_from_slice(part);
    }
    whole
}

/// The length that goes before a field.
#[must_use]
pub fn prefix(field: &[u8]) -> [u8; PREFIX_BYTES] {
    (field.len() as u32).to_be_bytes()
}

fn bad_length(detail: String) -> HandshakeError {
    HandshakeError::new(Reason::BadLength, detail)
}

fn signature_bounds(suite: Suite) -> (usize, usize) {
    let most = suite.sig.signature_bytes;
    let least = if suite.sig.is_variable { 1 } else { most };
    (PREFIX_BYTES + least, PREFIX_BYTES + most)
}

/// (least, greatest) body length; `None` where the suite is needed and not known.
fn bounds(frame: FrameType, suite: Option<Suite>, drone_signs: bool) -> Option<(usize, usize)> {
    let same = |length| Some((length, length));
    match frame {
        FrameType::Challenge => same(CHALLENGE_BODY_BYTES),
        FrameType::Hello => same(HELLO_BODY_BYTES),
        FrameType::Retry => same(0),
        FrameType::EarlyHello => same(EARLY_HELLO_BODY_BYTES),
        FrameType::GcsFinished | FrameType::SessionUnknown => same(MAC_BYTES),
        FrameType::ServerHello => {
            let suite = suite?;
            let fixed = INDEX_BYTES + PREFIX_BYTES + suite.kem.public_bytes;
            let (least, most) = signature_bounds(suite);
            Some((fixed + least, fixed + most))
        }
        FrameType::ClientKem => {
            let suite = suite?;
            let fixed = PREFIX_BYTES + suite.kem.ciphertext_bytes + MAC_BYTES;
            let (least, most) = if drone_signs {
                signature_bounds(suite)
            } else {
                (0, 0)
            };
            Some((fixed + least, fixed + most))
        }
    }
}

/// The type and body length that a header announces, once it is one that may come now.
///
/// # Errors
/// `BadVersion`, `PeerAlert`, `BadLength`, in this order.
pub fn check_header(
    bytes: [u8; HEADER_BYTES],
    expected: FrameType,
    alternatives: &[FrameType],
    suite: Option<Suite>,
    drone_signs: bool,
) -> Result<(FrameType, usize), HandshakeError> {
    let (version, kind) = (bytes[0] >> 4, bytes[0] & 0xF);
    let length = u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]) as usize;
    if version != VERSION {
        let detail = format!("the peer speaks version {version}, this end {VERSION}");
        return Err(HandshakeError::new(Reason::BadVersion, detail));
    }
    if bytes == ALERT {
        let detail = format!("the peer refused while {expected:?} was awaited");
        return Err(HandshakeError::new(Reason::PeerAlert, detail));
    }
    let mut candidates = std::iter::once(&expected).chain(alternatives);
    let found = *candidates
        .find(|frame| **frame as u8 == kind)
        .ok_or_else(|| bad_length(format!("{expected:?} was awaited, type {kind} came")))?;
    let (least, most) = bounds(found, suite, drone_signs)
        .ok_or_else(|| bad_length(format!("{found:?} came before a suite was agreed")))?;
    if (least..=most).contains(&length) {
        Ok((found, length))
    } else {
        Err(bad_length(format!(
            "{found:?} announces {length} bytes, the registry says {least} to {most}"
        )))
    }
}

/// A part of a body whose length was checked before.
fn array<const N: usize>(body: &[u8], offset: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&body[offset..offset + N]);
    found
}

fn u24(bytes: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

fn expect(frame: FrameType, body: &[u8], length: usize) -> Result<(), HandshakeError> {
    if body.len() == length {
        Ok(())
    } else {
        let got = body.len();
        Err(bad_length(format!(
            "{frame:?} has {got} bytes, not {length}"
        )))
    }
}

fn expect_version(version: u8) -> Result<(), HandshakeError> {
    if version == VERSION {
        return Ok(());
    }
    let detail = format!("the peer speaks version {version}, this end {VERSION}");
    Err(HandshakeError::new(Reason::BadVersion, detail))
}

/// GCS to drone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Fresh.
    pub nonce: [u8; NONCE_BYTES],
    /// Whose keys will sign.
    pub gcs_id: [u8; GCS_ID_BYTES],
}

impl Challenge {
    /// The whole frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(
            FrameType::Challenge,
            &[&[VERSION], &self.nonce, &self.gcs_id],
        )
    }

    /// From a body.
    ///
    /// # Errors
    /// `BadLength`, `BadVersion`.
    pub fn parse(body: &[u8]) -> Result<Self, HandshakeError> {
        expect(FrameType::Challenge, body, CHALLENGE_BODY_BYTES)?;
        expect_version(body[0])?;
        Ok(Self {
            nonce: array(body, 1),
            gcs_id: array(body, 1 + NONCE_BYTES),
        })
    }
}

/// Drone to GCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// `PURPOSE_NEW` or `PURPOSE_REKEY`.
    pub purpose: u8,
    /// The suite's three bytes.
    pub suite_code: [u8; 3],
    /// `FLAG_DRONE_SIGNS` or nothing.
    pub flags: u8,
    /// Whose PSK.
    pub drone_id: [u8; DRONE_ID_BYTES],
    /// Fresh.
    pub nonce: [u8; NONCE_BYTES],
    /// Number of the epoch that this handshake makes.
    pub epoch: u32,
    /// The index that the drone wants to see, 24 bits.
    pub rx_index: u32,
    /// The session to replace, zeros for none.
    pub old_session: [u8; SESSION_ID_BYTES],
    /// Under the PSK's hello key; zeros before it is made.
    pub mac: [u8; MAC_BYTES],
}

impl Hello {
    /// The frame without its MAC: what the MAC covers after the Challenge. `early`: the nonce of an earlier Challenge,
    /// for an EarlyHello.
    #[must_use]
    pub fn encode_unauthenticated(&self, early: Option<&[u8; NONCE_BYTES]>) -> Vec<u8> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + EARLY_HELLO_BODY_BYTES);
        match early {
            None => frame.extend_from_slice(&header(FrameType::Hello, HELLO_BODY_BYTES)),
            Some(nonce) => {
                frame.extend_from_slice(&header(FrameType::EarlyHello, EARLY_HELLO_BODY_BYTES));
                frame.extend_from_slice(nonce);
            }
        }
        frame.extend_from_slice(&[VERSION, self.purpose]);
        frame.extend_from_slice(&self.suite_code);
        frame.push(self.flags);
        frame.extend_from_slice(&self.drone_id);
        frame.extend_from_slice(&self.nonce);
        frame.extend_from_slice(&self.epoch.to_be_bytes());
        frame.extend_from_slice(&self.rx_index.to_be_bytes()[1..]);
        frame.extend_from_slice(&self.old_session);
        frame
    }

    /// From a body; the MAC is not checked here.
    ///
    /// # Errors
    /// `BadLength`, `BadVersion`.
    pub fn parse(body: &[u8]) -> Result<Self, HandshakeError> {
        expect(FrameType::Hello, body, HELLO_BODY_BYTES)?;
        expect_version(body[0])?;
        Ok(Self {
            purpose: body[1],
            suite_code: array(body, 2),
            flags: body[5],
            drone_id: array(body, 6),
            nonce: array(body, 14),
            epoch: u32::from_be_bytes(array(body, 46)),
            rx_index: u24(array(body, 50)),
            old_session: array(body, 53),
            mac: array(body, 69),
        })
    }
}

/// An EarlyHello's two parts: the nonce of the Challenge that it answers, and a Hello's body.
///
/// # Errors
/// `BadLength`.
pub fn split_early(body: &[u8]) -> Result<([u8; NONCE_BYTES], &[u8]), HandshakeError> {
    expect(FrameType::EarlyHello, body, EARLY_HELLO_BODY_BYTES)?;
    Ok((array(body, 0), &body[NONCE_BYTES..]))
}

/// GCS to drone, as slices of the body.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerHello<'a> {
    /// The body up to and including the public key.
    pub signed_part: &'a [u8],
    /// The index that the GCS wants to see.
    pub rx_index: u32,
    /// Ephemeral.
    pub public_key: &'a [u8],
    /// Over TH1.
    pub signature: &'a [u8],
}

/// ServerHello's body up to the signature.
#[must_use]
pub fn server_hello_signed_part(rx_index: u32, public_key: &[u8]) -> Vec<u8> {
    let mut part = Vec::with_capacity(INDEX_BYTES + PREFIX_BYTES + public_key.len());
    part.extend_from_slice(&rx_index.to_be_bytes()[1..]);
    part.extend_from_slice(&prefix(public_key));
    part.extend_from_slice(public_key);
    part
}

fn within(
    frame: FrameType,
    body: &[u8],
    suite: Suite,
    drone_signs: bool,
) -> Result<(), HandshakeError> {
    let allowed = bounds(frame, Some(suite), drone_signs);
    if allowed.is_some_and(|(least, most)| (least..=most).contains(&body.len())) {
        return Ok(());
    }
    let got = body.len();
    Err(bad_length(format!(
        "{frame:?} has {got} bytes, which {} does not allow",
        suite.id()
    )))
}

impl<'a> ServerHello<'a> {
    /// From a body.
    ///
    /// # Errors
    /// `BadLength` when a field's length is not the registry's.
    pub fn parse(body: &'a [u8], suite: Suite) -> Result<Self, HandshakeError> {
        within(FrameType::ServerHello, body, suite, false)?;
        let key_start = INDEX_BYTES + PREFIX_BYTES;
        let key_end = key_start + suite.kem.public_bytes;
        let signature_start = key_end + PREFIX_BYTES;
        let key_length = u32::from_be_bytes(array(body, INDEX_BYTES)) as usize;
        if key_length != suite.kem.public_bytes {
            return Err(bad_length(format!("KEM public key of {key_length} bytes")));
        }
        let told = u32::from_be_bytes(array(body, key_end)) as usize;
        let signature = &body[signature_start..];
        if told != signature.len() {
            let follow = signature.len();
            return Err(bad_length(format!(
                "signature says {told} bytes, {follow} follow"
            )));
        }
        Ok(Self {
            signed_part: &body[..key_end],
            rx_index: u24(array(body, 0)),
            public_key: &body[key_start..key_end],
            signature,
        })
    }
}

/// Drone to GCS, as slices of the body.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientKem<'a> {
    /// To be decapsulated once everything else was checked.
    pub ciphertext: &'a [u8],
    /// FinishedDrone.
    pub finished: &'a [u8],
    /// The drone's, empty where it does not sign.
    pub signature: &'a [u8],
}

impl<'a> ClientKem<'a> {
    /// From a body.
    ///
    /// # Errors
    /// `BadLength` when a field's length is not the registry's.
    pub fn parse(body: &'a [u8], suite: Suite, drone_signs: bool) -> Result<Self, HandshakeError> {
        within(FrameType::ClientKem, body, suite, drone_signs)?;
        let length = u32::from_be_bytes(array(body, 0)) as usize;
        if length != suite.kem.ciphertext_bytes {
            return Err(bad_length(format!("ciphertext of {length} bytes")));
        }
        let end = PREFIX_BYTES + length;
        let (ciphertext, finished) = (&body[PREFIX_BYTES..end], &body[end..end + MAC_BYTES]);
        let mut signature: &[u8] = &[];
        if drone_signs {
            let start = end + MAC_BYTES + PREFIX_BYTES;
            let told = u32::from_be_bytes(array(body, end + MAC_BYTES)) as usize;
            signature = &body[start..];
            if told != signature.len() {
                let follow = signature.len();
                return Err(bad_length(format!(
                    "signature says {told} bytes, {follow} follow"
                )));
            }
        }
        Ok(Self {
            ciphertext,
            finished,
            signature,
        })
    }
}

/// A ClientKem's whole frame; without a signature it ends with FinishedDrone.
#[must_use]
pub fn client_kem(ciphertext: &[u8], finished: &[u8], signature: &[u8]) -> Vec<u8> {
    let (before, after) = (prefix(ciphertext), prefix(signature));
    let mut parts: Vec<&[u8]> = vec![&before, ciphertext, finished];
    if !signature.is_empty() {
        parts.extend([&after[..], signature]);
    }
    framed(FrameType::ClientKem, &parts)
}

/// The MAC that is all of FinishedGcs and of SessionUnknown.
///
/// # Errors
/// `BadLength`.
pub fn parse_mac(frame: FrameType, body: &[u8]) -> Result<&[u8], HandshakeError> {
    expect(frame, body, MAC_BYTES)?;
    Ok(body)
}
