//! One datagram on its way through, what is booked about it, and sends outside a batch.

use crate::cell::{locked, SharedCell};
use crate::counters::Counter;
use crate::ledger::Row;
use crate::packet;
use crate::plane::{Gate, Shared};
use std::io;
use std::net::SocketAddrV4;

/// A datagram on its way out.
pub(crate) struct Outgoing {
    /// Place of what is sent: in the arena (sealed) or in the receive buffer (opened).
    pub start: usize,
    pub length: usize,
    /// Place and length of the plaintext in the receive buffer.
    pub plain: (usize, usize),
    pub size_bytes: usize,
    pub epoch: u32,
    pub sequence: u64,
    pub t_in_ns: u64,
    /// Clock after its send call.
    pub t_out_ns: u64,
    pub sent: bool,
}

/// Its row of the ledger.
pub(crate) fn row(datagram: &Outgoing, gate: Gate) -> Row {
    Row {
        epoch: datagram.epoch,
        size_bytes: datagram.size_bytes as u32,
        sequence: datagram.sequence,
        t_in_ns: datagram.t_in_ns,
        t_out_ns: datagram.t_out_ns,
        window: gate.place,
    }
}

/// BLAKE2b-64 of sequence (8 bytes, big-endian) ‖ plaintext; both ends sum it, so order does not matter.
pub(crate) fn digest(datagram: &Outgoing, buffer: &[u8]) -> u64 {
    let (start, length) = datagram.plain;
    let hash = blake2b_simd::Params::new()
        .hash_length(8)
        .to_state()
        .update(&datagram.sequence.to_be_bytes())
        .update(&buffer[start..start + length])
        .finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(hash.as_bytes());
    u64::from_be_bytes(bytes)
}

/// Send one sealed keepalive; false when there is no key to send it under, or no peer.
pub(crate) fn send_keepalive(shared: &Shared, shared_cell: &SharedCell) -> bool {
    let mut datagram = Vec::with_capacity(packet::OVERHEAD_BYTES);
    let peer = {
        let cell = &mut *locked(shared_cell);
        let Some(peer) = cell.peer else { return false };
        let counters = &mut cell.counters;
        let sealed = cell
            .session
            .seal_control(packet::KEEPALIVE, &[], &mut datagram, counters);
        if sealed.is_err() {
            return false;
        }
        peer
    };
    if let Err(error) = shared.sealed.send_to(&datagram, peer) {
        count_failure(shared, shared_cell, peer, &error, 1);
    }
    true
}

/// Count datagrams that the kernel refused: a full queue, or another failure, which is also noted.
pub(crate) fn count_failure(
    shared: &Shared,
    cell: &SharedCell,
    target: SocketAddrV4,
    error: &io::Error,
    count: u64,
) {
    let full = is_queue_full(error);
    let counter = if full {
        Counter::QueueFull
    } else {
        Counter::SendFailed
    };
    locked(cell).counters.add(counter, count);
    shared.note(format!("send to {target}: {error}"));
}

fn is_queue_full(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    if error.raw_os_error() == Some(libc::ENOBUFS) {
        return true;
    }
    error.kind() == io::ErrorKind::WouldBlock
}
