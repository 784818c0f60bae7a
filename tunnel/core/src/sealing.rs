//! A batch of plaintext datagrams: vetted, sealed one for one, sent to the peer, booked.

use crate::bins::Field;
use crate::cell::{locked, Cell};
use crate::counters::Counter;
use crate::forward::Worker;
use crate::outgoing::{digest, row, Outgoing};
use crate::packet;
use crate::session::SealError;
use crate::shared::{Gate, Route};
use crate::udp::Arrival;
use std::sync::atomic::Ordering;

impl Worker<'_> {
    /// Everything that came to the plaintext port by now.
    #[inline(never)] // in a frame of its own, which is scrubbed afterwards
    pub fn plaintext(&mut self, arrivals: &[Arrival], buffer: &mut [u8]) {
        let (shared_cell, gate) = self.state();
        let Some(shared_cell) = shared_cell else {
            self.count_drops(arrivals, None);
            let now_ns = self.shared.monotonic_ns();
            for arrival in arrivals.iter().filter(|arrival| arrival.length > 0) {
                self.is_on_route(gate, arrival.source, now_ns);
            }
            return;
        };
        self.arena.clear();
        self.outgoing.clear();
        // Two readings of the clock serve the batch: five took a sixth of this thread's time outside the kernel.
        let (peer, sealed_ns) = {
            let cell = &mut *locked(&shared_cell);
            self.count_drops(arrivals, Some(cell));
            self.leaves_keys = cell.session.leaves_keys;
            let start_ns = self.shared.monotonic_ns();
            for arrival in arrivals {
                self.seal_arrival(cell, gate, arrival, buffer, start_ns);
            }
            let end_ns = self.shared.monotonic_ns();
            if !self.outgoing.is_empty() {
                let spent_ns = (end_ns - start_ns) as u64;
                let count = self.outgoing.len() as u64;
                cell.counters.add(Counter::SealNsTotal, spent_ns);
                cell.counters.add(Counter::SealCount, count);
            }
            (cell.path.peer(), end_ns)
        };
        let (Some(peer), false) = (peer, self.outgoing.is_empty()) else {
            return;
        };
        let arena = std::mem::take(&mut self.arena);
        // Before they leave: who waits for the link to fall silent must not look between sending and noting it.
        self.shared.last_data_ns.store(sealed_ns, Ordering::Relaxed);
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

    fn seal_arrival(
        &mut self,
        cell: &mut Cell,
        gate: Gate,
        arrival: &Arrival,
        buffer: &[u8],
        now_ns: i64,
    ) {
        let is_known = |route: &Route| route.source == arrival.source.ip();
        let known = self.shared.routes.iter().any(is_known);
        for (offset, length) in arrival.datagrams() {
            if length == 0 {
                continue; // an announce, or our own waker
            }
            if !known {
                cell.counters.add(Counter::WrongSource, 1);
                continue;
            }
            let on_route = self.is_on_route(gate, arrival.source, now_ns);
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
}
