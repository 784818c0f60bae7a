//! Counters of one cell: the names are those of the agent's `counters` answer.

use crate::packet;

macro_rules! counters {
    ($($variant:ident = $name:literal: $what:literal,)*) => {
        /// One counter of a cell's data plane.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $(#[doc = $what] $variant,)* }

        /// Names in the order of [`Counter`].
        pub const NAMES: &[&str] = &[$($name,)*];
    };
}

counters! {
    PlaintextIn = "plaintext_in": "plaintext datagrams taken for sealing",
    PlaintextInBytes = "plaintext_in_bytes": "their bytes",
    PlaintextOut = "plaintext_out": "opened datagrams handed to the plaintext peer",
    PlaintextOutBytes = "plaintext_out_bytes": "their bytes",
    PlaintextAnnounce = "plaintext_announce": "empty datagrams that tell a listener our address",
    Gated = "gated": "plaintext outside an open window or of another route",
    WrongSource = "wrong_source": "plaintext from an address that is not configured",
    Oversize = "oversize": "plaintext that does not fit one sealed datagram",
    OversizeLink = "oversize_link": "datagrams that the link's MTU refused (EMSGSIZE)",
    QueueFull = "queue_full": "datagrams that a kernel queue dropped",
    NotReady = "not_ready": "plaintext with no key to send it under, or no peer",
    SendFailed = "send_failed": "datagrams that the kernel refused to send for another reason",
    PathChanged = "path_changed": "moves of the peer's address, each after an answered challenge",
    PathNewSource = "path_new_source": "authentic data from another address than the peer's, delivered",
    ControlDropped = "control_dropped": "control frames that nobody fetched in time",
    TxData = "tx_data": "data packets sealed",
    TxDataBytes = "tx_data_bytes": "their sealed bytes",
    TxKeepalive = "tx_keepalive": "keepalives sealed",
    TxEpochAck = "tx_epoch_ack": "epoch-acks sealed",
    TxRekeyRequest = "tx_rekey_request": "rekey-requests sealed",
    TxPathChallenge = "tx_path_challenge": "path-challenges sealed",
    TxPathResponse = "tx_path_response": "path-responses sealed",
    RxOk = "rx_ok": "data packets opened",
    RxOkBytes = "rx_ok_bytes": "their sealed bytes",
    RxLate = "rx_late": "of them, opened under another epoch than the one sent on",
    RxKeepalive = "rx_keepalive": "keepalives opened",
    RxEpochAck = "rx_epoch_ack": "epoch-acks opened",
    RxRekeyRequest = "rx_rekey_request": "rekey-requests opened",
    RxPathChallenge = "rx_path_challenge": "path-challenges opened",
    RxPathResponse = "rx_path_response": "path-responses opened",
    BadHeader = "bad_header": "dropped: length, type or epoch bits",
    UnknownIndex = "unknown_index": "dropped: nobody's receiver index",
    AuthFailed = "auth_failed": "dropped: the tag did not fit",
    Duplicate = "duplicate": "dropped: the authentic second copy of a packet, within 1 s of the first",
    Replay = "replay": "dropped: seen, or too old to tell",
    OldEpoch = "old_epoch": "dropped: an epoch that ended lately",
    SealCount = "seal_count": "packets behind the next",
    SealNsTotal = "seal_ns_total": "ns spent sealing",
    OpenCount = "open_count": "packets behind the next",
    OpenNsTotal = "open_ns_total": "ns spent opening",
}

/// Names of the two digest sums: XXH3-64 over each data packet, added modulo 2^64.
pub const DIGEST_NAMES: [&str; 2] = ["digest_tx", "digest_rx"];

/// The counters that a session keeps by itself, without sockets around it.
pub const SESSION: &[Counter] = &[
    Counter::TxData,
    Counter::TxDataBytes,
    Counter::TxKeepalive,
    Counter::TxEpochAck,
    Counter::TxRekeyRequest,
    Counter::TxPathChallenge,
    Counter::TxPathResponse,
    Counter::RxOk,
    Counter::RxOkBytes,
    Counter::RxLate,
    Counter::RxKeepalive,
    Counter::RxEpochAck,
    Counter::RxRekeyRequest,
    Counter::RxPathChallenge,
    Counter::RxPathResponse,
    Counter::BadHeader,
    Counter::UnknownIndex,
    Counter::AuthFailed,
    Counter::Duplicate,
    Counter::Replay,
    Counter::OldEpoch,
];

/// Counter of sealed control packets of a type.
#[must_use]
pub fn sent_control(kind: u8) -> Option<Counter> {
    match kind {
        packet::KEEPALIVE => Some(Counter::TxKeepalive),
        packet::EPOCH_ACK => Some(Counter::TxEpochAck),
        packet::REKEY_REQUEST => Some(Counter::TxRekeyRequest),
        packet::PATH_CHALLENGE => Some(Counter::TxPathChallenge),
        packet::PATH_RESPONSE => Some(Counter::TxPathResponse),
        _ => None,
    }
}

/// Counter of opened packets of a type.
#[must_use]
pub fn opened(kind: u8) -> Option<Counter> {
    match kind {
        packet::DATA => Some(Counter::RxOk),
        packet::KEEPALIVE => Some(Counter::RxKeepalive),
        packet::EPOCH_ACK => Some(Counter::RxEpochAck),
        packet::REKEY_REQUEST => Some(Counter::RxRekeyRequest),
        packet::PATH_CHALLENGE => Some(Counter::RxPathChallenge),
        packet::PATH_RESPONSE => Some(Counter::RxPathResponse),
        _ => None,
    }
}

/// Counts since the cell was prepared.
#[derive(Clone)]
pub struct Counters {
    values: [u64; NAMES.len()],
    /// Digest sums in the order of [`DIGEST_NAMES`].
    pub digests: [u64; 2],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            values: [0; NAMES.len()],
            digests: [0; 2],
        }
    }
}

impl Counter {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

impl Counters {
    /// Add to one counter.
    pub fn add(&mut self, counter: Counter, amount: u64) {
        let value = &mut self.values[counter as usize];
        *value = value.wrapping_add(amount);
    }

    /// Add all of another's.
    pub fn merge(&mut self, other: &Self) {
        let pairs = self.values.iter_mut().chain(&mut self.digests);
        for (value, more) in pairs.zip(other.values.iter().chain(&other.digests)) {
            *value = value.wrapping_add(*more);
        }
    }

    /// Value of one counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// Every counter with its name, the digests last.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let values = NAMES.iter().copied().zip(self.values.iter().copied());
        values.chain(DIGEST_NAMES.into_iter().zip(self.digests))
    }
}
