//! What goes into a session and comes out of it: keys of an epoch, opened packets, and every way to be refused.

use crate::aead::{Algorithm, BadKeyLength};
use crate::counters::Counter;

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Dials; sends on a new epoch at once.
    Drone,
    /// Sends on a new epoch after its first authenticated packet.
    Gcs,
}

impl Role {
    /// `drone` or `gcs`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "drone" => Some(Self::Drone),
            "gcs" => Some(Self::Gcs),
            _ => None,
        }
    }

    /// The name in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Drone => "drone",
            Self::Gcs => "gcs",
        }
    }
}

/// What a completed handshake hands over.
pub struct EpochKeys<'a> {
    /// Whose point of view `send` and `receive` are.
    pub role: Role,
    /// AEAD of both directions.
    pub algorithm: Algorithm,
    /// 32-bit number of the epoch.
    pub epoch: u32,
    /// Index that this end chose.
    pub rx_index: u32,
    /// Index that the peer chose.
    pub tx_index: u32,
    /// Key and IV for sending.
    pub send: (&'a [u8], &'a [u8]),
    /// Key and IV for receiving.
    pub receive: (&'a [u8], &'a [u8]),
}

/// Why keys could not be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// The keys are those of the other end.
    WrongRole,
    /// Another living epoch has this receiver index.
    IndexTaken,
    /// Plain keys beside sealed ones, or the other way round: no handshake leads from one to the other.
    Mixed,
    /// A key or IV of the wrong length.
    BadKey(BadKeyLength),
}

/// Why nothing was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// No epoch may be sent on yet.
    NotReady,
    /// The plaintext does not fit one datagram.
    Oversize,
    /// Data, or a type that is not defined, asked of `seal_control`.
    NotControl,
    /// The hard stop before the wire sequence could repeat.
    Exhausted {
        /// Number of the epoch that is used up.
        epoch: u32,
    },
}

/// Why a datagram was dropped; each has its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Length, type or epoch bits.
    BadHeader,
    /// Nobody's index.
    UnknownIndex,
    /// The tag does not fit, or the key has failed too often.
    AuthFailed,
    /// The second copy of a packet, authentic and within 1 s of the first.
    Duplicate,
    /// Seen before, or too old to tell.
    Replay,
    /// An epoch that ended lately.
    OldEpoch,
}

impl Reason {
    /// Its counter.
    #[must_use]
    pub fn counter(self) -> Counter {
        match self {
            Self::BadHeader => Counter::BadHeader,
            Self::UnknownIndex => Counter::UnknownIndex,
            Self::AuthFailed => Counter::AuthFailed,
            Self::Duplicate => Counter::Duplicate,
            Self::Replay => Counter::Replay,
            Self::OldEpoch => Counter::OldEpoch,
        }
    }
}

/// An authenticated packet. Its plaintext is at `[8, 8 + length)` of the datagram that was opened in place.
#[allow(clippy::struct_excessive_bools)] // four answers about one packet, none of which excludes another
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Packet type.
    pub kind: u8,
    /// Bytes of plaintext.
    pub length: usize,
    /// 32-bit number of its epoch.
    pub epoch: u32,
    /// 64-bit sequence.
    pub sequence: u64,
    /// Sequences between the highest before it and it: not seen so far, late or lost.
    pub skipped: u64,
    /// Below the highest sequence of its epoch: it fills what was counted as skipped.
    pub filled: bool,
    /// A new highest sequence of the epoch that is sent on: the newest word of the peer.
    pub newest: bool,
    /// And the first authenticated packet of that epoch.
    pub first: bool,
    /// Of another epoch than the one sent on.
    pub late: bool,
}
