//! Both threads' loop: receive a batch, have it sealed (`sealing`) or opened (`opening`), send it.
//!
//! The cell's lock is held while a batch is sealed or opened and while its results are booked, never while the
//! kernel receives or sends. All memory is kept from batch to batch.

use crate::cell::{locked, Cell, SharedCell};
use crate::counters::Counter;
use crate::outgoing::{count_failure, Outgoing};
use crate::scrub::{below, scrub_packets};
use crate::shared::{Gate, Route, Shared};
use crate::udp::{realtime_ns, Arrival, Receiver, Sender};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Plaintext in, sealed out.
    Plaintext,
    /// Sealed in, plaintext out.
    Sealed,
}

impl Lane {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Sealed => "sealed",
        }
    }
}

/// A thread's own memory.
pub(crate) struct Worker<'a> {
    pub shared: &'a Shared,
    sender: Sender,
    slices: Vec<IoSlice<'static>>,
    /// Sealed datagrams of this batch, one after another.
    pub arena: Vec<u8>,
    pub outgoing: Vec<Outgoing>,
    /// Sealed control datagrams that answer this batch, each with its address.
    pub replies: Vec<(SocketAddr, Vec<u8>)>,
    dropped_before: u32,
    /// Did this batch leave copies of keys on the stack?
    pub leaves_keys: bool,
}

/// Receive and forward until the plane stops.
pub(crate) fn run(shared: &Shared, lane: Lane) {
    let mut receiver = Receiver::default();
    let mut arrivals = Vec::new();
    let mut worker = Worker {
        shared,
        sender: Sender::default(),
        slices: Vec::new(),
        arena: Vec::new(),
        outgoing: Vec::new(),
        replies: Vec::new(),
        dropped_before: 0,
        leaves_keys: false,
    };
    let socket = match lane {
        Lane::Plaintext => &shared.plain,
        Lane::Sealed => &shared.sealed,
    };
    loop {
        arrivals.clear();
        let outcome = receiver.receive(socket, &mut arrivals);
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        if let Err(error) = outcome {
            if !passes(&error) {
                shared.note(format!("{} receive: {error}", lane.name()));
                // An ICMP error passes at once; one that lasts must not become a spin.
                std::thread::sleep(Duration::from_millis(1));
            }
            continue;
        }
        shared.in_hand.fetch_add(1, Ordering::AcqRel);
        below(|| match lane {
            Lane::Plaintext => worker.plaintext(&arrivals, receiver.buffer()),
            Lane::Sealed => worker.sealed(&arrivals, receiver.buffer()),
        });
        if worker.leaves_keys {
            scrub_packets();
        }
        // Whoever sees this sees what was booked.
        shared.in_hand.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Does this error say nothing about receiving? Windows reports each ICMP "port unreachable" for an earlier send as a
/// reset, here: whoever can forge them must not make this thread sleep.
fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionReset, Interrupted};
    matches!(error.kind(), Interrupted | ConnectionReset)
}

impl Worker<'_> {
    pub fn state(&self) -> (Option<SharedCell>, Gate) {
        let state = locked(&self.shared.state);
        (state.cell.clone(), state.gate)
    }

    /// Add what the kernel's queue dropped since the last batch; returns how many.
    pub fn count_drops(&mut self, arrivals: &[Arrival], cell: Option<&mut Cell>) -> u64 {
        let Some(total) = arrivals.iter().rev().find_map(|arrival| arrival.dropped) else {
            return 0;
        };
        let fresh = u64::from(total.wrapping_sub(self.dropped_before));
        self.dropped_before = total;
        if let (Some(cell), true) = (cell, fresh > 0) {
            cell.counters.add(Counter::QueueFull, fresh);
        }
        fresh
    }

    /// Is this sender the gate's route? If so, note it for whoever waits for the first datagram, as of `now_ns`.
    pub fn is_on_route(&self, gate: Gate, source: SocketAddr, now_ns: i64) -> bool {
        let routes = &self.shared.routes;
        if source.ip() != routes[gate.route].source {
            return false;
        }
        // Two routes may share a host: then the port of the other route's peer tells them apart.
        let is_other =
            |(place, route): (usize, &Route)| place != gate.route && route.target == source;
        if routes.iter().enumerate().any(is_other) {
            return false;
        }
        self.shared
            .last_plaintext_ns
            .store(now_ns, Ordering::Relaxed);
        self.shared.first_plaintext.set();
        true
    }

    /// Send all outgoing datagrams in order; one that the kernel refuses is counted and passed over.
    pub fn send_all(
        &mut self,
        socket: &UdpSocket,
        target: SocketAddr,
        memory: &[u8],
        cell: &SharedCell,
    ) {
        let mut slices: Vec<IoSlice<'_>> = std::mem::take(&mut self.slices);
        let places = self.outgoing.iter();
        slices.extend(places.map(|one| IoSlice::new(&memory[one.start..one.start + one.length])));
        let mut next = 0;
        while next < slices.len() {
            let (passed, sent) = match self.sender.send(socket, target, &slices[next..]) {
                Ok(done) => (done.accepted.max(1), true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    count_failure(self.shared, cell, target, &error, slices[next].len());
                    (1, false)
                }
            };
            let t_out_ns = realtime_ns();
            for one in &mut self.outgoing[next..next + passed] {
                one.t_out_ns = t_out_ns;
                one.sent = sent;
            }
            next += passed;
        }
        slices.clear();
        // Nothing is left that could outlive `memory`: collecting in place keeps the allocation alone.
        self.slices = slices.into_iter().map(|_| IoSlice::new(&[])).collect();
    }
}

#[cfg(all(test, any(windows, target_os = "linux")))]
mod tests {
    use super::*;

    #[test]
    fn an_icmp_error_of_an_earlier_send_is_no_failure_to_receive() {
        // WSAECONNRESET. Windows has no interrupted call: WSAEINTR is a cancelled one, which std maps to no kind.
        #[cfg(windows)]
        let codes = [10_054];
        #[cfg(target_os = "linux")]
        let codes = [libc::ECONNRESET, libc::EINTR];
        for code in codes {
            assert!(passes(&io::Error::from_raw_os_error(code)), "{code}");
        }
        assert!(!passes(&io::Error::from(io::ErrorKind::PermissionDenied)));
        assert!(!passes(&io::Error::from(io::ErrorKind::ConnectionRefused)));
    }
}
