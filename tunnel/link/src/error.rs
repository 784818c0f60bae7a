//! Why a handshake was refused. On the wire every refusal looks alike; the reason stays in the local log and counter.

use std::fmt;

macro_rules! reasons {
    ($($variant:ident = $counter:literal: $what:literal,)*) => {
        /// A named refusal; each has its counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $(#[doc = $what] $variant,)* }

        /// Every reason.
        pub const REASONS: &[Reason] = &[$(Reason::$variant,)*];

        impl Reason {
            /// The counter's name, the same as in `pqtunnel.errors`.
            #[must_use]
            pub fn counter(self) -> &'static str {
                match self { $(Self::$variant => $counter,)* }
            }
        }
    };
}

reasons! {
    BadVersion = "hs_bad_version": "The peer speaks another version.",
    BadLength = "hs_bad_length": "A type or length that the registry does not allow at this point.",
    BadMac = "hs_bad_mac": "Unknown key id or wrong MAC, not told apart.",
    UnknownSuite = "hs_unknown_suite": "A suite outside the registry or this host.",
    Policy = "hs_policy": "A well-formed, authentic offer that policy forbids.",
    UnpinnedGcs = "hs_policy": "Whoever answers presents a key id that is not pinned here.",
    SessionUnknown = "hs_session_unknown": "A rekey names a session that the GCS does not hold.",
    BadSignature = "hs_bad_signature": "A signature that does not verify.",
    BadFinished = "hs_bad_finished": "A Finished that does not fit this transcript.",
    PeerAlert = "hs_alert": "The peer refused.",
    TimedOut = "hs_timeout": "The deadline passed.",
    RateLimited = "hs_rate_limited": "A source or key id dials too often.",
    HalfOpenLimit = "hs_half_open_limit": "Every place is taken by an authentic handshake.",
    Evicted = "hs_evicted": "No right Hello when the place was needed for a newer one.",
    Retry = "hs_retry": "The GCS is under load: come again with the Hello first.",
    StaleCookie = "hs_stale_cookie": "An EarlyHello to a Challenge that is old, another source's, spent, or not of this GCS.",
    ConnectionLost = "hs_connection_lost": "The connection ended before the handshake did.",
    Failed = "hs_failed": "A primitive failed, or the keys could not be installed.",
    Ended = "hs_failed": "This handshake has ended or not started.",
}

/// A refusal: the reason, what happened, and the whole frame to answer where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeError {
    /// Its name.
    pub reason: Reason,
    /// What happened, for the local log.
    pub detail: String,
    /// SessionUnknown's frame at a GCS, else empty.
    pub answer: Vec<u8>,
}

impl HandshakeError {
    /// A refusal without an answer.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            answer: Vec::new(),
        }
    }

    /// Is the peer told? A stranger, an alert and a lost connection get nothing.
    #[must_use]
    pub fn sends_alert(&self) -> bool {
        use Reason::{
            ConnectionLost, Ended, Evicted, HalfOpenLimit, PeerAlert, RateLimited, Retry,
            SessionUnknown, UnpinnedGcs,
        };
        match self.reason {
            UnpinnedGcs | PeerAlert | RateLimited | HalfOpenLimit | Evicted | ConnectionLost
            | Retry | Ended => false,
            SessionUnknown => !self.answer.is_empty(),
            _ => true,
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} [{}]", self.detail, self.reason.counter())
    }
}

impl std::error::Error for HandshakeError {}
