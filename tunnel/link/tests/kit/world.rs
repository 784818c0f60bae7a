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

    // ------------------------------------------------------------------ handshakes

    fn dial(&mut self, drone: usize, is_rekey: bool) {
        let ends = ends();
        self.arrivals += 1;
        let nonce = if self.bug == Bug::OneNonce {
            [1; 32]
        } else {
            ends.toy.fresh()
        };
        let one = &mut self.drones[drone];
        one.dials += 1;
        let name = hashed((drone, one.boots, one.dials, self.station_boots));
        // Indices that nobody has had: which one, the handshake's name decides.
        let index = |salt: u8| (hashed((name, salt)) as u32) & 0xFF_FFFF;
        let mut at_drone = DroneHandshake::new(DroneSetup {
            suite: suite(),
            drone_id: IDS[drone],
            psk: &ends.psk[drone],
            trusted: &ends.trusted,
            min_level: 1,
            epoch: one.pilot.next_epoch(),
            primitives: &ends.toy,
            nonce: ends.toy.fresh(),
            rx_index: index(1),
            rekey: is_rekey.then(|| one.book.from()).flatten(),
            signing_key: None,
            early: None,
        });
        at_drone.start().expect("its own policy allows it");
        let mut at_gcs = GcsHandshake::new(GcsSetup {
            identity: &ends.identity,
            psks: &ends.psks,
            accepted: &ends.accepted,
            min_level: 1,
            primitives: &ends.toy,
            nonce,
            rx_index: index(2),
            note_claim: &|_| (),
            admit_key: &|_| Ok(()),
            rekey_basis: &rekey_basis,
            drone_keys: None,
            redeem: None,
        });
        let challenge = at_gcs.start().expect("starts");
        mixed(&mut one.print, ("dial", is_rekey));
        self.connections.push(Connection {
            drone,
            boot: one.boots,
            name,
            number: self.arrivals,
            begun_ns: self.now_ns,
            at_drone: Some(at_drone),
            at_gcs: Some(at_gcs),
            to_drone: VecDeque::from([challenge]),
            to_gcs: VecDeque::new(),
            print: hashed((name, is_rekey, self.now_ns)),
        });
    }

    /// A frame arrives. True where it was taken.
    fn arrive(&mut self, place: usize, at_drone: bool, frame: &[u8]) -> bool {
        let print = if at_drone {
            self.drones[self.connections[place].drone].print
        } else {
            self.gcs[self.connections[place].drone].print
        };
        let one = &mut self.connections[place];
        let outcome = if at_drone {
            let machine = one.at_drone.as_mut().expect("asked before");
            deliver(machine, frame).map(|answer| (answer, machine.take_established()))
        } else {
            let machine = one.at_gcs.as_mut().expect("asked before");
            deliver(machine, frame).map(|answer| (answer, machine.take_established()))
        };
        mixed(&mut one.print, (at_drone, frame[0], outcome.is_ok(), print));
        match outcome {
            Ok((answer, keys)) => {
                let mut may_answer = true;
                if let Some(keys) = keys {
                    may_answer = if at_drone {
                        self.install_at_drone(place, keys);
                        true
                    } else {
                        self.install_at_gcs(place, keys)
                    };
                }
                if !may_answer {
                    self.end(place, Reason::Policy);
                } else if !answer.is_empty() {
                    let one = &mut self.connections[place];
                    let queue = if at_drone {
                        &mut one.to_gcs
                    } else {
                        &mut one.to_drone
                    };
                    queue.push_back(answer);
                }
                true
            }
            Err(error) => {
                let is_unknown = error.reason == Reason::SessionUnknown && !at_drone;
                if is_unknown {
                    let one = &mut self.connections[place];
                    one.at_gcs = None;
                    one.to_drone.push_back(error.answer);
                } else {
                    self.end(place, error.reason);
                }
                false
            }
        }
    }

    /// Both ends of a connection hear of its end: the drone with this reason.
    fn end(&mut self, place: usize, reason: Reason) {
        let one = &mut self.connections[place];
        one.at_gcs = None;
        one.to_drone.clear();
        mixed(&mut one.print, "ended");
        if one.at_drone.take().is_some() {
            let drone = one.drone;
            let now_ns = self.now_ns;
            let drone = &mut self.drones[drone];
            drone.pilot.failed(reason, now_ns, 0);
            mixed(&mut drone.print, ("failed", reason, now_ns));
        }
    }

    fn check_keys(&mut self, name: u64, drone_key: &[u8]) {
        let found: [u8; 32] = drone_key.try_into().expect("32 bytes");
        match self.keys.get(&name) {
            Some(known) if *known != found => {
                self.wrong("two ends of one handshake have different keys");
            }
            Some(_) => {}
            None if self.keys.values().any(|known| *known == found) => {
                self.wrong("two handshakes have one key");
            }
            None => {
                self.keys.insert(name, found);
            }
        }
    }

    fn install_at_gcs(&mut self, place: usize, keys: Established) -> bool {
        let (drone, name, number) = {
            let one = &self.connections[place];
            (one.drone, one.name, one.number)
        };
        if self.bug == Bug::KeysNotTaken {
            return true;
        }
        let (bug, now_ns) = (self.bug, self.now_ns);
        let is_admitted = SHELF.with_borrow_mut(|shelf| {
            let is_confirmed = shelf.confirmed[drone];
            shelf.books[drone].settle(is_confirmed);
            match bug {
                Bug::NoSecondLook => true,
                Bug::BookByEpoch => shelf.holds_epoch_of(drone, keys.replaces),
                _ => shelf.books[drone].admits(&keys, number).is_ok(),
            }
        });
        if !is_admitted {
            return false;
        }
        self.check_keys(name, &keys.receive.key);
        if let Some(replaced) = keys.replaces {
            let mut later = self.gcs[drone].installed.iter();
            let is_known = later.any(|(_, session, _)| *session == replaced);
            if !is_known || later.any(|(_, _, confirmed)| confirmed.is_some()) {
                self.wrong("a rekey of a replaced session completed");
            }
        }
        let peer = &mut self.gcs[drone];
        let taken = peer.session.install(&keys.epoch_keys(), now_ns);
        if taken.is_err() {
            return false;
        }
        peer.installed.push((name, keys.session_id, None));
        mixed(&mut peer.print, ("installed", name, now_ns));
        SHELF.with_borrow_mut(|shelf| {
            shelf.confirmed[drone] = false;
            shelf.entered[drone].push((keys.session_id, keys.epoch));
            shelf.books[drone].enter(keys, number);
        });
        self.completed += 1;
        let one = &mut self.connections[place];
        one.at_gcs = None;
        true
    }

    fn install_at_drone(&mut self, place: usize, keys: Established) {
        let (drone, name) = (self.connections[place].drone, self.connections[place].name);
        self.connections[place].at_drone = None;
        self.check_keys(name, &keys.send.key);
        let now_ns = self.now_ns;
        let one = &mut self.drones[drone];
        let epoch = keys.epoch;
        let taken = one.session.install(&keys.epoch_keys(), now_ns);
        taken.expect("a fresh index");
        one.confirmed = false;
        one.is_old = false;
        one.book.enter(keys, 0);
        one.pilot.completed(epoch, now_ns);
        one.installed.push((name, now_ns));
        mixed(&mut one.print, ("installed", name, now_ns));
        self.control(drone, true, packet::KEEPALIVE);
    }

    // ------------------------------------------------------------------ datagrams

    fn control(&mut self, drone: usize, from_drone: bool, kind: u8) {
        let mut bytes = Vec::new();
        let sealed = if from_drone {
            let one = &mut self.drones[drone];
            one.session
                .seal_control(kind, &[], &mut bytes, &mut one.counters)
        } else {
            let one = &mut self.gcs[drone];
            one.session
                .seal_control(kind, &[], &mut bytes, &mut one.counters)
        };
        if sealed.is_ok() {
            self.launch(drone, from_drone, bytes, Vec::new());
        }
    }

    fn send(&mut self, drone: usize, from_drone: bool) -> bool {
        self.sent += 1;
        let (mut bytes, plain) = (Vec::new(), format!("{drone} {from_drone} {}", self.sent));
        let plain = plain.into_bytes();
        let sealed = if from_drone {
            let one = &mut self.drones[drone];
            one.session.seal_data(&plain, &mut bytes, &mut one.counters)
        } else {
            let one = &mut self.gcs[drone];
            one.session.seal_data(&plain, &mut bytes, &mut one.counters)
        };
        if sealed.is_ok() {
            self.launch(drone, from_drone, bytes, plain);
        }
        sealed.is_ok()
    }

    fn launch(&mut self, drone: usize, from_drone: bool, bytes: Vec<u8>, plain: Vec<u8>) {
        let epoch_name = if from_drone {
            self.drones[drone].installed.last().map_or(0, |held| held.0)
        } else {
            let current = self.gcs[drone].installed.iter().rev();
            let mut heard = current.filter(|held| held.2.is_some());
            heard.next().map_or(0, |held| held.0)
        };
        let print = if from_drone {
            &mut self.drones[drone].print
        } else {
            &mut self.gcs[drone].print
        };
        mixed(print, ("sealed", plain.is_empty()));
        self.air.push(Datagram {
            drone,
            to_gcs: from_drone,
            name: hashed((drone, from_drone, &bytes[..8], epoch_name)),
            bytes,
            epoch_name,
            plain,
        });
    }

    /// A datagram arrives; at the station it finds its drone by its index.
    fn fly(&mut self, place: usize) {
        let now_ns = self.now_ns;
        let (to_gcs, name, epoch_name) = {
            let one = &self.air[place];
            (one.to_gcs, one.name, one.epoch_name)
        };
        let mut bytes = self.air[place].bytes.clone();
        let (outcome, drone) = if to_gcs {
            let index = packet::words(&bytes).0 & 0xFF_FFFF;
            let mut peers = self.gcs.iter();
            let Some(drone) = peers.position(|peer| !peer.session.index_is_free(index)) else {
                return;
            };
            let seen_ns = if self.bug == Bug::ClockStandsStill {
                0
            } else {
                now_ns
            };
            let peer = &mut self.gcs[drone];
            (
                peer.session
                    .receive(&mut bytes, seen_ns, &mut peer.counters),
                drone,
            )
        } else {
            let drone = self.air[place].drone;
            let one = &mut self.drones[drone];
            (
                one.session.receive(&mut bytes, now_ns, &mut one.counters),
                drone,
            )
        };
        let print = if to_gcs {
            &mut self.gcs[drone].print
        } else {
            &mut self.drones[drone].print
        };
        match outcome {
            Ok(opened) => {
                mixed(print, ("opened", name, now_ns));
                self.opened(place, drone, to_gcs, opened, &bytes);
            }
            Err(Drop_::OldEpoch) => mixed(print, ("old", epoch_name)),
            Err(Drop_::Replay | Drop_::Duplicate) if self.bug == Bug::CopiesDelivered => {
                let key = (name, u64::from(to_gcs));
                if !self.delivered.insert(key) {
                    self.wrong("a datagram was delivered twice");
                }
            }
            Err(_) => {} // it moved nothing, or what a further copy is called
        }
    }

    fn opened(&mut self, place: usize, drone: usize, to_gcs: bool, opened: Opened, bytes: &[u8]) {
        let (name, epoch_name, whose) = {
            let one = &self.air[place];
            (one.name, one.epoch_name, one.drone)
        };
        if whose != drone || self.air[place].to_gcs != to_gcs {
            self.wrong("a datagram reached somebody else");
        }
        if !self.delivered.insert((name, u64::from(to_gcs))) {
            self.wrong("a datagram was delivered twice");
        }
        if opened.kind == packet::DATA {
            self.passed += 1;
            if bytes[8..8 + opened.length] != self.air[place].plain {
                self.wrong("a datagram came out changed");
            }
        }
        let now_ns = self.now_ns;
        if to_gcs {
            let peer = &mut self.gcs[drone];
            let at = peer.installed.iter().position(|held| held.0 == epoch_name);
            let newer = at.map(|at| {
                peer.installed[at + 1..]
                    .iter()
                    .filter_map(|held| held.2)
                    .min()
            });
            match (at, newer.flatten()) {
                (None, _) => self.wrong("keys opened a datagram that this station never took"),
                (_, Some(confirmed_ns)) if now_ns > confirmed_ns + RETIRE_NS => {
                    self.wrong("a retired key opened a datagram");
                }
                (Some(at), _) => {
                    if opened.first {
                        peer.installed[at].2.get_or_insert(now_ns);
                        SHELF.with_borrow_mut(|shelf| {
                            shelf.confirmed[drone] = true;
                            shelf.books[drone].settle(true);
                        });
                        self.control(drone, false, packet::EPOCH_ACK);
                    }
                }
            }
        } else {
            let one = &mut self.drones[drone];
            let at = one.installed.iter().position(|held| held.0 == epoch_name);
            let next = at.and_then(|at| one.installed.get(at + 1));
            match (at, next) {
                (None, _) => self.wrong("keys opened a datagram that this drone never took"),
                (_, Some((_, switched_ns))) if now_ns > switched_ns + RETIRE_NS => {
                    self.wrong("a retired key opened a datagram");
                }
                _ => {
                    if opened.first {
                        one.confirmed = true;
                        one.book.settle(true);
                    }
                }
            }
        }
        self.check_books(drone);
    }

    /// No secret of a session that was replaced is left to rekey from.
    fn check_books(&mut self, drone: usize) {
        let installed = &self.gcs[drone].installed;
        let confirmed = installed.iter().rposition(|held| held.2.is_some());
        let replaced: Vec<SessionId> = installed[..confirmed.unwrap_or(0)]
            .iter()
            .map(|held| held.1)
            .collect();
        let is_left = SHELF.with_borrow_mut(|shelf| {
            let is_confirmed = shelf.confirmed[drone];
            shelf.books[drone].settle(is_confirmed);
            let mut replaced = replaced.iter();
            replaced.any(|session| shelf.books[drone].basis(session).is_some())
        });
        if is_left {
            self.wrong("a replaced session's rekey secret is still there");
        }
    }

    // ------------------------------------------------------------------ what happens

    fn facts(&self, drone: usize) -> Facts {
        let one = &self.drones[drone];
        let is_silent = one.session.silent(self.now_ns) && self.bug != Bug::NeverDialsAgain;
        Facts {
            has_keys: one.session.can_send(),
            is_confirmed: one.confirmed,
            is_silent,
            is_old: one.is_old || one.session.rekey_due(self.now_ns),
        }
    }

    fn due(&mut self, drone: usize) -> Due {
        let (facts, now_ns) = (self.facts(drone), self.now_ns);
        let due = self.drones[drone].pilot.due(facts, now_ns, 0);
        match due {
            Due::Nothing => {}
            Due::Keepalive => self.control(drone, true, packet::KEEPALIVE),
            Due::New => self.dial(drone, false),
            Due::Rekey => self.dial(drone, true),
        }
        due
    }

    /// Everything that may happen now.
    pub fn actions(&self) -> Vec<Action> {
        let mut found = Vec::new();
        let budget = &self.budget;
        for drone in 0..budget.drones {
            if budget.dials > 0 && !self.drones[drone].pilot.is_in_flight() {
                found.push(Action::Due(drone));
            }
            if budget.sends > 0 {
                if self.drones[drone].session.can_send() {
                    found.push(Action::Send(drone, true));
                }
                if self.gcs[drone].session.can_send() {
                    found.push(Action::Send(drone, false));
                }
            }
            if budget.restarts > 0 {
                found.push(Action::Restart(drone));
            }
            if budget.ages > 0 && self.drones[drone].confirmed && !self.drones[drone].is_old {
                found.push(Action::Age(drone));
            }
        }
        if budget.station_restarts > 0 && self.completed > 0 {
            found.push(Action::RestartStation);
        }
        for (place, one) in self.connections.iter().enumerate() {
            for at_drone in [true, false] {
                let (queue, is_there) = if at_drone {
                    (&one.to_drone, one.at_drone.is_some())
                } else {
                    (&one.to_gcs, one.at_gcs.is_some())
                };
                if let (Some(frame), true) = (queue.front(), is_there) {
                    found.push(Action::Pass(place, at_drone));
                    if budget.injects > 0 && self.older(place, frame[0]).is_some() {
                        found.push(Action::Inject(place, at_drone));
                    }
                }
            }
            if budget.cuts > 0 && (one.at_drone.is_some() || one.at_gcs.is_some()) {
                found.push(Action::Cut(place));
            }
        }
        found.extend((0..self.air.len()).map(Action::Arrive));
        if budget.waits > 0 {
            found.push(Action::Wait);
        }
        found
    }

    /// The newest frame of this type that another connection carried.
    fn older(&self, place: usize, kind: u8) -> Option<Vec<u8>> {
        let own = self.connections[place].name;
        let mut found = self.recorded.iter().rev();
        found
            .find(|(name, frame)| *name != own && frame[0] == kind)
            .map(|(_, frame)| frame.clone())
    }

    pub fn act(&mut self, action: Action) {
        match action {
            Action::Due(drone) => {
                if matches!(self.due(drone), Due::New | Due::Rekey) {
                    self.budget.dials -= 1;
                }
            }
            Action::Pass(place, at_drone) => self.pass(place, at_drone),
            Action::Inject(place, at_drone) => {
                self.budget.injects -= 1;
                let one = &mut self.connections[place];
                let queue = if at_drone {
                    &mut one.to_drone
                } else {
                    &mut one.to_gcs
                };
                let Some(front) = queue.pop_front() else {
                    return;
                };
                let Some(older) = self.older(place, front[0]) else {
                    return;
                };
                let is_challenge = older[0] & 0xF == FrameType::Challenge as u8;
                if self.arrive(place, at_drone, &older) && !is_challenge && older != front {
                    self.wrong("a recorded frame was taken");
                }
            }
            Action::Cut(place) => {
                self.budget.cuts -= 1;
                self.connections[place].to_gcs.clear();
                self.end(place, Reason::ConnectionLost);
            }
            Action::Send(drone, from_drone) => {
                self.budget.sends -= 1;
                self.send(drone, from_drone);
            }
            Action::Arrive(place) => self.fly(place),
            Action::Restart(drone) => {
                self.budget.restarts -= 1;
                self.restart(drone);
            }
            Action::RestartStation => {
                self.budget.station_restarts -= 1;
                self.restart_station();
            }
            Action::Age(drone) => {
                self.budget.ages -= 1;
                self.drones[drone].is_old = true;
                mixed(&mut self.drones[drone].print, "aged");
            }
            Action::Wait => {
                self.budget.waits -= 1;
                self.pass_time(3 * SECOND_NS + SECOND_NS / 5);
            }
        }
    }

    fn pass(&mut self, place: usize, at_drone: bool) {
        let one = &mut self.connections[place];
        let queue = if at_drone {
            &mut one.to_drone
        } else {
            &mut one.to_gcs
        };
        if let Some(frame) = queue.pop_front() {
            let name = one.name;
            self.recorded.push((name, frame.clone()));
            self.arrive(place, at_drone, &frame);
        }
    }

    /// kill -9 and a start: what was on its way to the station stays on its way.
    pub fn restart(&mut self, drone: usize) {
        let one = &mut self.drones[drone];
        one.session = fresh_session(Role::Drone);
        one.book = Book::default();
        (one.confirmed, one.is_old) = (false, false);
        one.pilot = Pilot::default();
        one.boots += 1;
        one.dials = 0;
        one.installed.clear();
        one.print = hashed(("booted", one.boots, self.now_ns));
        for connection in &mut self.connections {
            if connection.drone == drone && connection.at_drone.take().is_some() {
                connection.to_drone.clear();
                mixed(&mut connection.print, "its drone is gone");
            }
        }
    }

    /// kill -9 of the station and a start.
    pub fn restart_station(&mut self) {
        self.station_boots += 1;
        SHELF.set(Shelf::default());
        for peer in &mut self.gcs {
            peer.session = fresh_session(Role::Gcs);
            peer.installed.clear();
            peer.print = hashed(("booted", self.station_boots, self.now_ns));
        }
        for place in 0..self.connections.len() {
            if self.connections[place].at_gcs.is_some() {
                self.connections[place].to_gcs.clear();
                self.end(place, Reason::ConnectionLost);
            }
        }
    }

    /// Time passes: deadlines of handshakes, ends of epochs.
    pub fn pass_time(&mut self, by_ns: i64) {
        self.now_ns += by_ns;
        for place in 0..self.connections.len() {
            let one = &mut self.connections[place];
            let lasted = (self.now_ns - one.begun_ns).unsigned_abs();
            let lasted = Duration::from_nanos(lasted);
            let late = |outcome: Result<(), HandshakeError>| outcome.is_err();
            let at_gcs = one.at_gcs.as_mut();
            if at_gcs.is_some_and(|machine| late(machine.on_time(lasted))) {
                one.at_gcs = None;
                one.to_gcs.clear();
                mixed(&mut one.print, "late");
            }
            let at_drone = one.at_drone.as_mut();
            if at_drone.is_some_and(|machine| late(machine.on_time(lasted))) {
                self.end(place, Reason::TimedOut);
            }
        }
        for drone in 0..DRONES {
            if self.bug != Bug::ClockStandsStill {
                self.gcs[drone].session.expire(self.now_ns);
            }
            self.drones[drone].session.expire(self.now_ns);
        }
    }

    // ------------------------------------------------------------------ without an attacker

    /// One tick of honest ends over an honest network: what is due, keepalives, and everything arrives.
    pub fn tick(&mut self, by_ns: i64) {
        self.pass_time(by_ns);
        for drone in 0..self.budget.drones {
            self.due(drone);
            if self.drones[drone].session.keepalive_due(self.now_ns) {
                self.control(drone, true, packet::KEEPALIVE);
            }
            if self.gcs[drone].session.keepalive_due(self.now_ns) {
                self.control(drone, false, packet::KEEPALIVE);
            }
        }
        for place in 0..self.connections.len() {
            while !self.connections[place].to_drone.is_empty()
                || !self.connections[place].to_gcs.is_empty()
            {
                for at_drone in [true, false] {
                    let one = &mut self.connections[place];
                    let (queue, is_there) = if at_drone {
                        (&mut one.to_drone, one.at_drone.is_some())
                    } else {
                        (&mut one.to_gcs, one.at_gcs.is_some())
                    };
                    if !is_there {
                        queue.clear();
                    } else if !queue.is_empty() {
                        self.pass(place, at_drone);
                    }
                }
            }
            // The station has refused: the drone's end of the connection closes.
            let one = &self.connections[place];
            if one.at_gcs.is_none() && one.at_drone.is_some() {
                self.end(place, Reason::ConnectionLost);
            }
        }
        self.land();
    }

    fn land(&mut self) {
        let mut place = 0;
        while place < self.air.len() {
            self.fly(place);
            place += 1;
        }
        self.air.clear();
        self.recorded.clear();
        self.connections
            .retain(|one| one.at_drone.is_some() || one.at_gcs.is_some());
    }

    /// Is every drone's session up, and does data pass both ways?
    fn carries(&mut self) -> bool {
        let mut all = true;
        for drone in 0..self.budget.drones {
            for from_drone in [true, false] {
                let before = self.passed;
                all &= self.send(drone, from_drone);
                self.land();
                all &= self.passed == before + 1;
            }
            all &= self.drones[drone].confirmed;
        }
        all
    }

    /// Once the attacker is gone and nobody dies any more: how long until everybody is back; `None`: not within 60 s.
    pub fn way_back(&mut self) -> Option<i64> {
        let begun_ns = self.now_ns;
        for _ in 0..240 {
            self.tick(SECOND_NS / 4);
            if self.carries() {
                return Some(self.now_ns - begun_ns);
            }
        }
        None
    }

    /// Send one each way, and see both arrive.
    pub fn exchange(&mut self, drone: usize) -> bool {
        let before = self.passed;
        let sent = self.send(drone, true) & self.send(drone, false);
        self.land();
        sent && self.passed == before + 2
    }

    /// A drone's epoch in use, and what its station sends on.
    pub fn epochs(&self, drone: usize) -> (Option<u32>, Option<u32>) {
        let (one, peer) = (&self.drones[drone], &self.gcs[drone]);
        (one.session.epoch(), peer.session.epoch())
    }

    /// The station heard this rekey request's answer: for simulations that ask.
    pub fn ask(&mut self, drone: usize) {
        let source = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let one = &mut self.drones[drone];
        let epoch = one.session.epoch();
        let frame = ControlFrame {
            kind: packet::REKEY_REQUEST,
            payload: vec![1, 0, 0, 0],
            epoch: epoch.unwrap_or(0),
            source,
            monotonic_ns: self.now_ns,
        };
        one.pilot.heed(&frame, epoch, suite().code());
    }
}
