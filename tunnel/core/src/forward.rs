//! What happens to one batch: both threads' loops.
//!
//! The cell's lock is held while a batch is sealed or opened and while its results are booked, never while the
//! kernel receives or sends. All memory is kept from batch to batch.

use crate::bins::Field;
use crate::cell::{locked, Cell, ControlFrame, SharedCell};
use crate::counters::Counter;
use crate::outgoing::{count_failure, digest, row, sealed_control, send_one, Outgoing};
use crate::packet;
use crate::plane::{Gate, Shared};
use crate::session::{Opened, Role, SealError};
use crate::udp::{realtime_ns, Arrival, Receiver, Sender};
use std::io::{self, IoSlice};
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
struct Worker<'a> {
    shared: &'a Shared,
    sender: Sender,
    arena: Vec<u8>,
    outgoing: Vec<Outgoing>,
    /// Sealed control datagrams that answer this batch, each with its address.
    replies: Vec<(SocketAddrV4, Vec<u8>)>,
    dropped_before: u32,
}

/// Receive and forward until the plane stops.
pub(crate) fn run(shared: &Shared, lane: Lane) {
    let mut receiver = Receiver::default();
    let mut arrivals = Vec::new();
    let mut worker = Worker {
        shared,
        sender: Sender::default(),
        arena: Vec::new(),
        outgoing: Vec::new(),
        replies: Vec::new(),
        dropped_before: 0,
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
            if error.kind() != io::ErrorKind::Interrupted {
                shared.note(format!("{} receive: {error}", lane.name()));
                // An ICMP error passes at once; one that lasts must not become a spin.
                std::thread::sleep(Duration::from_millis(1));
            }
            continue;
        }
        match lane {
            Lane::Plaintext => worker.plaintext(&arrivals, receiver.buffer()),
            Lane::Sealed => worker.sealed(&arrivals, receiver.buffer()),
        }
    }
}

impl Worker<'_> {
    fn state(&self) -> (Option<SharedCell>, Gate) {
        let state = locked(&self.shared.state);
        (state.cell.clone(), state.gate)
    }

    /// Add what the kernel's queue dropped since the last batch; returns how many.
    fn count_drops(&mut self, arrivals: &[Arrival], cell: Option<&mut Cell>) -> u64 {
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

    /// Is this sender the gate's route? If so, note it for whoever waits for the first datagram.
    fn is_on_route(&self, gate: Gate, source: SocketAddrV4) -> bool {
        let routes = &self.shared.routes;
        if *source.ip() != routes[gate.route].source {
            return false;
        }
        // Two routes may share a host: then the port of the other route's peer tells them apart.
        let is_other = |(place, route): (usize, &crate::plane::Route)| {
            place != gate.route && route.target == source
        };
        if routes.iter().enumerate().any(is_other) {
            return false;
        }
        let now_ns = self.shared.monotonic_ns();
        self.shared
            .last_plaintext_ns
            .store(now_ns, Ordering::Relaxed);
        self.shared.first_plaintext.set();
        true
    }

    fn plaintext(&mut self, arrivals: &[Arrival], buffer: &mut [u8]) {
        let (shared_cell, gate) = self.state();
        let Some(shared_cell) = shared_cell else {
            self.count_drops(arrivals, None);
            for arrival in arrivals.iter().filter(|arrival| arrival.length > 0) {
                self.is_on_route(gate, arrival.source);
            }
            return;
        };
        self.arena.clear();
        self.outgoing.clear();
        let peer = {
            let cell = &mut *locked(&shared_cell);
            self.count_drops(arrivals, Some(cell));
            let start = Instant::now();
            for arrival in arrivals {
                self.seal_arrival(cell, gate, arrival, buffer);
            }
            if !self.outgoing.is_empty() {
                let spent_ns = start.elapsed().as_nanos() as u64;
                let count = self.outgoing.len() as u64;
                cell.counters.add(Counter::SealNsTotal, spent_ns);
                cell.counters.add(Counter::SealCount, count);
            }
            cell.path.peer()
        };
        let (Some(peer), false) = (peer, self.outgoing.is_empty()) else {
            return;
        };
        let arena = std::mem::take(&mut self.arena);
        // Before they leave: who waits for the link to fall silent must not look between sending and noting it.
        let now_ns = self.shared.monotonic_ns();
        self.shared.last_data_ns.store(now_ns, Ordering::Relaxed);
        self.send_all(&self.shared.sealed, peer, &arena, &shared_cell);
        self.arena = arena;
        let mut sum = 0_u64;
        for sent in self.outgoing.iter().filter(|one| one.sent) {
            sum = sum.wrapping_add(digest(sent, buffer));
        }
        let cell = &mut *locked(&shared_cell);
        cell.counters.digests[0] = cell.counters.digests[0].wrapping_add(sum);
        for sent in self.outgoing.iter().filter(|one| one.sent) {
            cell.bins.add(sent.t_out_ns, Field::TxData, 1);
            let bytes = sent.size_bytes as u64;
            cell.bins.add(sent.t_out_ns, Field::TxBytes, bytes);
            if let Some(ledger) = &mut cell.ledger {
                ledger.tx.add(row(sent, gate));
            }
        }
    }

    fn seal_arrival(&mut self, cell: &mut Cell, gate: Gate, arrival: &Arrival, buffer: &[u8]) {
        let is_known = |route: &crate::plane::Route| route.source == *arrival.source.ip();
        let known = self.shared.routes.iter().any(is_known);
        for (offset, length) in arrival.datagrams() {
            if length == 0 {
                continue; // an announce, or our own waker
            }
            if !known {
                cell.counters.add(Counter::WrongSource, 1);
                continue;
            }
            let on_route = self.is_on_route(gate, arrival.source);
            if !gate.is_open || !on_route {
                cell.counters.add(Counter::Gated, 1);
                continue;
            }
            if length > packet::MAX_PLAINTEXT_BYTES {
                cell.counters.add(Counter::Oversize, 1);
                continue;
            }
            cell.counters.add(Counter::PlaintextIn, 1);
            cell.counters.add(Counter::PlaintextInBytes, length as u64);
            if cell.path.peer().is_none() {
                cell.counters.add(Counter::NotReady, 1);
                continue;
            }
            let start = self.arena.len();
            let payload = &buffer[offset..offset + length];
            let sealed = cell
                .session
                .seal_data(payload, &mut self.arena, &mut cell.counters);
            match sealed {
                Ok((epoch, sequence)) => {
                    cell.mark_sealed(epoch, || self.shared.monotonic_ns());
                    self.outgoing.push(Outgoing {
                        start,
                        length: self.arena.len() - start,
                        plain: (offset, length),
                        size_bytes: self.arena.len() - start,
                        epoch,
                        sequence,
                        t_in_ns: arrival.time_ns(),
                        t_out_ns: 0,
                        sent: false,
                    });
                }
                Err(refusal) => {
                    cell.counters.add(Counter::NotReady, 1);
                    if let SealError::Exhausted { epoch } = refusal {
                        self.shared
                            .note(format!("seal: epoch {epoch} has sent all its packets"));
                    }
                }
            }
        }
    }

    fn sealed(&mut self, arrivals: &[Arrival], buffer: &mut [u8]) {
        let (shared_cell, gate) = self.state();
        let Some(shared_cell) = shared_cell else {
            self.count_drops(arrivals, None);
            return;
        };
        self.outgoing.clear();
        let now_ns = self.shared.monotonic_ns();
        {
            let cell = &mut *locked(&shared_cell);
            let dropped = self.count_drops(arrivals, Some(cell));
            let start = Instant::now();
            for arrival in arrivals {
                self.open_arrival(cell, arrival, buffer, now_ns);
            }
            if let (Some(last), true) = (arrivals.last(), dropped > 0) {
                cell.bins.add(last.time_ns(), Field::QueueFull, dropped);
            }
            if !self.outgoing.is_empty() {
                let spent_ns = start.elapsed().as_nanos() as u64;
                let count = self.outgoing.len() as u64;
                cell.counters.add(Counter::OpenNsTotal, spent_ns);
                cell.counters.add(Counter::OpenCount, count);
            }
        }
        for (to, datagram) in self.replies.drain(..) {
            send_one(self.shared, &shared_cell, to, &datagram);
        }
        if self.outgoing.is_empty() {
            return;
        }
        self.shared.last_data_ns.store(now_ns, Ordering::Relaxed);
        let target = self.shared.routes[gate.route].target;
        self.send_all(&self.shared.plain, target, buffer, &shared_cell);
        let mut sum = 0_u64;
        for opened in &self.outgoing {
            sum = sum.wrapping_add(digest(opened, buffer));
        }
        let cell = &mut *locked(&shared_cell);
        cell.counters.digests[1] = cell.counters.digests[1].wrapping_add(sum);
        for opened in &self.outgoing {
            if opened.sent {
                cell.counters.add(Counter::PlaintextOut, 1);
                let bytes = opened.length as u64;
                cell.counters.add(Counter::PlaintextOutBytes, bytes);
            }
            if let Some(ledger) = &mut cell.ledger {
                ledger.rx.add(row(opened, gate));
            }
        }
    }

    fn open_arrival(&mut self, cell: &mut Cell, arrival: &Arrival, buffer: &mut [u8], now_ns: i64) {
        let t_in_ns = arrival.time_ns();
        for (offset, length) in arrival.datagrams() {
            let datagram = &mut buffer[offset..offset + length];
            let outcome = cell.session.receive(datagram, now_ns, &mut cell.counters);
            cell.bins.add(t_in_ns, Field::RxDatagrams, 1);
            cell.bins.add(t_in_ns, Field::RxBytes, length as u64);
            let square = (length * length) as u64;
            cell.bins.add(t_in_ns, Field::RxBytesSq, square);
            let opened = match outcome {
                Ok(opened) => opened,
                Err(reason) => {
                    let field = Field::of_drop(reason.counter());
                    cell.bins.add(t_in_ns, field, 1);
                    continue;
                }
            };
            if opened.skipped > 0 {
                cell.bins.add(t_in_ns, Field::SequenceGap, opened.skipped);
            }
            if opened.filled {
                cell.bins.add(t_in_ns, Field::RxFilled, 1);
            }
            let start = offset + packet::HEADER_BYTES;
            if opened.first {
                self.confirm(cell);
            }
            if !cell.session.is_plain() {
                // Plain packets prove nothing: they neither move the peer nor ask for anything.
                let payload = &buffer[start..start + opened.length];
                if opened.kind == packet::DATA && cell.path.peer() != Some(arrival.source) {
                    cell.counters.add(Counter::PathNewSource, 1);
                    cell.bins.add(t_in_ns, Field::NewSource, 1);
                }
                self.heed(cell, opened, payload, arrival.source, now_ns);
            }
            if opened.kind != packet::DATA {
                let field = match opened.kind {
                    packet::KEEPALIVE => Field::RxKeepalive,
                    _ => Field::RxControl,
                };
                cell.bins.add(t_in_ns, field, 1);
                continue;
            }
            cell.bins.add(t_in_ns, Field::RxData, 1);
            self.outgoing.push(Outgoing {
                start,
                length: opened.length,
                plain: (start, opened.length),
                size_bytes: length,
                epoch: opened.epoch,
                sequence: opened.sequence,
                t_in_ns,
                t_out_ns: 0,
                sent: false,
            });
        }
    }

    /// The first authentic packet of an epoch: the GCS says so at once, so that the drone knows that its new session
    /// carries packets both ways.
    fn confirm(&mut self, cell: &mut Cell) {
        self.shared.confirmed.set();
        if self.shared.role != Role::Gcs || cell.session.is_plain() {
            return;
        }
        if let Some(peer) = cell.path.peer() {
            self.reply(cell, packet::EPOCH_ACK, &[], peer);
        }
    }

    /// Seal a control packet now and send it to `to` after the batch.
    fn reply(&mut self, cell: &mut Cell, kind: u8, payload: &[u8], to: SocketAddrV4) {
        // Refused only without keys to send under, or where they are used up: the next data packet says so.
        if let Ok(datagram) = sealed_control(self.shared, cell, kind, payload) {
            self.replies.push((to, datagram));
        }
    }

    /// What an authentic packet means beside its plaintext: keys say who sent it, only an answered challenge says
    /// where the peer is.
    fn heed(
        &mut self,
        cell: &mut Cell,
        opened: Opened,
        payload: &[u8],
        source: SocketAddrV4,
        now_ns: i64,
    ) {
        let kind = opened.kind;
        if packet::is_well_formed(kind, payload) {
            if kind == packet::PATH_CHALLENGE {
                self.reply(cell, packet::PATH_RESPONSE, payload, source);
            }
            if kind == packet::PATH_RESPONSE && cell.path.on_response(source, payload, now_ns) {
                cell.counters.add(Counter::PathChanged, 1);
                self.shared.note(format!("the peer moved to {source}"));
            }
            cell.push_control(ControlFrame {
                kind,
                payload: payload.to_vec(),
                epoch: opened.epoch,
                source,
                monotonic_ns: now_ns,
            });
        }
        if let Some(token) = cell.challenge(source, opened.newest, now_ns) {
            self.reply(cell, packet::PATH_CHALLENGE, &token, source);
        }
    }

    /// Send all outgoing datagrams in order; one that the kernel refuses is counted and passed over.
    fn send_all(
        &mut self,
        socket: &UdpSocket,
        target: SocketAddrV4,
        memory: &[u8],
        cell: &SharedCell,
    ) {
        let slices: Vec<_> = self
            .outgoing
            .iter()
            .map(|one| IoSlice::new(&memory[one.start..one.start + one.length]))
            .collect();
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
    }
}
