//! Handshakes at the GCS once `door` has found a right Hello: each waits for its turn (`turns`), then converses. One thread
//! (`workers`) for each that has begun, none for those that wait.

use crate::cookie::SECRET_LIFE_NS;
use crate::door::{part, Guest, House, MAX_OF_A_FLEET};
use crate::error::{HandshakeError, Reason};
use crate::gcs::{GcsHandshake, GcsSetup};
use crate::identity::DroneId;
use crate::limits::{Rates, MAX_IN_PROGRESS};
use crate::link::log;
use crate::machine::BASE_DEADLINE;
use crate::secret::scrub_stack;
use crate::station::{Reloaded, Station};
use crate::status;
use crate::stream::{converse_watched, Watch};
use crate::suite::Suite;
use crate::turns::{Turn, Turns};
use crate::wire::{Hello, RETRY};
use crate::workers::{Job, Workers};
use pq_core::cell::locked;
use std::collections::{HashMap, HashSet};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A handshake that has begun.
struct InProgress {
    socket: Arc<TcpStream>,
    id: DroneId,
    /// Wakes its thread when it may go on.
    go: SyncSender<()>,
}

/// How much a station does at once.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Handshakes that are worked for.
    pub processors: usize,
    /// Handshakes whose Hello was right, waiting or begun, at most.
    pub places: usize,
}

impl Bounds {
    /// As many at work as this machine has processors.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            places: MAX_OF_A_FLEET,
        }
    }
}

/// A handshake whose turn it is, for a thread to carry out.
pub(crate) struct Begun {
    pub(crate) number: u64,
    pub(crate) work: Job,
}

/// What handshake threads share.
pub(crate) struct Gate {
    pub(crate) station: Station,
    bounds: Bounds,
    rates: Mutex<Rates>,
    turns: Mutex<Turns<Guest>>,
    pub(crate) workers: Arc<Workers>,
    /// Begun by whoever keeps the door, who works for the first of them itself.
    at_the_door: Mutex<Vec<Begun>>,
    /// To end the one that gives way, and those of drones that are served no more.
    in_progress: Mutex<HashMap<u64, InProgress>>,
}

/// How long a drone may wait for its turn on one connection: half as long as it waits for an answer, so that what is
/// begun then ends in time. No longer than a cookie is good for, because with one it comes back.
#[must_use]
pub fn patience(suite: Suite) -> Duration {
    const A_SECOND_NS: i64 = 1_000_000_000;
    let half = (BASE_DEADLINE + Duration::from_secs(suite.allowance_s())) / 2;
    half.min(Duration::from_nanos(
        (SECRET_LIFE_NS - A_SECOND_NS).unsigned_abs(),
    ))
}

/// Has nobody hung up there? `socket` does not block.
fn is_open(socket: &TcpStream) -> bool {
    match socket.peek(&mut [0]) {
        Ok(count) => count > 0,
        Err(error) => matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
        ),
    }
}

impl Gate {
    /// Nobody is in yet.
    pub(crate) fn open(station: Station, bounds: Bounds) -> Arc<Self> {
        let gate = Arc::new(Self {
            station,
            bounds,
            rates: Mutex::default(),
            turns: Mutex::new(Turns::new(bounds.processors, bounds.places)),
            workers: Workers::new("handshake", 2 * bounds.processors),
            at_the_door: Mutex::default(),
            in_progress: Mutex::default(),
        });
        gate.size();
        gate
    }

    fn now_ns(&self) -> i64 {
        self.station.hub.now_ns()
    }

    /// Room for every drone at once.
    fn size(&self) {
        let places = (MAX_IN_PROGRESS + self.station.drones()).min(self.bounds.places);
        locked(&self.turns).set_most(places);
    }

    /// Let everybody go on whose turn it is.
    fn call(self: &Arc<Self>) {
        self.call_by(&mut |begun| self.give(begun));
    }

    fn call_by(self: &Arc<Self>, start: &mut dyn FnMut(Begun)) {
        loop {
            let there = |guest: &Guest| is_open(&guest.socket);
            let turn = locked(&self.turns).next(self.now_ns(), |guest| guest.number, there);
            match turn {
                None => return,
                Some(Turn::Begin(guest, victim)) => {
                    if let Some(victim) = victim {
                        self.end(victim);
                    }
                    start(self.begin(guest));
                }
                Some(Turn::GoOn(number)) => {
                    if let Some(one) = locked(&self.in_progress).get(&number) {
                        let _ = one.go.try_send(()); // nobody hears it only where its thread has ended
                    }
                }
                Some(Turn::Gone(guest)) => self.abandoned(&guest),
            }
        }
    }

    fn begin(self: &Arc<Self>, guest: Guest) -> Begun {
        let (own, number) = (Arc::clone(self), guest.number);
        let (go, called) = sync_channel(1);
        let one = InProgress {
            socket: Arc::clone(&guest.socket),
            id: guest.id,
            go,
        };
        locked(&self.in_progress).insert(number, one);
        self.station.counted(&guest.id, "hs_begun");
        let work = move || {
            serve(&own, guest, called);
            scrub_stack();
        };
        Begun {
            number,
            work: Box::new(work),
        }
    }

    fn give(&self, begun: Begun) {
        if let Err(error) = self.workers.give(begun.work) {
            self.unheard(begun.number, &error);
        }
    }

    /// No thread can be had.
    pub(crate) fn unheard(&self, number: u64, error: &std::io::Error) {
        log(&format!("no thread for a handshake: {error}"));
        self.release(number);
    }

    /// The first handshake that began at the door since the last call; the others have threads of their own then.
    pub(crate) fn begun_at_the_door(&self) -> Option<Begun> {
        let mut begun = std::mem::take(&mut *locked(&self.at_the_door)).into_iter();
        let first = begun.next();
        begun.for_each(|other| self.give(other));
        first
    }

    /// Its drone has given it up while it waited: nothing was computed for it.
    fn abandoned(&self, guest: &Guest) {
        self.station.counted(&guest.id, "hs_abandoned");
        let detail = "the drone hung up, or dialled again, before it was its turn";
        let error = HandshakeError::new(Reason::ConnectionLost, detail);
        let source = guest.source.to_string();
        self.station.refused(&source, Some(&guest.id), &error);
    }

    /// Whoever waits too long is to come back with its Hello first, and keeps its place.
    pub(crate) fn look_after_the_queue(self: &Arc<Self>) {
        let now_ns = self.now_ns();
        let (overdue, gone) = {
            let turns = &mut *locked(&self.turns);
            let gone = turns.gone(now_ns, |guest| is_open(&guest.socket));
            (turns.overdue(now_ns), gone)
        };
        for guest in overdue {
            self.station.counted(&guest.id, "hs_deferred");
            if part(&mut &*guest.socket, &RETRY) {
                let _ = guest.socket.shutdown(Shutdown::Write);
            }
        }
        for guest in gone {
            self.abandoned(&guest);
        }
        self.call(); // drones that do not answer hold up nobody for long
    }

    /// This handshake gives way.
    fn end(&self, victim: u64) {
        if let Some(victim) = locked(&self.in_progress).get(&victim) {
            let _ = victim.socket.shutdown(Shutdown::Both); // wakes the thread that waits there
        }
    }

    fn release(&self, number: u64) -> bool {
        locked(&self.in_progress).remove(&number);
        locked(&self.turns).finish(number)
    }

    fn reload(&self) -> Result<String, String> {
        let Reloaded { text, gone } = self.station.reload()?;
        self.size();
        let waited = locked(&self.turns).revoked(&gone);
        for guest in waited {
            let detail = "this drone's key was revoked while it waited for its turn";
            let error = HandshakeError::new(Reason::Policy, detail);
            let source = guest.source.to_string();
            self.station.refused(&source, Some(&guest.id), &error);
        }
        end_those_of(&locked(&self.in_progress), &gone);
        log(&format!("drones read again: {text}"));
        Ok(text)
    }

    /// What who asks over the status socket is told.
    pub(crate) fn answer(&self, request: &str) -> String {
        let figures = locked(&self.turns).figures();
        let report = || status::of_station(&self.station, figures);
        match request {
            "reload" => match self.reload() {
                Ok(text) => format!("done: {text}\n"),
                Err(text) => {
                    self.size();
                    log(&format!("drones not read again: {text}"));
                    format!("refused: {text}\n")
                }
            },
            "json" => report().json(),
            _ => report().text(),
        }
    }
}

fn end_those_of(in_progress: &HashMap<u64, InProgress>, gone: &HashSet<DroneId>) {
    for one in in_progress.values() {
        if gone.contains(&one.id) {
            let _ = one.socket.shutdown(Shutdown::Both); // wakes the thread that waits there
        }
    }
}

impl House for Arc<Gate> {
    fn station(&self) -> &Station {
        &self.station
    }

    fn admit(&self, hello: &Hello) -> Result<(), HandshakeError> {
        locked(&self.rates).take(&hello.drone_id, self.now_ns())?;
        locked(&self.turns).admit(&hello.drone_id)
    }

    fn receive(&self, guest: Guest) {
        let left = patience(self.station.config.suite).saturating_sub(guest.started.elapsed());
        let until_ns = self.now_ns() + i64::try_from(left.as_nanos()).unwrap_or(0);
        let (id, purpose) = (guest.id, guest.purpose);
        let older = locked(&self.turns).enter(id, purpose, guest, until_ns);
        if let Some(older) = older {
            self.abandoned(&older);
        }
        self.call_by(&mut |begun| locked(&self.at_the_door).push(begun));
    }
}

/// A handshake's thread among the others: it computes when it is its turn.
struct Pace<'a> {
    gate: &'a Arc<Gate>,
    number: u64,
    socket: Arc<TcpStream>,
    called: Receiver<()>,
    is_working: bool,
}

impl Watch for Pace<'_> {
    fn working(&mut self) -> Result<(), HandshakeError> {
        let lost = |detail: &str| HandshakeError::new(Reason::ConnectionLost, detail);
        if self.is_working {
            return Ok(()); // with its turn the thread began
        }
        locked(&self.gate.turns).answered(self.number);
        self.gate.call();
        let called = self.called.recv();
        called.map_err(|_| lost("nobody is called any more"))?;
        self.is_working = true;
        let set = |waits: bool| self.socket.set_nonblocking(!waits);
        let is_there = set(false).is_ok() && is_open(&self.socket) && set(true).is_ok();
        let gone = "the drone hung up before its answer was worked for";
        is_there.then_some(()).ok_or_else(|| lost(gone))
    }

    fn worked(&mut self) {
        self.is_working = false;
        locked(&self.gate.turns).worked(self.number, self.gate.now_ns());
        self.gate.call();
    }
}

fn serve(gate: &Arc<Gate>, guest: Guest, called: Receiver<()>) {
    let (number, source, id) = (guest.number, guest.source.to_string(), guest.id);
    let mut pace = Pace {
        gate,
        number,
        socket: Arc::clone(&guest.socket),
        called,
        is_working: true,
    };
    let outcome = handshake(gate, guest, &mut pace);
    let was_held = gate.release(number);
    gate.call();
    if let Err(mut error) = outcome {
        if !was_held && error.reason == Reason::ConnectionLost {
            error.reason = Reason::Evicted;
        }
        gate.station.refused(&source, Some(&id), &error);
    }
}

fn handshake(gate: &Arc<Gate>, guest: Guest, pace: &mut Pace<'_>) -> Result<(), HandshakeError> {
    let station = &gate.station;
    let Guest {
        socket,
        source,
        started,
        id,
        nonce,
        passed,
        number,
        ..
    } = guest;
    let waits = socket.set_nonblocking(false);
    waits.map_err(|error| HandshakeError::new(Reason::ConnectionLost, error.to_string()))?;
    // Of this drone alone: whoever is revoked meanwhile has no keys here.
    let psks = station.psks().only(&id);
    let rekey_basis = |session: &_| station.rekey_basis(session);
    let redeem = |answered: &[u8; 32]| {
        if *answered == nonce {
            return Ok(());
        }
        let detail = "another Challenge than the one that was found right";
        Err(HandshakeError::new(Reason::StaleCookie, detail))
    };
    let accepted = [station.config.suite];
    let setup = GcsSetup {
        identity: &station.identity,
        psks: &psks,
        accepted: &accepted,
        min_level: station.config.min_level,
        primitives: &*station.primitives,
        nonce,
        rx_index: station.free_index()?,
        note_claim: &|_| (),
        admit_key: &|_| Ok(()),
        rekey_basis: &rekey_basis,
        drone_keys: None,
        redeem: Some(&redeem),
    };
    let mut machine = GcsHandshake::after_waiting(setup, station.config.suite);
    converse_watched(
        &socket,
        started,
        passed,
        &mut machine,
        |established, rtt| station.install(established, number, source, rtt, started.elapsed()),
        pace,
    )
}
