//! Seal, open, replay, epochs and keepalive of one endpoint, without sockets or clocks.
//!
//! At most three epochs live at once: the previous (late packets are still delivered), the current, and at the GCS
//! the next, which becomes current with its first authenticated packet. `pqspec.session` is the executable
//! specification; the tests hold both against each other. Times are monotonic nanoseconds of the caller.

use crate::aead::{Algorithm, DirectionKey};
use crate::counters::{self, Counter, Counters};
pub use crate::outcome::{EpochKeys, InstallError, Opened, Reason, Role, SealError};
use crate::packet;
use crate::replay::{Judged, ReplayWindow};
use crate::scrub::{below, scrub_packets};
use std::collections::VecDeque;

/// A keepalive is due after this long without sending.
pub const KEEPALIVE_NS: i64 = 1_000_000_000;
/// The drone dials again after this long without an authentic packet.
pub const SILENCE_NS: i64 = 3_000_000_000;
/// The previous epoch receives at least this long after the switch, and three round trips.
pub const RETIRE_NS: i64 = 2_000_000_000;
/// A rekey is due from this many packets on …
pub const REKEY_PACKETS: u64 = 1 << 31;
/// … or from this age on.
pub const REKEY_AGE_NS: i64 = 600_000_000_000;
/// Nothing is sealed from this sequence on: the 32-bit wire sequence would repeat.
pub const HARD_STOP_PACKETS: u64 = (1 << 32) - 1;
/// Integrity limit of the weakest AEAD here (RFC 9001, 6.6); beyond it a key opens nothing.
pub const FAILED_TAG_LIMIT: u64 = 1 << 36;
/// No path is slower than this: a wrong estimate must not keep old keys for hours.
pub const RTT_LIMIT_NS: i64 = 10_000_000_000;
const RETIRED_MEMORY: usize = 16;

struct Epoch {
    sealer: DirectionKey,
    opener: DirectionKey,
    number: u32,
    rx_index: u32,
    tx_index: u32,
    sent: u64,
    window: ReplayWindow,
    failed_tags: u64,
    installed_ns: i64,
    retire_ns: Option<i64>,
}

/// Data plane of one endpoint. Keys are erased when their epoch ends.
pub struct Session {
    role: Role,
    previous: Option<Epoch>,
    current: Option<Epoch>,
    next: Option<Epoch>,
    retired: VecDeque<u32>,
    rtt_ns: i64,
    /// Bytes of a tag under the keys installed last.
    tag_bytes: usize,
    /// Does a datagram leave a copy of a key on the stack? `ring`'s `ChaCha20` and Ascon set up their state from
    /// it every time; AES-GCM's expanded key is used where it is. True once it did.
    pub(crate) leaves_keys: bool,
    last_heard_ns: i64,
    last_sent_ns: i64,
    sent_seen: Option<u64>,
}

impl Session {
    /// Without keys: nothing can be sent or received before the first `install`.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self {
            role,
            previous: None,
            current: None,
            next: None,
            retired: VecDeque::with_capacity(RETIRED_MEMORY),
            rtt_ns: 0,
            tag_bytes: packet::TAG_BYTES,
            leaves_keys: false,
            last_heard_ns: 0,
            last_sent_ns: 0,
            sent_seen: None,
        }
    }

    /// Which end this is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// True once an epoch may be sent on.
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.current.is_some()
    }

    /// Number of the epoch sent on.
    #[must_use]
    pub fn epoch(&self) -> Option<u32> {
        self.current.as_ref().map(|epoch| epoch.number)
    }

    /// Receiver index of the epoch sent on, `None` before the first: numbers of epochs come again when a drone restarts,
    /// living indices do not.
    #[must_use]
    pub fn sent_on(&self) -> Option<u32> {
        self.current.as_ref().map(|epoch| epoch.rx_index)
    }

    /// True once keys of `plain` are installed: nothing that is received then proves anything.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.tag_bytes == 0
    }

    /// The path's round trip: from the next switch on, the previous epoch receives for three of them, at least 2 s.
    pub fn set_rtt(&mut self, rtt_ns: i64) {
        self.rtt_ns = rtt_ns.clamp(0, RTT_LIMIT_NS);
    }

    fn living(&self) -> impl Iterator<Item = &Epoch> {
        [&self.previous, &self.current, &self.next]
            .into_iter()
            .flatten()
    }

    /// Tags that failed under the keys that live now.
    #[must_use]
    pub fn failed_tags(&self) -> u64 {
        self.living().map(|epoch| epoch.failed_tags).sum()
    }

    /// False for an index that lives, or ended so lately that packets may still carry it.
    #[must_use]
    pub fn index_is_free(&self, index: u32) -> bool {
        !self.living().any(|epoch| epoch.rx_index == index) && !self.retired.contains(&index)
    }

    /// Take in the keys of a completed handshake. The drone sends on them at once, the GCS from the first
    /// authenticated packet on; both receive on them at once.
    ///
    /// # Errors
    /// Keys of the other role, an index that is taken, plain beside sealed, or a key of the wrong length; nothing has
    /// changed then.
    pub fn install(&mut self, keys: &EpochKeys<'_>, now_ns: i64) -> Result<(), InstallError> {
        if keys.role != self.role {
            return Err(InstallError::WrongRole);
        }
        let direction = |(key, iv): (&[u8], &[u8])| {
            DirectionKey::new(keys.algorithm, key, iv).map_err(InstallError::BadKey)
        };
        let epoch = Epoch {
            sealer: direction(keys.send)?,
            opener: direction(keys.receive)?,
            number: keys.epoch,
            rx_index: keys.rx_index,
            tx_index: keys.tx_index,
            sent: 0,
            window: ReplayWindow::default(),
            failed_tags: 0,
            installed_ns: now_ns,
            retire_ns: None,
        };
        if self.living().any(|other| other.rx_index == epoch.rx_index) {
            return Err(InstallError::IndexTaken);
        }
        self.leaves_keys |= !matches!(keys.algorithm, Algorithm::AesGcm | Algorithm::Null);
        let tag_bytes = keys.algorithm.tag_bytes();
        if self.living().next().is_some() && self.tag_bytes != tag_bytes {
            return Err(InstallError::Mixed);
        }
        self.tag_bytes = tag_bytes;
        let replaced = self.next.take();
        self.retire(replaced);
        self.last_heard_ns = now_ns;
        // Plain keys have no packet that could confirm them.
        if self.role == Role::Drone || self.is_plain() {
            self.promote(epoch, now_ns);
        } else {
            self.next = Some(epoch);
        }
        Ok(())
    }

    /// Forget every key.
    pub fn close(&mut self) {
        for ended in [self.previous.take(), self.current.take(), self.next.take()] {
            self.retire(ended);
        }
    }

    /// Erase the previous epoch's keys once its time is over. Without it they live until a late packet or the next
    /// epoch comes.
    pub fn expire(&mut self, now_ns: i64) {
        let ended = |epoch: &Epoch| epoch.retire_ns.is_some_and(|end| now_ns > end);
        if self.previous.as_ref().is_some_and(ended) {
            let ended = self.previous.take();
            self.retire(ended);
        }
    }

    /// Append the sealed datagram of one plaintext to `out`; returns `(epoch, sequence)`.
    ///
    /// # Errors
    /// No epoch to send on, a plaintext that does not fit, or the hard stop; `out` has not changed then.
    pub fn seal_data(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Result<(u32, u64), SealError> {
        if self.current.is_none() {
            return Err(SealError::NotReady);
        }
        if payload.len() > packet::MAX_PLAINTEXT_BYTES {
            return Err(SealError::Oversize);
        }
        let named = self.seal(packet::DATA, payload, out)?;
        counters.add(Counter::TxData, 1);
        let sealed_bytes = payload.len() + packet::HEADER_BYTES + self.tag_bytes;
        counters.add(Counter::TxDataBytes, sealed_bytes as u64);
        Ok(named)
    }

    /// Append one sealed control datagram to `out`.
    ///
    /// # Errors
    /// As `seal_data`, and for a type that is no control type.
    pub fn seal_control(
        &mut self,
        kind: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Result<(), SealError> {
        if self.current.is_none() {
            return Err(SealError::NotReady);
        }
        let counter = counters::sent_control(kind).ok_or(SealError::NotControl)?;
        // Any thread may send one, now and then: none keeps a copy of the key.
        let sealed = below(|| self.seal_apart(kind, payload, out));
        if self.leaves_keys {
            scrub_packets();
        }
        sealed?;
        counters.add(counter, 1);
        Ok(())
    }

    #[inline(never)] // in a frame of its own, which is scrubbed afterwards
    fn seal_apart(
        &mut self,
        kind: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(u32, u64), SealError> {
        self.seal(kind, payload, out)
    }

    fn seal(
        &mut self,
        kind: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(u32, u64), SealError> {
        let epoch = self.current.as_mut().ok_or(SealError::NotReady)?;
        let sequence = epoch.sent;
        if sequence >= HARD_STOP_PACKETS {
            return Err(SealError::Exhausted {
                epoch: epoch.number,
            });
        }
        // Taken before anything else can happen to it: no path leads to the same number twice.
        epoch.sent = sequence + 1;
        let word = packet::first_word(kind, epoch.number, epoch.tx_index);
        let header = packet::header(word, sequence);
        let start = out.len() + packet::HEADER_BYTES;
        out.extend_from_slice(&header);
        out.extend_from_slice(payload);
        let tag = epoch.sealer.seal(sequence, &header, &mut out[start..]);
        out.extend_from_slice(&tag[..epoch.sealer.tag_bytes()]);
        Ok((epoch.number, sequence))
    }

    /// Open one datagram in place. What is not authentic and fresh is counted and dropped, and moves nothing.
    ///
    /// # Errors
    /// The reason of the drop, already counted.
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        now_ns: i64,
        counters: &mut Counters,
    ) -> Result<Opened, Reason> {
        let opened = self.open(datagram, now_ns);
        match opened {
            Ok(packet) => {
                if let Some(counter) = counters::opened(packet.kind) {
                    counters.add(counter, 1);
                }
                if packet.kind == packet::DATA {
                    counters.add(Counter::RxOkBytes, datagram.len() as u64);
                    counters.add(Counter::RxLate, packet.late.into());
                }
            }
            Err(reason) => counters.add(reason.counter(), 1),
        }
        opened
    }

    fn open(&mut self, datagram: &mut [u8], now_ns: i64) -> Result<Opened, Reason> {
        if datagram.len() < packet::HEADER_BYTES + self.tag_bytes {
            return Err(Reason::BadHeader);
        }
        let (word, low32) = packet::words(datagram);
        let kind = (word >> 28) as u8;
        if !(packet::DATA..=packet::PATH_RESPONSE).contains(&kind) {
            return Err(Reason::BadHeader);
        }
        let index = word & 0xFF_FFFF;
        let is_ours = |slot: &Option<Epoch>| slot.as_ref().is_some_and(|e| e.rx_index == index);
        let is_next = is_ours(&self.next);
        let is_current = is_ours(&self.current);
        let slot = if is_current {
            &mut self.current
        } else if is_next {
            &mut self.next
        } else {
            &mut self.previous
        };
        let Some(epoch) = slot.as_mut().filter(|epoch| epoch.rx_index == index) else {
            let lately = self.retired.contains(&index);
            return Err(if lately {
                Reason::OldEpoch
            } else {
                Reason::UnknownIndex
            });
        };
        if (word >> 24) & 0xF != epoch.number & 0xF {
            return Err(Reason::BadHeader);
        }
        if epoch.retire_ns.is_some_and(|end| now_ns > end) {
            let ended = slot.take();
            self.retire(ended);
            return Err(Reason::OldEpoch);
        }
        let sequence = epoch.window.reconstruct(low32);
        let judged = epoch.window.judge(sequence, now_ns);
        if judged == Judged::Replay {
            return Err(Reason::Replay);
        }
        if epoch.failed_tags >= FAILED_TAG_LIMIT {
            return Err(Reason::AuthFailed);
        }
        let header = packet::header(word, u64::from(low32));
        let sealed = &mut datagram[packet::HEADER_BYTES..];
        let Some(length) = epoch.opener.open(sequence, &header, sealed) else {
            epoch.failed_tags += 1;
            return Err(Reason::AuthFailed);
        };
        if judged == Judged::Copy {
            // Delivered before; proves nothing that the first one did not.
            epoch.window.accept_copy(sequence);
            return Err(Reason::Duplicate);
        }
        let expected = epoch.window.next_sequence();
        let late = !(is_current || is_next);
        let newest = !late && sequence >= expected;
        let first = newest && expected == 0;
        let skipped = epoch.window.accept(sequence, now_ns);
        let number = epoch.number;
        self.last_heard_ns = now_ns;
        if is_next {
            if let Some(entry) = self.next.take() {
                self.promote(entry, now_ns);
            }
        }
        Ok(Opened {
            kind,
            length,
            epoch: number,
            sequence,
            skipped,
            filled: sequence < expected,
            newest,
            first,
            late,
        })
    }

    /// True when nothing was sent for 1 s; ask at least every 250 ms.
    pub fn keepalive_due(&mut self, now_ns: i64) -> bool {
        let Some(epoch) = &self.current else {
            return false;
        };
        if self.sent_seen != Some(epoch.sent) {
            self.sent_seen = Some(epoch.sent);
            self.last_sent_ns = now_ns;
            return false;
        }
        now_ns - self.last_sent_ns >= KEEPALIVE_NS
    }

    /// True when an installed epoch has heard nothing authentic for 3 s; plain ones never ask for a handshake.
    #[must_use]
    pub fn silent(&self, now_ns: i64) -> bool {
        !self.is_plain()
            && self.living().next().is_some()
            && now_ns - self.last_heard_ns >= SILENCE_NS
    }

    /// True from 2^31 packets or 10 minutes on.
    #[must_use]
    pub fn rekey_due(&self, now_ns: i64) -> bool {
        !self.is_plain()
            && self.current.as_ref().is_some_and(|epoch| {
                epoch.sent >= REKEY_PACKETS || now_ns - epoch.installed_ns >= REKEY_AGE_NS
            })
    }

    /// Send on `epoch` from now on; the one before it receives for 2 s or three round trips more, older ones end.
    fn promote(&mut self, epoch: Epoch, now_ns: i64) {
        let oldest = self.previous.take();
        self.retire(oldest);
        self.previous = self.current.take();
        if let Some(previous) = &mut self.previous {
            previous.retire_ns = Some(now_ns + RETIRE_NS.max(3 * self.rtt_ns));
        }
        self.current = Some(epoch);
        self.sent_seen = None;
        self.last_sent_ns = now_ns;
    }

    fn retire(&mut self, ended: Option<Epoch>) {
        if let Some(epoch) = ended {
            if self.retired.len() == RETIRED_MEMORY {
                self.retired.pop_front();
            }
            self.retired.push_back(epoch.rx_index);
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
