//! The forwarder of one ground station with many drones: one sealed socket for all, one plaintext socket for each.
//!
//! A sealed datagram finds its drone by its receiver index, in one lookup. Two threads serve everybody: one asleep in
//! the sealed socket, one in a poll over all plaintext sockets. Each drone has a cell of its own (session, counters,
//! address), behind a lock of its own, and its plaintext socket never blocks: who reads slowly loses its own datagrams.
//! `plane` is the same for a single peer. In scope: who there is, keys in, control packets out. The threads' work is in
//! `hub_lanes`.

use crate::cell::{locked, Cell, SharedCell};
use crate::counters::{Counter, Counters};
use crate::event::Event;
use crate::hub_lanes;
use crate::outgoing::{failure_counter, send_now};
use crate::packet;
use crate::path::PathState;
use crate::session::{EpochKeys, InstallError, Role, SealError};
use crate::udp::{self, Arrival};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
pub(crate) use crate::raw::poll::Poller;

/// An address as the rest of this crate has it.
pub type Address = SocketAddr;

/// Complaints kept of one peer until they are fetched.
const NOTES_A_PEER: usize = 20;

/// One drone as the threads see it.
pub struct HubPeer {
    /// Session, counters, address of the drone.
    pub cell: SharedCell,
    /// Set by the first authentic packet of the newest epoch.
    pub confirmed: Event,
    /// Names it among the hub's; never used again.
    pub number: u64,
    pub(crate) plain: UdpSocket,
    pub(crate) application: Address,
    /// When the last data packet moved in either direction, ns since the hub began; 0: never.
    pub(crate) last_data_ns: AtomicI64,
    /// Sequences that were passed over and have not come since.
    pub(crate) missing: AtomicU64,
    pub(crate) dropped_before: AtomicU32,
    notes: Mutex<(HashSet<String>, VecDeque<String>)>,
    indices: Mutex<VecDeque<u32>>,
}

impl HubPeer {
    /// Data packets of the drone that are late or lost; the tail of an epoch does not show.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Where its plaintext comes in.
    #[must_use]
    pub fn plaintext_address(&self) -> Address {
        local_address(&self.plain)
    }

    /// Complaints since the last call.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        locked(&self.notes).1.drain(..).collect()
    }

    /// The same complaint once: a flood must not become a flood of log lines.
    pub(crate) fn note(&self, kind: String, text: String) {
        let (seen, waiting) = &mut *locked(&self.notes);
        if seen.len() < NOTES_A_PEER && seen.insert(kind) {
            waiting.push_back(text);
        }
    }

    /// Count a datagram that the kernel refused, and note why, once for each reason and target.
    pub(crate) fn count_failure(&self, to: Address, error: &io::Error, size_bytes: usize) {
        let counter = failure_counter(error);
        locked(&self.cell).counters.add(counter, 1);
        let kind = format!("{} {to}", counter.name());
        self.note(kind, format!("send of {size_bytes} bytes to {to}: {error}"));
    }

    /// What its plaintext socket's queue dropped since the last batch.
    pub(crate) fn count_drops(&self, arrivals: &[Arrival], cell: &mut Cell) {
        if let Some(total) = arrivals.iter().rev().find_map(|arrival| arrival.dropped) {
            let before = self.dropped_before.swap(total, Ordering::Relaxed);
            let fresh = u64::from(total.wrapping_sub(before));
            cell.counters.add(Counter::QueueFull, fresh);
        }
    }
}

/// What the threads and the hub share.
pub(crate) struct Inner {
    pub sealed: UdpSocket,
    pub poller: Poller,
    pub peers: RwLock<HashMap<u64, Arc<HubPeer>>>,
    pub indices: RwLock<HashMap<u32, Arc<HubPeer>>>,
    /// Of datagrams that belong to nobody.
    pub strays: Mutex<Counters>,
    pub stopping: AtomicBool,
    origin: Instant,
}

impl Inner {
    pub fn monotonic_ns(&self) -> i64 {
        self.origin.elapsed().as_nanos() as i64
    }

    pub fn send_one(&self, peer: &HubPeer, to: Address, datagram: &[u8]) {
        if let Err(error) = send_now(&self.sealed, datagram, to) {
            peer.count_failure(to, &error, datagram.len());
        }
    }
}

/// Readers and writers leave these maps whole: a holder that panicked has not torn them.
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// The UDP side of a ground station. Drones come and go while its threads run.
pub struct Hub {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
    next_number: AtomicU64,
}

impl Hub {
    /// Bind the sealed socket and start both threads; times count from `origin`.
    ///
    /// # Errors
    /// The address is taken, or the system has no thread to give.
    pub fn open(sealed: Address, origin: Instant) -> io::Result<Self> {
        let sealed = udp::bind(sealed)?;
        let _ = udp::enable(&sealed); // receive times are a ledger's alone
        let inner = Arc::new(Inner {
            sealed,
            poller: Poller::new()?,
            peers: RwLock::default(),
            indices: RwLock::default(),
            strays: Mutex::default(),
            stopping: AtomicBool::new(false),
            origin,
        });
        let mut hub = Self {
            inner,
            threads: Vec::new(),
            next_number: AtomicU64::new(1),
        };
        for (name, work) in [
            ("gcs-sealed", hub_lanes::sealed as fn(&Inner)),
            ("gcs-plaintext", hub_lanes::plaintext),
        ] {
            let inner = Arc::clone(&hub.inner);
            let thread = std::thread::Builder::new().name(name.to_owned());
            hub.threads.push(thread.spawn(move || work(&inner))?);
        }
        Ok(hub)
    }

    /// Serve one more drone: what comes to `plaintext` from the application's host goes to it, what it sends goes to
    /// `application`.
    ///
    /// # Errors
    /// The address is taken.
    pub fn add(&self, plaintext: Address, application: Address) -> io::Result<Arc<HubPeer>> {
        let plain = udp::bind(plaintext)?;
        plain.set_nonblocking(true)?;
        let _ = udp::enable(&plain);
        let peer = Arc::new(HubPeer {
            cell: Cell::of_many(Role::Gcs, false),
            confirmed: Event::default(),
            number: self.next_number.fetch_add(1, Ordering::Relaxed),
            plain,
            application: udp::fitting(application, plaintext.is_ipv6()),
            last_data_ns: AtomicI64::new(0),
            missing: AtomicU64::new(0),
            dropped_before: AtomicU32::new(0),
            notes: Mutex::default(),
            indices: Mutex::default(),
        });
        write(&self.inner.peers).insert(peer.number, Arc::clone(&peer));
        if let Err(error) = self.inner.poller.add(&peer.plain, peer.number) {
            write(&self.inner.peers).remove(&peer.number);
            return Err(error);
        }
        Ok(peer)
    }

    /// Serve it no more: its keys are erased now, its port is free once the last holder lets go of it.
    pub fn remove(&self, peer: &HubPeer) {
        // An error says that it was not watched, and that is what is wanted.
        let _ = self.inner.poller.remove(&peer.plain, peer.number);
        write(&self.inner.peers).remove(&peer.number);
        self.end_session(peer);
    }

    /// Erase every key of this drone and forget its indices.
    pub fn end_session(&self, peer: &HubPeer) {
        let mut held = write(&self.inner.indices);
        locked(&peer.indices).clear();
        held.retain(|_, holder| holder.number != peer.number);
        let mut cell = locked(&peer.cell);
        cell.session.close();
        cell.path = PathState::default();
    }

    /// Is this receiver index nobody's?
    #[must_use]
    pub fn index_is_free(&self, index: u32) -> bool {
        !read(&self.inner.indices).contains_key(&index)
    }

    /// Take in the keys of a completed handshake; a new session's packets go to `address`, where it is given.
    ///
    /// # Errors
    /// As `Session::install`; nothing has changed then. An index that lives at any drone is taken.
    pub fn install(
        &self,
        peer: &Arc<HubPeer>,
        keys: &EpochKeys<'_>,
        address: Option<Address>,
        rtt: Duration,
    ) -> Result<(), InstallError> {
        let mut held = write(&self.inner.indices);
        if held.contains_key(&keys.rx_index) {
            return Err(InstallError::IndexTaken);
        }
        let cell = &mut *locked(&peer.cell);
        let rtt_ns = i64::try_from(rtt.as_nanos()).unwrap_or(i64::MAX);
        cell.session.set_rtt(rtt_ns);
        cell.session.install(keys, self.now_ns())?;
        // Under the cell's lock, in which the data thread sets it: no packet of the new epoch is missed.
        peer.confirmed.clear();
        if let Some(address) = address {
            // As the sealed socket names it: fitted here once, not a datagram.
            let address = udp::fitting(address, self.sealed_address().is_ipv6());
            cell.path.set_peer(address);
        }
        held.insert(keys.rx_index, Arc::clone(peer));
        let indices = &mut *locked(&peer.indices);
        indices.push_back(keys.rx_index);
        // What the session has forgotten is free; an epoch that lives keeps its index, however many came after it.
        indices.retain(|index| {
            let is_known = !cell.session.index_is_free(*index);
            if !is_known {
                held.remove(index);
            }
            is_known
        });
        Ok(())
    }

    /// Send one sealed control packet to a drone; false when there is no key to send it under, or no address.
    ///
    /// # Errors
    /// A type that is no control type.
    pub fn send_control(
        &self,
        peer: &HubPeer,
        kind: u8,
        payload: &[u8],
    ) -> Result<bool, SealError> {
        let (to, datagram) = {
            let cell = &mut *locked(&peer.cell);
            let Some(to) = cell.path.peer() else {
                return Ok(false);
            };
            let mut datagram = Vec::with_capacity(payload.len() + packet::OVERHEAD_BYTES);
            let sealed =
                cell.session
                    .seal_control(kind, payload, &mut datagram, &mut cell.counters);
            match sealed {
                Ok(()) => (to, datagram),
                Err(SealError::NotReady | SealError::Exhausted { .. }) => return Ok(false),
                Err(other) => return Err(other),
            }
        };
        self.inner.send_one(peer, to, &datagram);
        Ok(true)
    }

    /// Counts of sealed datagrams that belong to no drone.
    #[must_use]
    pub fn strays(&self) -> Counters {
        locked(&self.inner.strays).clone()
    }

    /// Local address of sealed datagrams.
    #[must_use]
    pub fn sealed_address(&self) -> Address {
        local_address(&self.inner.sealed)
    }

    /// Monotonic, ns since the origin.
    #[must_use]
    pub fn now_ns(&self) -> i64 {
        self.inner.monotonic_ns()
    }

    /// Erase every key and stop both threads.
    pub fn close(&mut self) {
        let peers: Vec<Arc<HubPeer>> = read(&self.inner.peers).values().cloned().collect();
        for peer in peers {
            self.remove(&peer);
        }
        self.inner.stopping.store(true, Ordering::SeqCst);
        let give_up = Instant::now() + Duration::from_secs(2);
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < give_up {
            // A blocked receive cannot be cancelled portably; an empty datagram to ourselves wakes it.
            let _ = crate::plane::wake(self.sealed_address());
            std::thread::sleep(Duration::from_millis(2));
        }
        for thread in self.threads.drain(..).filter(JoinHandle::is_finished) {
            let _ = thread.join(); // a panic has printed itself
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}

fn local_address(socket: &UdpSocket) -> Address {
    // A failure here means the descriptor is gone, which its owner prevents.
    let unknown = Address::from((Ipv4Addr::UNSPECIFIED, 0));
    socket.local_addr().unwrap_or(unknown)
}

/// Where the system has no poll for us, every socket is asked each millisecond.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Poller(Mutex<HashSet<u64>>);

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)] // the same calls as Linux's
impl Poller {
    fn new() -> io::Result<Self> {
        Ok(Self(Mutex::default()))
    }

    fn add(&self, _socket: &UdpSocket, number: u64) -> io::Result<()> {
        locked(&self.0).insert(number);
        Ok(())
    }

    fn remove(&self, _socket: &UdpSocket, number: u64) -> io::Result<()> {
        locked(&self.0).remove(&number);
        Ok(())
    }

    pub fn wait(&self, _limit_ms: u16, ready: &mut Vec<u64>) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(1));
        ready.extend(locked(&self.0).iter());
        Ok(())
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
