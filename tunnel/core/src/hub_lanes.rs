//! The two threads of a hub. The lock of a drone's cell is held while its datagrams are sealed or opened and while the
//! results are booked, never while the kernel receives or sends. All memory is kept from batch to batch.

use crate::cell::{locked, Cell};
use crate::counters::Counter;
use crate::hub::{read, Address, HubPeer, Inner};
use crate::outgoing::{digest, row, Outgoing};
use crate::packet;
use crate::scrub::{below, scrub_packets};
use crate::session::{Opened, SealError};
use crate::shared::Gate;
use crate::udp::{realtime_ns, Arrival, Receiver, Sender};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// How long the plaintext thread sleeps where nothing comes: it looks whether it is to stop.
const POLL_MS: u16 = 200;
/// A hub's traffic is never gated.
const OPEN: Gate = Gate {
    route: 0,
    place: 0,
    is_open: true,
};

/// One sealed datagram of a batch, and the place of its drone among those met in it.
struct Place {
    met: usize,
    arrival: usize,
    offset: usize,
    length: usize,
}

#[derive(Default)]
struct Worker {
    sender: Sender,
    places: Vec<Place>,
    met: Vec<Arc<HubPeer>>,
    arena: Vec<u8>,
    outgoing: Vec<Outgoing>,
    replies: Vec<(Address, Vec<u8>)>,
    /// Did this batch leave copies of keys on the stack?
    leaves_keys: bool,
}

fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionReset, Interrupted};
    // An ICMP error passes at once; one that lasts must not become a spin.
    if !matches!(error.kind(), Interrupted | ConnectionReset) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Receive sealed datagrams of everybody until the hub stops.
pub(crate) fn sealed(inner: &Inner) {
    let (mut receiver, mut worker) = (Receiver::default(), Worker::default());
    let (mut arrivals, mut dropped_before) = (Vec::new(), 0_u32);
    while !inner.stopping.load(Ordering::SeqCst) {
        arrivals.clear();
        if let Err(error) = receiver.receive(&inner.sealed, &mut arrivals) {
            pause(&error);
            continue;
        }
        if let Some(total) = arrivals.iter().rev().find_map(|arrival| arrival.dropped) {
            let fresh = total.wrapping_sub(dropped_before);
            dropped_before = total;
            locked(&inner.strays).add(Counter::QueueFull, fresh.into());
        }
        worker.sort(inner, &arrivals, receiver.buffer());
        below(|| worker.open_all(inner, &arrivals, receiver.buffer()));
        worker.scrub();
        // Whoever was removed meanwhile gives its port back now, not with the next packet of somebody else.
        worker.met.clear();
    }
}

/// Receive plaintext for everybody until the hub stops.
pub(crate) fn plaintext(inner: &Inner) {
    let (mut receiver, mut worker) = (Receiver::default(), Worker::default());
    let (mut arrivals, mut ready) = (Vec::new(), Vec::new());
    while !inner.stopping.load(Ordering::SeqCst) {
        ready.clear();
        if let Err(error) = inner.poller.wait(POLL_MS, &mut ready) {
            pause(&error);
            continue;
        }
        for number in ready.drain(..) {
            let Some(peer) = read(&inner.peers).get(&number).cloned() else {
                continue;
            };
            arrivals.clear();
            // One batch each: who floods waits its turn behind everybody else.
            match receiver.receive(&peer.plain, &mut arrivals) {
                Ok(()) => {
                    below(|| worker.seal(inner, &peer, &arrivals, receiver.buffer()));
                    worker.scrub();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => pause(&error),
            }
        }
    }
}

impl Worker {
    fn scrub(&mut self) {
        if std::mem::take(&mut self.leaves_keys) {
            scrub_packets();
        }
    }

    /// Whose is each datagram? Of one drone's the order stays.
    fn sort(&mut self, inner: &Inner, arrivals: &[Arrival], buffer: &[u8]) {
        self.places.clear();
        let indices = read(&inner.indices);
        for (place, arrival) in arrivals.iter().enumerate() {
            for (offset, length) in arrival.datagrams() {
                let datagram = &buffer[offset..offset + length];
                let peer = match known_index(datagram) {
                    Ok(index) => indices.get(&index).ok_or(Counter::UnknownIndex),
                    Err(counter) => Err(counter),
                };
                match peer {
                    Ok(peer) => {
                        let last = self.met.iter().rposition(|one| Arc::ptr_eq(one, peer));
                        let met = last.unwrap_or_else(|| {
                            self.met.push(Arc::clone(peer));
                            self.met.len() - 1
                        });
                        self.places.push(Place {
                            met,
                            arrival: place,
                            offset,
                            length,
                        });
                    }
                    Err(_) if length == 0 => {} // our own waker
                    Err(counter) => locked(&inner.strays).add(counter, 1),
                }
            }
        }
        drop(indices);
        self.places.sort_by_key(|place| place.met);
    }

    #[inline(never)] // in a frame of its own, which is scrubbed afterwards
    fn open_all(&mut self, inner: &Inner, arrivals: &[Arrival], buffer: &mut [u8]) {
        let places = std::mem::take(&mut self.places);
        for run in places.chunk_by(|one, next| one.met == next.met) {
            let peer = Arc::clone(&self.met[run[0].met]);
            self.open_run(inner, &peer, run, arrivals, buffer);
        }
        self.places = places;
    }

    fn open_run(
        &mut self,
        inner: &Inner,
        peer: &HubPeer,
        run: &[Place],
        arrivals: &[Arrival],
        buffer: &mut [u8],
    ) {
        self.outgoing.clear();
        let now_ns = inner.monotonic_ns();
        {
            let cell = &mut *locked(&peer.cell);
            self.leaves_keys |= cell.session.leaves_keys;
            for place in run {
                self.open_one(peer, cell, place, &arrivals[place.arrival], buffer, now_ns);
            }
        }
        for (to, datagram) in self.replies.drain(..) {
            inner.send_one(peer, to, &datagram);
        }
        if self.outgoing.is_empty() {
            return;
        }
        peer.last_data_ns.store(now_ns, Ordering::Relaxed);
        self.send_all(&peer.plain, peer, peer.application, buffer);
        let cell = &mut *locked(&peer.cell);
        for opened in &self.outgoing {
            let sum = &mut cell.counters.digests[1];
            *sum = sum.wrapping_add(digest(opened, buffer));
            if opened.sent {
                cell.counters.add(Counter::PlaintextOut, 1);
                let bytes = opened.length as u64;
                cell.counters.add(Counter::PlaintextOutBytes, bytes);
            }
            if let Some(ledger) = &mut cell.ledger {
                ledger.rx.add(row(opened, OPEN));
            }
        }
    }

    fn open_one(
        &mut self,
        peer: &HubPeer,
        cell: &mut Cell,
        place: &Place,
        arrival: &Arrival,
        buffer: &mut [u8],
        now_ns: i64,
    ) {
        let datagram = &mut buffer[place.offset..place.offset + place.length];
        let outcome = cell.session.receive(datagram, now_ns, &mut cell.counters);
        let Ok(opened) = outcome else {
            return; // counted, and moves nothing
        };
        if opened.filled {
            // Never below zero: what fills was counted as passed over.
            let taken = |missing: u64| Some(missing.saturating_sub(1));
            let order = Ordering::Relaxed;
            let _ = peer.missing.fetch_update(order, order, taken);
        }
        peer.missing.fetch_add(opened.skipped, Ordering::Relaxed);
        if opened.first {
            peer.confirmed.set();
            // The drone learns that its new session carries packets both ways.
            if let Some(to) = cell.path.peer() {
                self.reply(cell, packet::EPOCH_ACK, &[], to);
            }
        }
        let start = place.offset + packet::HEADER_BYTES;
        let payload = &buffer[start..start + opened.length];
        if opened.kind == packet::DATA && cell.path.peer() != Some(arrival.source) {
            cell.counters.add(Counter::PathNewSource, 1);
        }
        self.heed(peer, cell, opened, payload, arrival.source, now_ns);
        if opened.kind == packet::DATA {
            self.outgoing.push(Outgoing {
                start,
                length: opened.length,
                plain: (start, opened.length),
                size_bytes: place.length,
                epoch: opened.epoch,
                sequence: opened.sequence,
                t_in_ns: arrival.time_ns(),
                t_out_ns: 0,
                sent: false,
            });
        }
    }

    /// Seal a control packet now and send it after the run.
    fn reply(&mut self, cell: &mut Cell, kind: u8, payload: &[u8], to: Address) {
        let mut datagram = Vec::with_capacity(payload.len() + packet::OVERHEAD_BYTES);
        let sealed = cell
            .session
            .seal_control(kind, payload, &mut datagram, &mut cell.counters);
        // Refused only without keys to send under, or where they are used up: the next data packet says so.
        if sealed.is_ok() {
            self.replies.push((to, datagram));
        }
    }

    /// What an authentic packet means beside its plaintext, as in `opening`. Its control frames are kept for nobody:
    /// a ground station has nothing to do about them.
    fn heed(
        &mut self,
        peer: &HubPeer,
        cell: &mut Cell,
        opened: Opened,
        payload: &[u8],
        source: Address,
        now_ns: i64,
    ) {
        let kind = opened.kind;
        if packet::is_well_formed(kind, payload) {
            if kind == packet::PATH_CHALLENGE {
                self.reply(cell, packet::PATH_RESPONSE, payload, source);
            }
            if kind == packet::PATH_RESPONSE && cell.path.on_response(source, payload, now_ns) {
                cell.counters.add(Counter::PathChanged, 1);
                let text = format!("the peer moved to {source}");
                peer.note(text.clone(), text);
            }
        }
        if let Some(token) = cell.challenge(source, opened.newest, now_ns) {
            self.reply(cell, packet::PATH_CHALLENGE, &token, source);
        }
    }

    #[inline(never)] // in a frame of its own, which is scrubbed afterwards
    fn seal(&mut self, inner: &Inner, peer: &HubPeer, arrivals: &[Arrival], buffer: &[u8]) {
        self.arena.clear();
        self.outgoing.clear();
        let (to, now_ns) = {
            let cell = &mut *locked(&peer.cell);
            self.leaves_keys |= cell.session.leaves_keys;
            peer.count_drops(arrivals, cell);
            for arrival in arrivals {
                self.seal_arrival(peer, cell, arrival, buffer);
            }
            (cell.path.peer(), inner.monotonic_ns())
        };
        let (Some(to), false) = (to, self.outgoing.is_empty()) else {
            return;
        };
        peer.last_data_ns.store(now_ns, Ordering::Relaxed);
        let arena = std::mem::take(&mut self.arena);
        self.send_all(&inner.sealed, peer, to, &arena);
        self.arena = arena;
        let cell = &mut *locked(&peer.cell);
        for sent in self.outgoing.iter().filter(|one| one.sent) {
            let sum = &mut cell.counters.digests[0];
            *sum = sum.wrapping_add(digest(sent, buffer));
            if let Some(ledger) = &mut cell.ledger {
                ledger.tx.add(row(sent, OPEN));
            }
        }
    }

    fn seal_arrival(&mut self, peer: &HubPeer, cell: &mut Cell, arrival: &Arrival, buffer: &[u8]) {
        for (offset, length) in arrival.datagrams() {
            if length == 0 {
                continue; // an announce
            }
            if arrival.source.ip() != peer.application.ip() {
                cell.counters.add(Counter::WrongSource, 1);
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
            let (start, payload) = (self.arena.len(), &buffer[offset..offset + length]);
            let sealed = cell
                .session
                .seal_data(payload, &mut self.arena, &mut cell.counters);
            match sealed {
                Ok((epoch, sequence)) => self.outgoing.push(Outgoing {
                    start,
                    length: self.arena.len() - start,
                    plain: (offset, length),
                    size_bytes: self.arena.len() - start,
                    epoch,
                    sequence,
                    t_in_ns: arrival.time_ns(),
                    t_out_ns: 0,
                    sent: false,
                }),
                Err(refusal) => {
                    cell.counters.add(Counter::NotReady, 1);
                    if let SealError::Exhausted { epoch } = refusal {
                        let text = format!("seal: epoch {epoch} has sent all its packets");
                        peer.note(text.clone(), text);
                    }
                }
            }
        }
    }

    /// Send all outgoing datagrams in order; one that the kernel refuses is counted and passed over.
    fn send_all(&mut self, socket: &UdpSocket, peer: &HubPeer, to: Address, memory: &[u8]) {
        let places = self.outgoing.iter();
        let slices: Vec<IoSlice<'_>> = places
            .map(|one| IoSlice::new(&memory[one.start..one.start + one.length]))
            .collect();
        let mut next = 0;
        while next < slices.len() {
            let (passed, sent) = match self.sender.send(socket, to, &slices[next..]) {
                Ok(done) => (done.accepted.max(1), true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    peer.count_failure(to, &error, slices[next].len());
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

/// The receiver index of a datagram that could be a sealed one.
fn known_index(datagram: &[u8]) -> Result<u32, Counter> {
    if datagram.len() < packet::OVERHEAD_BYTES {
        return Err(Counter::BadHeader);
    }
    let (word, _) = packet::words(datagram);
    let kind = (word >> 28) as u8;
    if !(packet::DATA..=packet::PATH_RESPONSE).contains(&kind) {
        return Err(Counter::BadHeader);
    }
    Ok(word & 0xFF_FFFF)
}
