//! One drone of the farm: its session, and when it does what `pqlink` does.

use crate::farm::Farm;
use crate::rows::or_empty;
use pq_core::counters::Counters;
use pq_core::outcome::Opened;
use pq_core::packet;
use pq_core::session::{Role, Session};
use pq_link::book::Book;
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::established::{Established, RekeyFrom};
use pq_link::keys::DroneKey;
use pq_link::raw::clock::monotonic_ns;
use pq_link::retry::{Redial, RekeyTries};
use pq_link::secret::scrub_stack;
use pq_link::stream::{converse_watched, Passed, Watch};
use pq_link::wire::Challenge;
use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Connections with the Hello first, at most, after one that a station under load ended.
const EARLY_TRIES: u32 = 3;
const CONFIRM_EVERY_NS: i64 = 100_000_000;
const CONFIRM_KEEPALIVES: u32 = 10;
/// Indices under which packets may still come: of the session, of the one before, of a handshake.
const INDICES: usize = 4;

pub struct Drone {
    pub number: usize,
    key: DroneKey,
    flight: Mutex<Flight>,
}

/// One dialled handshake.
struct Attempt {
    stage: String,
    number: u32,
    is_rekey: bool,
    due_ns: Option<i64>,
    dialled_ns: i64,
    connected_ns: Option<i64>,
    hello_ns: Option<i64>,
    established_ns: Option<i64>,
}

impl Watch for Attempt {
    fn sending(&mut self) {
        self.hello_ns.get_or_insert_with(monotonic_ns);
    }
}

#[allow(clippy::struct_excessive_bools)] // each is a fact of its own, as at `pqlink`
pub struct Flight {
    pub session: Session,
    pub counters: Counters,
    book: Book,
    next_epoch: u32,
    redial: Redial,
    tries: RekeyTries,
    is_dialling: bool,
    is_asked: bool,
    /// Its own moment to rekey, within a window.
    rekey_due_ns: Option<i64>,
    /// It may dial from then on; never before.
    joins_ns: Option<i64>,
    join_told: bool,
    confirming: u32,
    confirm_at_ns: i64,
    is_confirmed: bool,
    wants_new: bool,
    attempts: u32,
    /// Established, and no packet of it has come yet.
    waiting: Option<Attempt>,
    pub back_ns: Option<i64>,
    pub rekeys_done: u32,
    indices: VecDeque<u32>,
}

impl Drone {
    pub fn new(number: usize, key: DroneKey) -> Self {
        Self {
            number,
            key,
            flight: Mutex::new(Flight {
                session: Session::new(Role::Drone),
                counters: Counters::default(),
                book: Book::default(),
                next_epoch: 0,
                redial: Redial::default(),
                tries: RekeyTries::default(),
                is_dialling: false,
                is_asked: false,
                rekey_due_ns: None,
                joins_ns: None,
                join_told: false,
                confirming: 0,
                confirm_at_ns: 0,
                is_confirmed: false,
                wants_new: true,
                attempts: 0,
                waiting: None,
                back_ns: None,
                rekeys_done: 0,
                indices: VecDeque::new(),
            }),
        }
    }

    pub fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn join_at(&self, due_ns: i64) {
        self.flight().joins_ns = Some(due_ns);
    }

    pub fn rekey_at(&self, due_ns: i64) {
        self.flight().rekey_due_ns = Some(due_ns);
    }

    /// What came for it: what it was, in `datagram`, if it was authentic.
    pub fn receive(&self, farm: &Farm, datagram: &mut [u8]) -> Option<Opened> {
        let now_ns = monotonic_ns();
        let flight = &mut *self.flight();
        let opened = flight
            .session
            .receive(datagram, now_ns, &mut flight.counters);
        let opened = opened.ok()?;
        let mut is_new = false;
        if flight.session.epoch() == Some(opened.epoch) {
            flight.is_confirmed = true;
            if let Some(attempt) = flight.waiting.take() {
                is_new = true;
                flight.rekeys_done += u32::from(attempt.is_rekey);
                farm.rows.add(self.row(&attempt, Some(now_ns), "completed"));
            }
        }
        if is_new || !farm.asks_new_sessions() {
            flight.back_ns.get_or_insert(now_ns);
        }
        let payload = datagram
            .get(packet::HEADER_BYTES..packet::HEADER_BYTES + opened.length)
            .unwrap_or(&[]);
        match opened.kind {
            packet::PATH_CHALLENGE => {
                let payload = payload.to_vec();
                flight.control(farm, packet::PATH_RESPONSE, &payload);
            }
            packet::REKEY_REQUEST => flight.is_asked = true,
            _ => {}
        }
        Some(opened)
    }

    /// Start what is due.
    pub fn tick(self: &Arc<Self>, farm: &Arc<Farm>) {
        let now_ns = monotonic_ns();
        let flight = &mut *self.flight();
        let Some(joins_ns) = flight.joins_ns.filter(|joins_ns| now_ns >= *joins_ns) else {
            return;
        };
        flight.book.settle(flight.is_confirmed);
        flight.session.expire(now_ns);
        if flight.session.keepalive_due(now_ns) {
            flight.control(farm, packet::KEEPALIVE, &[]);
        }
        let has_keys = flight.session.can_send();
        if has_keys && !flight.is_confirmed && flight.confirming < CONFIRM_KEEPALIVES {
            if now_ns >= flight.confirm_at_ns {
                flight.confirm_at_ns = now_ns + CONFIRM_EVERY_NS;
                flight.confirming += 1;
                flight.control(farm, packet::KEEPALIVE, &[]);
            }
            return;
        }
        if flight.is_dialling {
            return;
        }
        if flight.wants_new || flight.session.silent(now_ns) {
            if flight.redial.is_due(now_ns) {
                flight.redial.begun(now_ns, farm.jitter());
                let due_ns = (!flight.join_told).then_some(joins_ns);
                flight.join_told = true;
                self.launch(farm, flight, None, due_ns);
            }
            return;
        }
        let own_ns = flight.rekey_due_ns.filter(|due_ns| now_ns >= *due_ns);
        let is_due = own_ns.is_some() || flight.is_asked || flight.session.rekey_due(now_ns);
        if is_due && flight.is_confirmed && flight.tries.is_due(now_ns) {
            if let Some(from) = flight.book.from() {
                self.launch(farm, flight, Some(from), own_ns);
            }
        }
    }

    fn launch(
        self: &Arc<Self>,
        farm: &Arc<Farm>,
        flight: &mut Flight,
        rekey: Option<RekeyFrom>,
        due_ns: Option<i64>,
    ) {
        flight.is_dialling = true;
        flight.attempts += 1;
        if let Some(lost) = flight.waiting.take() {
            farm.rows.add(self.row(&lost, None, "unanswered"));
        }
        let index = farm.fresh_index(self.number);
        flight.indices.push_back(index);
        if flight.indices.len() > INDICES {
            farm.forget_index(flight.indices.pop_front());
        }
        let mut attempt = Attempt {
            stage: farm.stage_name(),
            number: flight.attempts,
            is_rekey: rekey.is_some(),
            due_ns,
            dialled_ns: 0,
            connected_ns: None,
            hello_ns: None,
            established_ns: None,
        };
        let epoch = flight.next_epoch;
        let (drone, farm) = (Arc::clone(self), Arc::clone(farm));
        std::thread::spawn(move || {
            let outcome = drone.dial(&farm, &mut attempt, epoch, index, rekey.as_ref());
            drop(rekey);
            scrub_stack();
            drone.land(&farm, attempt, outcome);
        });
    }

    /// From connect to keys; a station under load asks for another connection, with the Hello first, as it asks `pqlink`.
    fn dial(
        &self,
        farm: &Farm,
        attempt: &mut Attempt,
        epoch: u32,
        rx_index: u32,
        rekey: Option<&RekeyFrom>,
    ) -> Result<(Established, Duration), HandshakeError> {
        attempt.dialled_ns = monotonic_ns();
        let (mut early, mut sent_away) = (None, 0);
        loop {
            let outcome = self.dial_once(farm, attempt, (epoch, rx_index), rekey, &mut early);
            match outcome {
                Err(error) if error.reason == Reason::Retry && sent_away < EARLY_TRIES => {
                    sent_away += 1;
                }
                other => return other,
            }
        }
    }

    /// One connection of a dial.
    fn dial_once(
        &self,
        farm: &Farm,
        attempt: &mut Attempt,
        (epoch, rx_index): (u32, u32),
        rekey: Option<&RekeyFrom>,
        early: &mut Option<Challenge>,
    ) -> Result<(Established, Duration), HandshakeError> {
        let started = Instant::now();
        let lost =
            |error: std::io::Error| HandshakeError::new(Reason::ConnectionLost, error.to_string());
        let socket = TcpStream::connect_timeout(&farm.handshake, CONNECT_LIMIT).map_err(lost)?;
        attempt.connected_ns.get_or_insert_with(monotonic_ns);
        let rtt = started.elapsed();
        socket.set_nodelay(true).map_err(lost)?;
        let mut machine = DroneHandshake::new(DroneSetup {
            suite: farm.suite,
            drone_id: self.key.id,
            psk: &self.key.psk,
            trusted: &farm.trusted,
            min_level: 1,
            epoch,
            primitives: &farm.primitives,
            nonce: farm.random(),
            rx_index,
            rekey: rekey.map(RekeyFrom::copy),
            signing_key: None,
            early: early.take(),
        });
        let mut keys = None;
        let outcome = converse_watched(
            &socket,
            started,
            Passed::default(),
            &mut machine,
            |established, _| {
                keys = Some(established);
                Ok(())
            },
            attempt,
        );
        *early = machine.to_answer().cloned();
        outcome?;
        let keys = keys.ok_or_else(|| HandshakeError::new(Reason::Ended, "no keys came"))?;
        Ok((keys, rtt))
    }

    /// The handshake has ended.
    fn land(
        &self,
        farm: &Farm,
        mut attempt: Attempt,
        outcome: Result<(Established, Duration), HandshakeError>,
    ) {
        let flight = &mut *self.flight();
        flight.is_dialling = false;
        let now_ns = monotonic_ns();
        let outcome = outcome.and_then(|(keys, rtt)| {
            flight.session.set_rtt(rtt.as_nanos() as i64);
            let installed = flight.session.install(&keys.epoch_keys(), now_ns);
            installed.map_err(|error| HandshakeError::new(Reason::Failed, format!("{error:?}")))?;
            Ok(keys)
        });
        match outcome {
            Ok(keys) => {
                flight.next_epoch = keys.epoch.wrapping_add(1);
                flight.book.enter(keys, 0);
                flight.is_confirmed = false;
                (flight.wants_new, flight.is_asked, flight.confirming) = (false, false, 0);
                flight.redial.completed();
                flight.tries.completed();
                flight.confirm_at_ns = now_ns + CONFIRM_EVERY_NS;
                if attempt.is_rekey {
                    flight.rekey_due_ns = None;
                }
                attempt.established_ns = Some(now_ns);
                flight.waiting = Some(attempt);
                flight.control(farm, packet::KEEPALIVE, &[]);
            }
            Err(error) => {
                let name = error.reason.counter();
                farm.rows.add(self.row(&attempt, None, name));
                if error.reason == Reason::SessionUnknown {
                    flight.wants_new = true;
                    flight.redial.completed();
                } else if attempt.is_rekey {
                    let again = flight.tries.failed(now_ns, farm.jitter());
                    flight.is_asked &= again;
                    if !again {
                        flight.rekey_due_ns = None;
                    }
                }
            }
        }
    }

    /// An attempt that no packet has confirmed when the farm ends.
    pub fn finish(&self, farm: &Farm) {
        if let Some(lost) = self.flight().waiting.take() {
            farm.rows.add(self.row(&lost, None, "unanswered"));
        }
    }

    fn row(&self, attempt: &Attempt, first_packet_ns: Option<i64>, outcome: &str) -> String {
        let kind = if attempt.is_rekey { "rekey" } else { "session" };
        format!(
            "attempt,{},{},{},{kind},{},{},{},{},{},{},{outcome}",
            attempt.stage,
            self.number,
            attempt.number,
            or_empty(attempt.due_ns),
            attempt.dialled_ns,
            or_empty(attempt.connected_ns),
            or_empty(attempt.hello_ns),
            or_empty(attempt.established_ns),
            or_empty(first_packet_ns),
        )
    }
}

impl Flight {
    fn control(&mut self, farm: &Farm, kind: u8, payload: &[u8]) {
        let mut datagram = Vec::new();
        let sealed = self
            .session
            .seal_control(kind, payload, &mut datagram, &mut self.counters);
        if sealed.is_ok() {
            farm.send(&datagram);
        }
    }

    /// One data packet; false where there is no session for it.
    pub fn data(&mut self, farm: &Farm, payload: &[u8]) -> bool {
        let mut datagram = Vec::with_capacity(payload.len() + packet::OVERHEAD_BYTES);
        let sealed = self
            .session
            .seal_data(payload, &mut datagram, &mut self.counters);
        sealed.is_ok() && farm.send(&datagram)
    }
}
