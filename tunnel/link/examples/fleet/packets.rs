//! Datagrams: what drones send, what the station opened, what comes back.
//!
//! A payload is kind, window, drone (2 bytes), number (4 bytes), then zeros. The farm's application, which stands for
//! every drone's application at the station, sends probes back and counts load.

use crate::farm::Farm;
use crate::prepare::FIRST_PLAINTEXT;
use pq_core::packet;
use pq_core::udp::Receiver;
use pq_link::raw::clock::monotonic_ns;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub const PROBE: u8 = b'P';
pub const LOAD: u8 = b'L';
const HEAD_BYTES: usize = 8;
/// Of a probe: a short MAVLink message.
pub const PROBE_BYTES: usize = 64;

/// One probe: whose, when it went, when it came back.
pub struct Probe {
    pub drone: usize,
    pub sent_ns: Option<i64>,
    pub returned_ns: Option<i64>,
}

#[derive(Default)]
pub struct Exchanges {
    window: Mutex<(u8, Vec<Probe>)>,
    pub returned: AtomicU64,
    pub arrived: AtomicU64,
    /// What reached another drone's application, or came back to another drone.
    pub crossed: AtomicU64,
}

impl Exchanges {
    pub fn window(&self) -> MutexGuard<'_, (u8, Vec<Probe>)> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new window; what is still under way of the one before counts for nothing. Returns its number.
    pub fn open(&self) -> u8 {
        let window = &mut *self.window();
        window.0 = window.0.wrapping_add(1);
        window.1 = Vec::new();
        self.returned.store(0, Ordering::Relaxed);
        self.arrived.store(0, Ordering::Relaxed);
        window.0
    }

    fn came_back(&self, drone: usize, payload: &[u8]) {
        let Some((kind, number, owner, place)) = read(payload) else {
            return;
        };
        if kind != PROBE {
            return;
        }
        if owner != drone {
            self.crossed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let window = &mut *self.window();
        if window.0 == number {
            if let Some(probe) = window.1.get_mut(place) {
                if probe.returned_ns.is_none() {
                    probe.returned_ns = Some(monotonic_ns());
                    self.returned.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

pub fn written(kind: u8, window: u8, drone: usize, place: usize, size: usize) -> Vec<u8> {
    let mut payload = vec![0; size.max(HEAD_BYTES)];
    payload[0] = kind;
    payload[1] = window;
    payload[2..4].copy_from_slice(&(drone as u16).to_be_bytes());
    payload[4..8].copy_from_slice(&(place as u32).to_be_bytes());
    payload
}

/// (kind, window, drone, place)
fn read(payload: &[u8]) -> Option<(u8, u8, usize, usize)> {
    let (kind, window) = (*payload.first()?, *payload.get(1)?);
    let drone = u16::from_be_bytes(payload.get(2..4)?.try_into().ok()?).into();
    let place = u32::from_be_bytes(payload.get(4..HEAD_BYTES)?.try_into().ok()?);
    let place = usize::try_from(place).ok()?;
    Some((kind, window, drone, place))
}

impl Farm {
    /// Sealed datagrams, for all drones.
    pub fn keep_receiving(self: &Arc<Self>) {
        self.keep_taking(&self.sealed, |datagram, _| {
            if datagram.len() < packet::HEADER_BYTES {
                return;
            }
            let (word, _) = packet::words(datagram);
            let Some(drone) = self.drone_of(word & 0xFF_FFFF) else {
                return;
            };
            if let Some(opened) = drone.receive(self, datagram) {
                if opened.kind == packet::DATA {
                    let end = packet::HEADER_BYTES + opened.length;
                    let payload = &datagram[packet::HEADER_BYTES..end];
                    self.exchanges.came_back(drone.number, payload);
                }
            }
        });
    }

    /// The applications at the station: probes go back to the plaintext port that they came from.
    pub fn keep_answering(self: &Arc<Self>) {
        self.keep_taking(&self.application, |payload, source| {
            let Some((kind, _, drone, _)) = read(payload) else {
                return;
            };
            let due = usize::from(FIRST_PLAINTEXT) + drone;
            if usize::from(source.port()) != due || source.ip() != self.station_ip {
                self.exchanges.crossed.fetch_add(1, Ordering::Relaxed);
            } else if kind == PROBE {
                // Refused by a kernel whose link is down: it is lost, and counted as lost.
                let _ = self.application.send_to(payload, source);
            } else if kind == LOAD {
                self.exchanges.arrived.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    fn keep_taking(
        &self,
        socket: &std::net::UdpSocket,
        mut take: impl FnMut(&mut [u8], SocketAddr),
    ) {
        let (mut receiver, mut arrivals) = (Receiver::default(), Vec::new());
        let mut dropped = 0;
        while !self.is_over() {
            arrivals.clear();
            if receiver.receive(socket, &mut arrivals).is_err() {
                continue; // nothing came in time
            }
            for arrival in &arrivals {
                if let Some(total) = arrival.dropped {
                    let more = total.wrapping_sub(dropped);
                    self.dropped.fetch_add(more.into(), Ordering::Relaxed);
                    dropped = total;
                }
                for (offset, length) in arrival.datagrams() {
                    take(
                        &mut receiver.buffer()[offset..offset + length],
                        arrival.source,
                    );
                }
            }
        }
    }
}
