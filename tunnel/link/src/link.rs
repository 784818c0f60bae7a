//! What the drone's end of `pqlink` holds: the data plane, the session that may be rekeyed, counters, and one tick. A
//! ground station's is in `station`.

use crate::book::{Book, LastHandshake};
use crate::config::Config;
use crate::error::{HandshakeError, Reason};
use crate::established::{Established, RekeyFrom};
use crate::secret::scrub_stack;
use pq_core::cell::{locked, Cell, ControlFrame, SharedCell};
use pq_core::packet;
use pq_core::plane::{Event, Gate, Plane, Route, Setup};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often an end looks at its timers.
pub const TICK: Duration = Duration::from_millis(20);
/// After so long without a datagram of the application it is told again where this end is.
const ANNOUNCE_EVERY_NS: i64 = 1_000_000_000;

/// One end, shared by its threads.
pub struct Link {
    /// The UDP side.
    pub plane: Plane,
    /// Of the one session.
    pub cell: SharedCell,
    /// Set by the first authentic packet of the newest epoch.
    pub confirmed: Arc<Event>,
    /// When the process began.
    pub started: Instant,
    /// `hs_…` counters by name.
    pub counters: Mutex<BTreeMap<&'static str, u64>>,
    /// Shown by `status`.
    pub last: Mutex<Option<LastHandshake>>,
    book: Mutex<Book>,
    announced_ns: AtomicI64,
    random: SystemRandom,
}

/// One line on standard error. Where nobody takes it, or the disk is full, the line is lost and nothing else is.
pub fn log(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "pqlink: {text}");
}

impl Link {
    /// Bind the UDP sockets and start the data plane; nothing passes before the first handshake.
    ///
    /// # Errors
    /// Text: which port is taken, or what else the system said.
    pub fn open(config: &Config) -> Result<Self, String> {
        let started = Instant::now();
        let setup = Setup {
            role: config.role,
            plain: config.plaintext,
            sealed: config.sealed,
            peer: None, // known with the first handshake
            routes: vec![Route {
                source: config.application.ip(),
                target: config.application,
            }],
            origin: (started, 0),
        };
        let mut plane = Plane::new(setup).map_err(|refused| {
            let (key, address) = if refused.plain {
                ("plaintext", config.plaintext)
            } else {
                ("sealed", config.sealed)
            };
            let error = refused.error;
            format!("{key} = \"{address}\" cannot be bound: {error}; name a free port")
        })?;
        plane
            .open()
            .map_err(|error| format!("no thread for the data plane: {error}"))?;
        let cell = Cell::shared(config.role, false);
        plane.attach(Some(Arc::clone(&cell)));
        plane.set_gate(Gate {
            route: 0,
            place: 0,
            is_open: true,
        });
        Ok(Self {
            confirmed: plane.confirmed(),
            plane,
            cell,
            started,
            counters: Mutex::default(),
            last: Mutex::default(),
            book: Mutex::default(),
            announced_ns: AtomicI64::default(),
            random: SystemRandom::new(),
        })
    }

    /// Monotonic, ns, the data plane's own.
    #[must_use]
    pub fn now_ns(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    /// Random bytes.
    ///
    /// # Errors
    /// `Failed`: the system gives none.
    pub fn random<const N: usize>(&self) -> Result<[u8; N], HandshakeError> {
        let mut fresh = [0; N];
        let filled = self.random.fill(&mut fresh);
        filled
            .map_err(|_| HandshakeError::new(Reason::Failed, "the system gives no randomness"))?;
        Ok(fresh)
    }

    /// A receiver index that is free in the session; never 0.
    ///
    /// # Errors
    /// `Failed`: the system gives no randomness.
    pub fn free_index(&self) -> Result<u32, HandshakeError> {
        loop {
            let [a, b, c] = self.random()?;
            let index = u32::from_be_bytes([0, a, b, c]);
            if index != 0 && locked(&self.cell).session.index_is_free(index) {
                return Ok(index);
            }
        }
    }

    /// One more of this name.
    pub fn count(&self, name: &'static str) {
        *locked(&self.counters).entry(name).or_default() += 1;
    }

    /// Count and log a refusal.
    pub fn refused(&self, who: &str, error: &HandshakeError) {
        self.count(error.reason.counter());
        log(&format!("{who}: {error}"));
    }

    /// Take in the keys of a completed handshake; a new session's packets go to `peer`, where it is given.
    ///
    /// # Errors
    /// `Failed`: the session does not take them, and nothing has changed.
    pub fn install(
        &self,
        established: Established,
        peer: Option<SocketAddr>,
        rtt: Duration,
        wall: Duration,
    ) -> Result<(), HandshakeError> {
        let now_ns = self.now_ns();
        {
            let cell = &mut *locked(&self.cell);
            let rtt_ns = i64::try_from(rtt.as_nanos()).unwrap_or(i64::MAX);
            cell.session.set_rtt(rtt_ns);
            let taken = cell.session.install(&established.epoch_keys(), now_ns);
            taken.map_err(|error| {
                HandshakeError::new(Reason::Failed, format!("keys not installed: {error:?}"))
            })?;
            // Under the cell's lock, in which the data thread sets it: no packet of the new epoch is missed.
            self.confirmed.clear();
        }
        // The AEAD's key schedule was made on the stack and moved to the heap.
        scrub_stack();
        if let (Some(peer), false) = (peer, established.is_rekey()) {
            self.plane.set_peer(peer);
        }
        let last = LastHandshake::of(&established, wall);
        log(&last.line());
        *locked(&self.last) = Some(last);
        locked(&self.book).enter(established, 0);
        self.count("hs_completed");
        Ok(())
    }

    /// What the next rekey builds on.
    #[must_use]
    pub fn rekey_from(&self) -> Option<RekeyFrom> {
        locked(&self.book).from()
    }

    /// Each tick: forget what has ended, keep the path warm, tell complaints. Returns the control
    /// frames that came.
    pub fn tick(&self) -> Vec<ControlFrame> {
        let now_ns = self.now_ns();
        locked(&self.book).settle(self.confirmed.is_set());
        let is_due = {
            let cell = &mut *locked(&self.cell);
            cell.session.expire(now_ns);
            cell.session.keepalive_due(now_ns)
        };
        if is_due {
            self.keepalive();
        }
        self.announce(now_ns);
        for note in self.plane.take_notes() {
            log(&note);
        }
        self.plane.take_control()
    }

    /// A program that only answers whoever spoke to it learns from an empty datagram where to send.
    fn announce(&self, now_ns: i64) {
        let heard_ns = self.plane.last_plaintext_ns();
        let last_ns = heard_ns.max(self.announced_ns.load(Ordering::Relaxed));
        if now_ns - last_ns >= ANNOUNCE_EVERY_NS {
            self.announced_ns.store(now_ns, Ordering::Relaxed);
            self.plane.announce();
        }
    }

    /// One keepalive now, where there are keys and a peer.
    pub fn keepalive(&self) {
        // A keepalive is a control type, and without keys there is nothing to keep alive.
        let _ = self.plane.send_control(packet::KEEPALIVE, &[]);
    }

    /// Is the epoch in use old, or nearly used up?
    #[must_use]
    pub fn rekey_due(&self, rekey_s: u64) -> bool {
        let aged = locked(&self.last)
            .as_ref()
            .is_some_and(|last| last.at.elapsed() >= Duration::from_secs(rekey_s));
        aged || locked(&self.cell).session.rekey_due(self.now_ns())
    }

    /// Forget every key.
    pub fn erase(&self) {
        self.plane.attach(None);
        locked(&self.cell).session.close();
        *locked(&self.book) = Book::default();
        scrub_stack();
    }
}
