//! One datagram on its way through, what is booked about it, and sends outside a batch.

use crate::cell::{locked, Cell, SharedCell};
use crate::counters::Counter;
use crate::ledger::Row;
use crate::packet;
use crate::session::SealError;
use crate::shared::{Gate, Shared};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use xxhash_rust::xxh3::xxh3_64_with_seed;

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

/// XXH3-64 of the plaintext, seeded with the sequence; both ends sum it, so order does not matter. It finds faults, and
/// nobody is kept out by it: that is the tag's work. A cryptographic hash took longer than the cipher for large datagrams.
pub(crate) fn digest(datagram: &Outgoing, buffer: &[u8]) -> u64 {
    let (start, length) = datagram.plain;
    xxh3_64_with_seed(&buffer[start..start + length], datagram.sequence)
}

/// One sealed control datagram, with the time of its epoch's first packet marked.
///
/// # Errors
/// As `Session::seal_control`.
pub(crate) fn sealed_control(
    shared: &Shared,
    cell: &mut Cell,
    kind: u8,
    payload: &[u8],
) -> Result<Vec<u8>, SealError> {
    let mut datagram = Vec::with_capacity(payload.len() + packet::OVERHEAD_BYTES);
    cell.session
        .seal_control(kind, payload, &mut datagram, &mut cell.counters)?;
    if let Some(epoch) = cell.session.epoch() {
        cell.mark_sealed(epoch, || shared.monotonic_ns());
    }
    Ok(datagram)
}

/// Seal one control datagram and send it to the peer; false when there is no key to send it under, or no peer.
///
/// # Errors
/// A type that is no control type.
pub(crate) fn send_control(
    shared: &Shared,
    shared_cell: &SharedCell,
    kind: u8,
    payload: &[u8],
) -> Result<bool, SealError> {
    let (peer, datagram) = {
        let cell = &mut *locked(shared_cell);
        let Some(peer) = cell.path.peer() else {
            return Ok(false);
        };
        match sealed_control(shared, cell, kind, payload) {
            Ok(datagram) => (peer, datagram),
            Err(SealError::NotReady | SealError::Exhausted { .. }) => return Ok(false),
            Err(other) => return Err(other),
        }
    };
    send_one(shared, shared_cell, peer, &datagram);
    Ok(true)
}

/// Hand one datagram to the kernel without waiting for room in the socket's queue: callers hold the interpreter and
/// the plane, or are the thread that receives, and all of them would stand still until a full link drains.
///
/// # Errors
/// What the system call said; `WouldBlock` when the queue is full.
#[cfg(target_os = "linux")]
pub(crate) fn send_now(socket: &UdpSocket, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT;
    socket2::SockRef::from(socket)
        .send_to_with_flags(datagram, &to.into(), flags)
        .map(drop)
}

/// The same on systems without that flag: the call as it is.
#[cfg(not(target_os = "linux"))]
pub(crate) fn send_now(socket: &UdpSocket, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
    socket.send_to(datagram, to).map(drop)
}

/// Send one datagram outside a batch; a refusal is counted.
pub(crate) fn send_one(shared: &Shared, cell: &SharedCell, to: SocketAddr, datagram: &[u8]) {
    if let Err(error) = send_now(&shared.sealed, datagram, to) {
        count_failure(shared, cell, to, &error, datagram.len());
    }
}

/// Count a datagram that the kernel refused, and note why, once a cell for each reason and target.
pub(crate) fn count_failure(
    shared: &Shared,
    cell: &SharedCell,
    target: SocketAddr,
    error: &io::Error,
    size_bytes: usize,
) {
    let counter = failure_counter(error);
    locked(cell).counters.add(counter, 1);
    if counter == Counter::OversizeLink {
        // Every size would be a new text: one line a cell says it all.
        let text = format!(
            "send to {target}: a datagram of {size_bytes} bytes does not fit the link ({error}): raise the MTU of \
             the path, or let the source send smaller datagrams"
        );
        shared.note_as(counter.name().to_owned(), text);
    } else {
        shared.note(format!("send to {target}: {error}"));
    }
}

pub(crate) fn failure_counter(error: &io::Error) -> Counter {
    #[cfg(target_os = "linux")]
    const NO_BUFFERS: i32 = libc::ENOBUFS;
    #[cfg(target_os = "linux")]
    const MESSAGE_SIZE: i32 = libc::EMSGSIZE;
    // WSAENOBUFS, WSAEMSGSIZE
    #[cfg(not(target_os = "linux"))]
    const NO_BUFFERS: i32 = 10_055;
    #[cfg(not(target_os = "linux"))]
    const MESSAGE_SIZE: i32 = 10_040;
    match error.raw_os_error() {
        Some(MESSAGE_SIZE) => Counter::OversizeLink,
        Some(NO_BUFFERS) => Counter::QueueFull,
        _ if error.kind() == io::ErrorKind::WouldBlock => Counter::QueueFull,
        _ => Counter::SendFailed,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    #[test]
    fn what_is_sent_at_once_arrives() {
        let ends = [0; 2].map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds"));
        let Ok(to) = ends[1].local_addr() else {
            unreachable!("bound to IPv4")
        };
        let mut buffer = [9; 8];
        ends[1]
            .set_read_timeout(Some(Duration::from_secs(2)))
            .expect("set");
        for payload in [&b"control"[..], b""] {
            send_now(&ends[0], payload, to).expect("sends");
            let length = ends[1].recv(&mut buffer).expect("arrives");
            assert_eq!(&buffer[..length], payload);
        }
    }

    #[test]
    fn refusals_have_their_own_counters() {
        let counter = |code| failure_counter(&io::Error::from_raw_os_error(code));
        assert_eq!(counter(libc::EMSGSIZE), Counter::OversizeLink);
        assert_eq!(counter(libc::ENOBUFS), Counter::QueueFull);
        assert_eq!(counter(libc::EAGAIN), Counter::QueueFull);
        assert_eq!(counter(libc::EPERM), Counter::SendFailed);
        assert_eq!(counter(libc::ECONNREFUSED), Counter::SendFailed);
    }
}
