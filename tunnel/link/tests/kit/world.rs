//! One ground station, two drones and an attacker who owns the network, in virtual time.
//!
//! Real: both handshake machines (`drone`, `gcs`, `machine`, `wire`, `schedule`, `transcript`), the epochs that may be
//! rekeyed (`book`), what a drone does next (`pilot`, `retry`), and `pq_core`'s sessions with their AEADs, windows and
//! epochs. Restated here, because in the product it stands between locks and sockets: the glue of `link`, `station` and
//! `hub` – some forty lines. Left out: roaming, the station's door and its limits, threads. KEM and signature are toys of
//! the right lengths (`kit`).
//!
//! The station's books live in a thread's own memory: one world at a time on a thread.

use super::{suite, Toy};
use pq_core::cell::ControlFrame;
use pq_core::counters::Counters;
use pq_core::packet;
use pq_core::session::{Opened, Reason as Drop_, Role, Session};
use pq_link::book::Book;
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::established::{Established, RekeyBasis, SessionId};
use pq_link::gcs::{GcsHandshake, GcsSetup};
use pq_link::identity::{GcsIdentity, GcsPublic, PskStore};
use pq_link::machine::{Machine, Side};
use pq_link::pilot::{Due, Facts, Pilot};
use pq_link::primitives::Primitives as _;
use pq_link::schedule::PskKeys;
use pq_link::suite::Suite;
use pq_link::wire::{FrameType, HEADER_BYTES};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

mod actions;
mod calm;
mod datagrams;
mod handshakes;

pub const DRONES: usize = 2;
pub const SECOND_NS: i64 = 1_000_000_000;
const RETIRE_NS: i64 = 2 * SECOND_NS;
const IDS: [[u8; 8]; DRONES] = [*b"vehicle1", *b"vehicle2"];

/// Faults that are planted, so that the search is seen to find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    None,
    /// The second look finds the session to replace by its epoch's number, which a restarted drone's new session has, too.
    BookByEpoch,
    /// Between Hello and end nobody looks again.
    NoSecondLook,
    /// The station's sessions see no time: old keys open for ever.
    ClockStandsStill,
    /// What the window refuses is delivered.
    CopiesDelivered,
    /// Every Challenge is the same.
    OneNonce,
    /// A drone that hears nothing waits.
    NeverDialsAgain,
    /// The station answers before it has taken the keys, and then does not.
    KeysNotTaken,
}

struct Ends {
    identity: GcsIdentity,
    trusted: [GcsPublic; 1],
    psk: [PskKeys; DRONES],
    psks: PskStore,
    accepted: [Suite; 1],
    toy: Toy,
}

fn ends() -> &'static Ends {
    static ENDS: OnceLock<Ends> = OnceLock::new();
    ENDS.get_or_init(|| {
        let toy = Toy::default();
        let (public, secret) = toy.signing_pair(suite().sig).expect("made");
        let public = GcsPublic::new(vec![(suite().sig, public)]).expect("fits");
        let psk = |drone: usize| PskKeys::derive(&[drone as u8 + 1; 32]);
        Ends {
            trusted: [public.clone()],
            identity: GcsIdentity {
                public,
                secrets: vec![(suite().sig, secret)],
            },
            psk: [psk(0), psk(1)],
            psks: PskStore::new(vec![(IDS[0], psk(0)), (IDS[1], psk(1))]).expect("random"),
            accepted: [suite()],
            toy,
        }
    })
}

/// What the station's rekey look-up sees.
#[derive(Default)]
struct Shelf {
    books: [Book; DRONES],
    confirmed: [bool; DRONES],
    /// Sessions that were entered, with their epochs, newest last: for `Bug::BookByEpoch`.
    entered: [Vec<(SessionId, u32)>; DRONES],
}

impl Shelf {
    /// `Bug::BookByEpoch`: has the session that is held the number of the one to replace?
    fn holds_epoch_of(&self, drone: usize, replaces: Option<SessionId>) -> bool {
        let Some(session) = replaces else {
            return true;
        };
        let entered = &self.entered[drone];
        let named = entered.iter().find(|held| held.0 == session);
        named.map(|held| held.1) == entered.last().map(|held| held.1)
    }
}

thread_local! {
    static SHELF: RefCell<Shelf> = RefCell::default();
}

fn rekey_basis(session: &SessionId) -> Option<RekeyBasis> {
    SHELF.with_borrow_mut(|shelf| {
        for drone in 0..DRONES {
            let is_confirmed = shelf.confirmed[drone];
            shelf.books[drone].settle(is_confirmed);
        }
        shelf.books.iter().find_map(|book| book.basis(session))
    })
}

struct GcsPeer {
    session: Session,
    counters: Counters,
    /// Handshakes installed, newest last, each with whether a packet confirmed it, and when.
    installed: Vec<(u64, SessionId, Option<i64>)>,
    print: u64,
}

struct DroneEnd {
    session: Session,
    counters: Counters,
    book: Book,
    confirmed: bool,
    pilot: Pilot,
    boots: u64,
    dials: u64,
    /// The age of its keys is over.
    is_old: bool,
    /// Names of what it installed, with when.
    installed: Vec<(u64, i64)>,
    print: u64,
}

struct Connection {
    drone: usize,
    boot: u64,
    name: u64,
    number: u64,
    begun_ns: i64,
    at_drone: Option<DroneHandshake<'static>>,
    at_gcs: Option<GcsHandshake<'static>>,
    to_drone: VecDeque<Vec<u8>>,
    to_gcs: VecDeque<Vec<u8>>,
    print: u64,
}

/// A sealed datagram that was sent: it may arrive when, and as often as, the attacker likes.
pub struct Datagram {
    drone: usize,
    to_gcs: bool,
    bytes: Vec<u8>,
    /// Under whose keys, and which of them.
    epoch_name: u64,
    pub name: u64,
    plain: Vec<u8>,
}

/// What an attacker, a crash or an application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The drone does what is due.
    Due(usize),
    /// The next frame of a connection arrives at the drone (true) or the station.
    Pass(usize, bool),
    /// Instead of it, one of the same type that an older connection carried.
    Inject(usize, bool),
    /// A connection is reset.
    Cut(usize),
    /// An application sends at the drone (true) or the station.
    Send(usize, bool),
    /// A datagram arrives, maybe again.
    Arrive(usize),
    /// kill -9, and a start.
    Restart(usize),
    RestartStation,
    /// The keys of a drone are due.
    Age(usize),
    /// Three seconds and some pass.
    Wait,
}

/// How often each may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub drones: usize,
    pub dials: u8,
    pub injects: u8,
    pub cuts: u8,
    pub sends: u8,
    pub restarts: u8,
    pub station_restarts: u8,
    pub ages: u8,
    pub waits: u8,
}

pub struct World {
    pub now_ns: i64,
    pub bug: Bug,
    pub budget: Budget,
    gcs: Vec<GcsPeer>,
    drones: Vec<DroneEnd>,
    connections: Vec<Connection>,
    pub air: Vec<Datagram>,
    recorded: Vec<(u64, Vec<u8>)>,
    keys: HashMap<u64, [u8; 32]>,
    delivered: HashSet<(u64, u64)>,
    arrivals: u64,
    station_boots: u64,
    sent: u64,
    /// What must not be, and was.
    pub fault: Option<String>,
    /// Handshakes that completed at the station.
    pub completed: u64,
    /// Datagrams of applications that arrived.
    pub passed: u64,
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn mixed(print: &mut u64, value: impl Hash) {
    *print = hashed((*print, hashed(value)));
}

fn fresh_session(role: Role) -> Session {
    Session::new(role)
}

fn deliver<S: Side>(machine: &mut Machine<S>, frame: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    let header = frame[..HEADER_BYTES].try_into().expect("a header");
    machine.on_header(header)?;
    machine.on_body(&frame[HEADER_BYTES..])
}

impl World {
    pub fn new(budget: Budget, bug: Bug) -> Self {
        SHELF.set(Shelf::default());
        ends();
        let gcs = (0..DRONES).map(|_| GcsPeer {
            session: fresh_session(Role::Gcs),
            counters: Counters::default(),
            installed: Vec::new(),
            print: 0,
        });
        let drones = (0..DRONES).map(|_| DroneEnd {
            session: fresh_session(Role::Drone),
            counters: Counters::default(),
            book: Book::default(),
            confirmed: false,
            pilot: Pilot::default(),
            boots: 0,
            dials: 0,
            is_old: false,
            installed: Vec::new(),
            print: 0,
        });
        Self {
            now_ns: 0,
            bug,
            budget,
            gcs: gcs.collect(),
            drones: drones.collect(),
            connections: Vec::new(),
            air: Vec::new(),
            recorded: Vec::new(),
            keys: HashMap::new(),
            delivered: HashSet::new(),
            arrivals: 0,
            station_boots: 0,
            sent: 0,
            fault: None,
            completed: 0,
            passed: 0,
        }
    }

    fn wrong(&mut self, what: &str) {
        self.fault.get_or_insert_with(|| what.to_owned());
    }

    /// Alike for states that differ in nothing that counts. Each part is named by what happened to it, in order: what
    /// happened to different parts commutes.
    pub fn print(&self) -> u64 {
        let mut connections: Vec<u64> = self.connections.iter().map(|one| one.print).collect();
        connections.sort_unstable();
        let mut air: Vec<u64> = self.air.iter().map(|one| one.name).collect();
        air.sort_unstable();
        let ends: Vec<(u64, u64)> = (0..DRONES)
            .map(|one| (self.gcs[one].print, self.drones[one].print))
            .collect();
        hashed((
            ends,
            connections,
            air,
            self.now_ns,
            self.budget,
            &self.fault,
        ))
    }
}
