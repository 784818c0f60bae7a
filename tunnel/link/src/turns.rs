//! Whose turn it is at a ground station, sans-IO: as many handshakes are worked for at once as there are processors, the
//! others wait in a queue of bounded length, and nothing was computed for them.
//!
//! A handshake is worked for twice: key pair and signature after the Hello, decapsulation after ClientKem. Between the
//! two its drone has the word, and holds up nobody. First come those whose ClientKem is there, for what is begun is to
//! end; then rekeys of living drones; then joins, of which one has each fourth turn, so that rekeys starve nobody.
//!
//! A place in the queue is a drone's, not a connection's: where it dials again its new connection stands in the place of
//! the old one, and whoever was asked to come back keeps the place for a while. Times are the caller's monotonic
//! nanoseconds.

use crate::error::{HandshakeError, Reason};
use crate::identity::DroneId;
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Handshakes begun, at most. With the largest suite each holds megabytes.
pub const MOST_BEGUN: usize = 256;
/// Of them those whose drone is not slow to answer. The others are few enough to hold up nobody.
pub const MOST_BRISK: usize = 64;
/// From then on a drone is slow.
const SLOW_NS: i64 = 1_000_000_000;
/// Whoever was asked to come back keeps its place for so long.
const KEPT_NS: i64 = 3_000_000_000;
/// How often it is looked who has hung up.
const LOOK_EVERY_NS: i64 = 1_000_000_000;
/// Rekeys in a row while a join waits.
const REKEYS_IN_A_ROW: u32 = 3;
/// Handshakes of one drone begun, at most: whoever holds one drone's key takes no places of the others.
const MOST_OF_A_DRONE: usize = 4;

/// What a drone dials for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A new session.
    Join,
    /// New keys of the session that it has.
    Rekey,
}

/// Who waits, and until when its drone has the patience.
struct Seat<G> {
    key: DroneId,
    /// `None`: it was asked to come back.
    guest: Option<G>,
    /// It is to be asked to come back then; where it was, its place lapses then.
    until_ns: i64,
}

/// Where a handshake stands that has begun.
enum Step {
    Working,
    /// Its drone has the word since then.
    Answering(i64),
    /// Its drone's answer waits to be worked for.
    Answered,
}

struct Begun {
    key: DroneId,
    step: Step,
    gave_way: bool,
}

/// Whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn<G> {
    /// Begin with it; an older handshake of the same drone gives way where one is named.
    Begin(G, Option<u64>),
    /// Go on with this one.
    GoOn(u64),
    /// It has hung up: nothing was computed for it.
    Gone(G),
}

/// How many are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// In the queue.
    pub waiting: usize,
    /// In the queue at once, at most, so far.
    pub most_waiting: usize,
    /// Worked for at once, at most, so far.
    pub most_at_work: usize,
}

/// The queue, and those who are out of it.
pub struct Turns<G> {
    processors: usize,
    most: usize,
    at_work: usize,
    begun: BTreeMap<u64, Begun>,
    answered: VecDeque<u64>,
    joins: VecDeque<Seat<G>>,
    rekeys: VecDeque<Seat<G>>,
    rekeys_in_a_row: u32,
    looked_ns: i64,
    figures: Figures,
}

impl<G> Turns<G> {
    /// For so many processors, and so many handshakes, waiting or begun.
    #[must_use]
    pub fn new(processors: usize, most: usize) -> Self {
        Self {
            processors: processors.max(1),
            most,
            at_work: 0,
            begun: BTreeMap::new(),
            answered: VecDeque::new(),
            joins: VecDeque::new(),
            rekeys: VecDeque::new(),
            rekeys_in_a_row: 0,
            looked_ns: 0,
            figures: Figures::default(),
        }
    }

    /// Another length from now on.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// How many are where.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let seats = self.joins.iter().chain(&self.rekeys);
        let waiting = seats.filter(|seat| seat.guest.is_some()).count();
        Figures {
            waiting,
            ..self.figures
        }
    }

    /// Is there a place for a handshake of this drone?
    ///
    /// # Errors
    /// `HalfOpenLimit`.
    pub fn admit(&self, key: &DroneId) -> Result<(), HandshakeError> {
        let mut seats = self.joins.iter().chain(&self.rekeys);
        let taken = self.joins.len() + self.rekeys.len() + self.begun.len();
        if taken < self.most || seats.any(|seat| seat.key == *key) {
            return Ok(());
        }
        let begun = self.begun.len();
        let detail = format!(
            "the queue is full: {begun} handshakes are begun, {} wait",
            taken - begun
        );
        Err(HandshakeError::new(Reason::HalfOpenLimit, detail))
    }

    /// It waits from now on, and is to be asked to come back at `until_ns`. Returns the drone's older connection, whose
    /// place it takes.
    pub fn enter(&mut self, key: DroneId, purpose: Purpose, guest: G, until_ns: i64) -> Option<G> {
        let (own, other) = match purpose {
            Purpose::Join => (&mut self.joins, &mut self.rekeys),
            Purpose::Rekey => (&mut self.rekeys, &mut self.joins),
        };
        let place = other.iter().position(|seat| seat.key == key);
        let elsewhere = place.and_then(|place| other.remove(place)?.guest);
        let replaced = if let Some(seat) = own.iter_mut().find(|seat| seat.key == key) {
            seat.until_ns = until_ns;
            seat.guest.replace(guest)
        } else {
            own.push_back(Seat {
                key,
                guest: Some(guest),
                until_ns,
            });
            None
        };
        let waiting = self.figures().waiting;
        self.figures.most_waiting = self.figures.most_waiting.max(waiting);
        replaced.or(elsewhere)
    }

    /// Whose turn it is now; `number` and `is_there` of who waits. To be called until it names nobody, after every other
    /// call.
    pub fn next(
        &mut self,
        now_ns: i64,
        number: impl Fn(&G) -> u64,
        is_there: impl Fn(&G) -> bool,
    ) -> Option<Turn<G>> {
        if self.at_work >= self.processors {
            return None;
        }
        if let Some(number) = self.answered.pop_front() {
            if let Some(begun) = self.begun.get_mut(&number) {
                begun.step = Step::Working;
                self.work();
            }
            return Some(Turn::GoOn(number));
        }
        if self.begun.len() >= MOST_BEGUN || self.brisk(now_ns) >= MOST_BRISK {
            return None;
        }
        let (key, guest) = self.first()?;
        if !is_there(&guest) {
            return Some(Turn::Gone(guest));
        }
        let own = self.begun.iter_mut();
        let mut own: Vec<_> = own
            .filter(|(_, begun)| begun.key == key && !begun.gave_way)
            .collect();
        let mut victim = None;
        if own.len() >= MOST_OF_A_DRONE {
            if let Some((number, oldest)) = own.first_mut() {
                oldest.gave_way = true;
                victim = Some(**number);
            }
        }
        let begun = Begun {
            key,
            step: Step::Working,
            gave_way: false,
        };
        self.begun.insert(number(&guest), begun);
        self.work();
        Some(Turn::Begin(guest, victim))
    }

    fn work(&mut self) {
        self.at_work += 1;
        self.figures.most_at_work = self.figures.most_at_work.max(self.at_work);
    }

    /// How many are begun whose drone is not slow.
    fn brisk(&self, now_ns: i64) -> usize {
        let is_slow = |begun: &&Begun| matches!(begun.step, Step::Answering(since_ns) if now_ns - since_ns >= SLOW_NS);
        self.begun.values().filter(|begun| !is_slow(begun)).count()
    }

    /// The first in the queue who is here.
    fn first(&mut self) -> Option<(DroneId, G)> {
        let place = |seats: &VecDeque<Seat<G>>| seats.iter().position(|seat| seat.guest.is_some());
        let (join, rekey) = (place(&self.joins), place(&self.rekeys));
        let is_joins_turn = rekey.is_none() || self.rekeys_in_a_row >= REKEYS_IN_A_ROW;
        let seat = match (join, rekey) {
            (Some(place), _) if is_joins_turn => {
                self.rekeys_in_a_row = 0;
                self.joins.remove(place)
            }
            (join, Some(place)) => {
                self.rekeys_in_a_row = match join {
                    Some(_) => self.rekeys_in_a_row + 1,
                    None => 0,
                };
                self.rekeys.remove(place)
            }
            _ => None,
        }?;
        Some((seat.key, seat.guest?))
    }

    /// What was to be computed for it is; now its drone is to answer.
    pub fn worked(&mut self, number: u64, now_ns: i64) {
        if let Some(begun) = self.begun.get_mut(&number) {
            if matches!(begun.step, Step::Working) {
                self.at_work -= 1;
            }
            begun.step = Step::Answering(now_ns);
        }
    }

    /// Its drone has answered: it waits for its turn.
    pub fn answered(&mut self, number: u64) {
        if let Some(begun) = self.begun.get_mut(&number) {
            begun.step = Step::Answered;
            self.answered.push_back(number);
        }
    }

    /// It has ended; false where it had to give way.
    pub fn finish(&mut self, number: u64) -> bool {
        self.answered.retain(|one| *one != number);
        let Some(begun) = self.begun.remove(&number) else {
            return false;
        };
        if matches!(begun.step, Step::Working) {
            self.at_work -= 1;
        }
        !begun.gave_way
    }

    /// Those whose patience is half spent: they are to come back, and keep their places for a while.
    pub fn overdue(&mut self, now_ns: i64) -> Vec<G> {
        let mut overdue = Vec::new();
        for seats in [&mut self.rekeys, &mut self.joins] {
            seats.retain_mut(|seat| {
                if now_ns < seat.until_ns {
                    return true;
                }
                seat.until_ns = now_ns + KEPT_NS;
                let guest = seat.guest.take();
                let was_here = guest.is_some();
                overdue.extend(guest);
                was_here
            });
        }
        overdue
    }

    /// Those who have hung up, looked for once a second: they leave their places.
    pub fn gone(&mut self, now_ns: i64, is_there: impl Fn(&G) -> bool) -> Vec<G> {
        if now_ns - self.looked_ns < LOOK_EVERY_NS {
            return Vec::new();
        }
        self.looked_ns = now_ns;
        self.leave(|_, guest| guest.is_some_and(|guest| !is_there(guest)))
    }

    /// Those of drones that are served no more.
    pub fn revoked(&mut self, keys: &HashSet<DroneId>) -> Vec<G> {
        self.leave(|key, _| keys.contains(key))
    }

    fn leave(&mut self, leaves: impl Fn(&DroneId, Option<&G>) -> bool) -> Vec<G> {
        let mut left = Vec::new();
        for seats in [&mut self.rekeys, &mut self.joins] {
            seats.retain_mut(|seat| {
                let leaves = leaves(&seat.key, seat.guest.as_ref());
                if leaves {
                    left.extend(seat.guest.take());
                }
                !leaves
            });
        }
        left
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
