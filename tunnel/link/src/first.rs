//! The first frame of a drone at a ground station, sans-IO but for reading: a Hello, or an EarlyHello to the Challenge of a
//! connection that is gone. Nothing of it is believed before a cookie or this connection's nonce and the PSK's MAC fit.

use crate::cookie::Cookies;
use crate::error::{HandshakeError, Reason};
use crate::gcs::{check_hello, NoteClaim};
use crate::identity::PskStore;
use crate::wire::{
    check_header, split_early, Challenge, FrameType, Hello, FIRST_FRAME_BYTES, GCS_ID_BYTES,
    HEADER_BYTES, NONCE_BYTES,
};
use std::io::{self, Read};
use std::net::IpAddr;

/// A first frame, as far as it has come.
pub struct FirstFrame(Vec<u8>);

impl Default for FirstFrame {
    fn default() -> Self {
        Self(Vec::with_capacity(FIRST_FRAME_BYTES))
    }
}

/// A right Hello.
pub struct Answered {
    /// Its fields.
    pub hello: Hello,
    /// Of the Challenge that it answers.
    pub nonce: [u8; NONCE_BYTES],
    /// It answers one of an earlier connection.
    pub is_early: bool,
}

/// Who judges: the station's keys, and what it has given to whom.
pub struct Judge<'a> {
    /// Knows nonces again.
    pub cookies: &'a mut Cookies,
    /// Of the drones that are served.
    pub psks: &'a PskStore,
    /// The station's key id.
    pub gcs_id: [u8; GCS_ID_BYTES],
    /// What limits count as one source.
    pub source: IpAddr,
    /// Monotonic.
    pub now_ns: i64,
}

fn lost(detail: impl Into<String>) -> HandshakeError {
    HandshakeError::new(Reason::ConnectionLost, detail)
}

impl FirstFrame {
    /// Read what is there, and nothing beyond the frame; true once it is whole.
    ///
    /// # Errors
    /// `BadVersion`, `PeerAlert`, `BadLength` by its header alone; `ConnectionLost`.
    pub fn read(&mut self, from: &mut impl Read) -> Result<bool, HandshakeError> {
        loop {
            let whole = match self.0.first_chunk::<HEADER_BYTES>() {
                None => HEADER_BYTES,
                Some(header) => {
                    let early = [FrameType::EarlyHello];
                    let found = check_header(*header, FrameType::Hello, &early, None, false)?;
                    HEADER_BYTES + found.1
                }
            };
            let had = self.0.len();
            if had > HEADER_BYTES && had == whole {
                return Ok(true);
            }
            let mut piece = [0; FIRST_FRAME_BYTES];
            match from.read(&mut piece[..whole - had]) {
                Ok(0) => return Err(lost("the peer closed the connection in the middle")),
                Ok(count) => self.0.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(lost(format!("the connection to the peer broke: {error}")))
                }
            }
        }
    }

    /// The right Hello of a whole frame; `given`: the nonce of this connection's Challenge. Spends nothing: who has a place
    /// for it does (`Cookies::spend`).
    ///
    /// # Errors
    /// `StaleCookie`, `BadLength`, `BadVersion`, `BadMac`; `Failed` without randomness.
    pub fn judge(
        &self,
        by: Judge<'_>,
        given: &[u8; NONCE_BYTES],
        note_claim: NoteClaim<'_>,
    ) -> Result<Answered, HandshakeError> {
        let Judge {
            cookies,
            psks,
            gcs_id,
            source,
            now_ns,
        } = by;
        let Some((header, body)) = self.0.split_first_chunk::<HEADER_BYTES>() else {
            return Err(HandshakeError::new(Reason::BadLength, "no whole frame"));
        };
        let is_early = header[0] & 0xF == FrameType::EarlyHello as u8;
        let (nonce, hello_body) = if is_early {
            let (nonce, hello_body) = split_early(body)?;
            cookies.check(&nonce, source, now_ns)?;
            (nonce, hello_body)
        } else {
            (*given, body)
        };
        let challenge = Challenge { nonce, gcs_id }.encode();
        let hello = check_hello(psks, &challenge, &self.0, hello_body, note_claim)?;
        Ok(Answered {
            hello,
            nonce,
            is_early,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
