//! The forwarder of one endpoint: plaintext datagrams are sealed one for one, sealed ones opened one for one.
//!
//! Two threads, one a direction, each asleep in the kernel until a datagram comes; what else has come by then goes
//! through in the same batch. The bounded queues are the kernel's socket buffers, and what they drop is counted.
//! `pqspec.shell.dataplane` is the executable specification. In scope: control of the threads, gate, peer.
//! What happens to a batch is in `forward`.

use crate::cell::{locked, ControlFrame, SharedCell};
use crate::counters::Counter;
pub use crate::event::Event;
use crate::forward::{self, Lane};
use crate::outgoing;
use crate::session::{Role, SealError};
use crate::shared::Shared;
pub use crate::shared::{Gate, Route};
use crate::udp;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Set-up of an endpoint's UDP side. The first route is the one that announces go to.
pub struct Setup {
    /// Which end.
    pub role: Role,
    /// Address of plaintext in.
    pub plain: SocketAddr,
    /// Address of sealed datagrams.
    pub sealed: SocketAddr,
    /// Where sealed datagrams go, if known.
    pub peer: Option<SocketAddr>,
    /// At least one.
    pub routes: Vec<Route>,
    /// One moment on this clock and on the caller's monotonic clock, ns: both run on together.
    pub origin: (Instant, i64),
}

/// The UDP side of an endpoint. Threads run from `open` to `close`; cells come and go beneath them.
pub struct Plane {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    stamped: bool,
}

/// One of the two sockets cannot be bound.
#[derive(Debug)]
pub struct BindError {
    /// True: the plaintext socket. False: the sealed one.
    pub plain: bool,
    /// What the system said.
    pub error: io::Error,
}

impl Plane {
    /// Bind both sockets.
    ///
    /// # Errors
    /// A port that is taken, or an address that is not this host's.
    ///
    /// # Panics
    /// Without a route.
    pub fn new(mut setup: Setup) -> Result<Self, BindError> {
        assert!(!setup.routes.is_empty(), "an endpoint has a route");
        // The threads compare and send addresses as their socket has them: fitted here once, not a datagram.
        for route in &mut setup.routes {
            let source = SocketAddr::new(route.source, 0);
            route.source = udp::fitting(source, setup.plain.is_ipv6()).ip();
            route.target = udp::fitting(route.target, setup.plain.is_ipv6());
        }
        setup.peer = setup
            .peer
            .map(|peer| udp::fitting(peer, setup.sealed.is_ipv6()));
        let bound =
            |plain: bool, address| udp::bind(address).map_err(|error| BindError { plain, error });
        let (plain, sealed) = (bound(true, setup.plain)?, bound(false, setup.sealed)?);
        Ok(Self {
            shared: Arc::new(Shared::new(setup, plain, sealed)),
            threads: Vec::new(),
            stamped: false,
        })
    }

    /// Start both threads.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn open(&mut self) -> io::Result<()> {
        let stamped = [&self.shared.plain, &self.shared.sealed].map(udp::enable);
        self.stamped = stamped[0] && stamped[1];
        for lane in [Lane::Plaintext, Lane::Sealed] {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new()
                .name(format!("{}-{}", shared.role.name(), lane.name()))
                .spawn(move || forward::run(&shared, lane))?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// Stop both threads; the ports are free once the plane is dropped.
    pub fn close(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let give_up = Instant::now() + Duration::from_secs(2);
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < give_up {
            // A blocked receive cannot be cancelled portably; an empty datagram to ourselves wakes it.
            for address in [self.plaintext_address(), self.sealed_address()] {
                let _ = wake(address);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        for thread in self.threads.drain(..).filter(JoinHandle::is_finished) {
            let _ = thread.join(); // a panic has printed itself
        }
    }

    /// True where receive times are the kernel's.
    #[must_use]
    pub fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Local address of plaintext in.
    #[must_use]
    pub fn plaintext_address(&self) -> SocketAddr {
        local_address(&self.shared.plain)
    }

    /// Local address of sealed datagrams.
    #[must_use]
    pub fn sealed_address(&self) -> SocketAddr {
        local_address(&self.shared.sealed)
    }

    /// Work on `cell` from the next batch on; `None`: drop everything. The last cell's keys are erased.
    pub fn attach(&self, cell: Option<SharedCell>) {
        let mut state = locked(&self.shared.state);
        if let Some(last) = state.cell.take() {
            locked(&last).session.close();
        }
        if let (Some(cell), Some(peer)) = (&cell, state.peer) {
            locked(cell).path.set_peer(peer);
        }
        state.cell = cell;
        state.gate = Gate::CLOSED;
        drop(state);
        self.shared.begin_notes();
    }

    fn cell(&self) -> Option<SharedCell> {
        locked(&self.shared.state).cell.clone()
    }

    /// Where sealed datagrams go from now on; a challenge that is outstanding is void.
    pub fn set_peer(&self, address: SocketAddr) {
        let address = udp::fitting(address, self.sealed_address().is_ipv6());
        let mut state = locked(&self.shared.state);
        state.peer = Some(address);
        if let Some(cell) = &state.cell {
            locked(cell).path.set_peer(address);
        }
    }

    /// Where sealed datagrams go now: as set, or as an answered challenge moved it in this cell.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        let state = locked(&self.shared.state);
        let peer = match &state.cell {
            Some(cell) => locked(cell).path.peer(),
            None => state.peer,
        };
        peer.map(udp::canonical)
    }

    /// The control frames of this cell since the last call, oldest first.
    #[must_use]
    pub fn take_control(&self) -> Vec<ControlFrame> {
        let cell = self.cell();
        cell.map_or_else(Vec::new, |cell| locked(&cell).take_control())
    }

    /// When the first packet of `epoch` was sealed to be sent in this cell, ns of the caller's monotonic clock.
    #[must_use]
    pub fn first_sent_ns(&self, epoch: u32) -> Option<i64> {
        self.cell()
            .and_then(|cell| locked(&cell).first_sent_ns(epoch))
    }

    /// Open or close the gate of a window.
    pub fn set_gate(&self, gate: Gate) {
        locked(&self.shared.state).gate = gate;
    }

    /// How many routes there are.
    #[must_use]
    pub fn route_count(&self) -> usize {
        self.shared.routes.len()
    }

    /// The gate as it is.
    #[must_use]
    pub fn gate(&self) -> Gate {
        locked(&self.shared.state).gate
    }

    /// Set by the next datagram on the gate's route, whether the gate is open or not.
    #[must_use]
    pub fn first_plaintext(&self) -> Arc<Event> {
        Arc::clone(&self.shared.first_plaintext)
    }

    /// Set by the first authenticated packet of an epoch.
    #[must_use]
    pub fn confirmed(&self) -> Arc<Event> {
        Arc::clone(&self.shared.confirmed)
    }

    /// When the last data packet moved in either direction, ns of the caller's monotonic clock; 0: never. Now, while a
    /// thread has a batch in hand: it may have sent what it has not booked yet.
    #[must_use]
    pub fn last_data_ns(&self) -> i64 {
        if self.shared.in_hand.load(Ordering::Acquire) > 0 {
            return self.shared.monotonic_ns();
        }
        self.shared.last_data_ns.load(Ordering::Relaxed)
    }

    /// When the last datagram on the gate's route came, ns of the caller's monotonic clock; 0: never.
    #[must_use]
    pub fn last_plaintext_ns(&self) -> i64 {
        self.shared.last_plaintext_ns.load(Ordering::Relaxed)
    }

    /// Send one sealed control packet to the peer; false when there is no key to send it under, or no peer.
    ///
    /// # Errors
    /// A type that is no control type.
    pub fn send_control(&self, kind: u8, payload: &[u8]) -> Result<bool, SealError> {
        let Some(cell) = self.cell() else {
            return Ok(false);
        };
        outgoing::send_control(&self.shared, &cell, kind, payload)
    }

    /// One empty datagram to the first route's target, so that a listener learns our address before traffic.
    pub fn announce(&self) {
        let target = self.shared.routes[0].target;
        if let Err(error) = outgoing::send_now(&self.shared.plain, &[], target) {
            self.shared.note(format!("announce to {target}: {error}"));
        } else if let Some(cell) = self.cell() {
            locked(&cell).counters.add(Counter::PlaintextAnnounce, 1);
        }
    }

    /// Complaints since the last call.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        self.shared.take_notes()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(all(test, target_os = "linux"))]
#[path = "plane_tests.rs"]
mod tests;

pub(crate) fn wake(address: SocketAddr) -> io::Result<()> {
    let (any, own): (IpAddr, IpAddr) = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    };
    let mut target = address;
    if address.ip().is_unspecified() {
        target.set_ip(own);
    }
    let waker = UdpSocket::bind((any, 0))?;
    waker.send_to(&[], target).map(|_| ())
}

fn local_address(socket: &UdpSocket) -> SocketAddr {
    // A failure here means the descriptor is gone, which its owner prevents.
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    socket.local_addr().unwrap_or(nowhere)
}
