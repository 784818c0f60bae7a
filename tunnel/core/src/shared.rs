//! What the plane's two threads and its control share: sockets, the cell at work, the gate, and what is to be told.

use crate::cell::{locked, SharedCell};
use crate::event::Event;
use crate::plane::Setup;
use crate::session::Role;
use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const NOTES_A_CELL: usize = 50;

/// Where plaintext of one kind comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The only address accepted as sender.
    pub source: IpAddr,
    /// Where opened plaintext goes.
    pub target: SocketAddr,
}

/// Open while a traffic window runs: which route counts, and the window's place (from 1) for the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Place in the list of routes.
    pub route: usize,
    /// Place of the window, 0: none yet.
    pub place: u16,
    /// Is plaintext forwarded?
    pub is_open: bool,
}

impl Gate {
    /// As a cell begins: no window yet.
    pub const CLOSED: Self = Self {
        route: 0,
        place: 0,
        is_open: false,
    };
}

#[derive(Default)]
struct Notes {
    seen: HashSet<String>,
    waiting: VecDeque<String>,
}

/// What the threads look at once a batch.
pub(crate) struct State {
    pub cell: Option<SharedCell>,
    pub gate: Gate,
    pub peer: Option<SocketAddr>,
}

/// All that threads and control share.
pub(crate) struct Shared {
    pub role: Role,
    pub plain: UdpSocket,
    pub sealed: UdpSocket,
    pub routes: Vec<Route>,
    pub state: Mutex<State>,
    pub first_plaintext: Arc<Event>,
    pub last_plaintext_ns: AtomicI64,
    pub confirmed: Arc<Event>,
    pub last_data_ns: AtomicI64,
    /// Batches that a thread has received and not booked yet.
    pub in_hand: AtomicUsize,
    pub stopping: AtomicBool,
    notes: Mutex<Notes>,
    origin: Instant,
    origin_ns: i64,
}

impl Shared {
    /// As `setup` says, on these two sockets, without a cell.
    pub fn new(setup: Setup, plain: UdpSocket, sealed: UdpSocket) -> Self {
        Self {
            role: setup.role,
            plain,
            sealed,
            routes: setup.routes,
            state: Mutex::new(State {
                cell: None,
                gate: Gate::CLOSED,
                peer: setup.peer,
            }),
            first_plaintext: Arc::default(),
            last_plaintext_ns: AtomicI64::new(0),
            confirmed: Arc::default(),
            last_data_ns: AtomicI64::new(0),
            in_hand: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            notes: Mutex::default(),
            origin: setup.origin.0,
            origin_ns: setup.origin.1,
        }
    }

    /// Now on the caller's monotonic clock, ns.
    pub fn monotonic_ns(&self) -> i64 {
        self.origin_ns + self.origin.elapsed().as_nanos() as i64
    }

    /// The same complaint once a cell: a flood must not become a flood of log lines.
    pub fn note(&self, text: String) {
        self.note_as(text.clone(), text);
    }

    /// The first complaint of a kind once a cell.
    pub fn note_as(&self, kind: String, text: String) {
        let mut notes = locked(&self.notes);
        if notes.seen.len() < NOTES_A_CELL && notes.seen.insert(kind) {
            notes.waiting.push_back(text);
        }
    }

    /// A new cell begins: its first complaints are told again.
    pub fn begin_notes(&self) {
        locked(&self.notes).seen.clear();
    }

    /// Complaints since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        locked(&self.notes).waiting.drain(..).collect()
    }
}
