//! A batch of sealed datagrams: opened in place, its plaintext handed over, its control packets heeded and answered.

use crate::bins::Field;
use crate::cell::{locked, Cell, ControlFrame};
use crate::counters::Counter;
use crate::forward::Worker;
use crate::outgoing::{digest, row, sealed_control, send_one, Outgoing};
use crate::packet;
use crate::session::{Opened, Role};
use crate::udp::Arrival;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

impl Worker<'_> {
    /// Everything that came to the sealed port by now.
    #[inline(never)] // in a frame of its own, which is scrubbed afterwards
    pub fn sealed(&mut self, arrivals: &[Arrival], buffer: &mut [u8]) {
        let (shared_cell, gate) = self.state();
        let Some(shared_cell) = shared_cell else {
            self.count_drops(arrivals, None);
            return;
        };
        self.outgoing.clear();
        let now_ns = {
            let cell = &mut *locked(&shared_cell);
            let dropped = self.count_drops(arrivals, Some(cell));
            self.leaves_keys = cell.session.leaves_keys;
            let now_ns = self.shared.monotonic_ns();
            for arrival in arrivals {
                self.open_arrival(cell, arrival, buffer, now_ns);
            }
            if let (Some(last), true) = (arrivals.last(), dropped > 0) {
                cell.bins.add(last.time_ns(), Field::QueueFull, dropped);
            }
            if !self.outgoing.is_empty() {
                let spent_ns = (self.shared.monotonic_ns() - now_ns) as u64;
                let count = self.outgoing.len() as u64;
                cell.counters.add(Counter::OpenNsTotal, spent_ns);
                cell.counters.add(Counter::OpenCount, count);
            }
            now_ns
        };
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
    fn reply(&mut self, cell: &mut Cell, kind: u8, payload: &[u8], to: SocketAddr) {
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
        source: SocketAddr,
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
}
