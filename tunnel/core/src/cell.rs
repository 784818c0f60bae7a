//! Everything that one cell's data plane works on, behind one lock that is never held during a system call.

use crate::bins::Bins;
use crate::counters::{Counter, Counters};
use crate::ledger::Ledger;
use crate::packet::{Token, TOKEN_BYTES};
use crate::path::PathState;
use crate::session::{Role, Session};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Control frames that wait to be fetched; the oldest gives way, and is counted.
pub const CONTROL_QUEUE_FRAMES: usize = 64;
/// Epochs whose first packet's time is remembered.
const KEPT_SWITCHES: usize = 64;

/// An authentic control frame, for the endpoint to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFrame {
    /// Packet type.
    pub kind: u8,
    /// Of the length that its type asks for.
    pub payload: Vec<u8>,
    /// Epoch it was sealed under.
    pub epoch: u32,
    /// Where it came from.
    pub source: SocketAddr,
    /// When it was opened, ns of the caller's monotonic clock.
    pub monotonic_ns: i64,
}

/// Session, counters, ledger and peer of one cell.
pub struct Cell {
    /// Keys and windows.
    pub session: Session,
    /// Counts since the cell was prepared.
    pub counters: Counters,
    /// Rows, where the cell keeps a ledger.
    pub ledger: Option<Ledger>,
    /// 20 ms bins.
    pub bins: Bins,
    /// Where sealed datagrams go.
    pub path: PathState,
    control: VecDeque<ControlFrame>,
    switches: VecDeque<(u32, i64)>,
    rng: SystemRandom,
}

/// A cell that data threads and control share; it outlives its session, to be read.
pub type SharedCell = Arc<Mutex<Cell>>;

impl Cell {
    /// A fresh cell without keys.
    #[must_use]
    pub fn new(role: Role, ledger: bool) -> Self {
        Self {
            session: Session::new(role),
            counters: Counters::default(),
            ledger: ledger.then(Ledger::default),
            bins: Bins::default(),
            path: PathState::default(),
            control: VecDeque::new(),
            switches: VecDeque::new(),
            rng: SystemRandom::new(),
        }
    }

    /// One of many: without bins, which only a detector reads.
    #[must_use]
    pub fn of_many(role: Role, ledger: bool) -> SharedCell {
        let mut cell = Self::new(role, ledger);
        cell.bins = Bins::off();
        Arc::new(Mutex::new(cell))
    }

    /// As `new`, ready to be shared.
    #[must_use]
    pub fn shared(role: Role, ledger: bool) -> SharedCell {
        Arc::new(Mutex::new(Self::new(role, ledger)))
    }

    /// An authentic packet came from `source`: the token of the challenge that is due to it, if one is.
    pub fn challenge(&mut self, source: SocketAddr, is_newest: bool, now_ns: i64) -> Option<Token> {
        let rng = &self.rng;
        let fresh = || {
            let mut token = [0; TOKEN_BYTES];
            rng.fill(&mut token).ok().map(|()| token)
        };
        let challenge = self.path.on_authentic(source, is_newest, now_ns, fresh);
        challenge.map(|due| due.token)
    }

    /// A packet of `epoch` was sealed; `now_ns` is asked only when it is the epoch's first.
    pub fn mark_sealed(&mut self, epoch: u32, now_ns: impl FnOnce() -> i64) {
        if self.switches.back().is_some_and(|last| last.0 == epoch) {
            return;
        }
        if self.switches.len() == KEPT_SWITCHES {
            self.switches.pop_front();
        }
        self.switches.push_back((epoch, now_ns()));
    }

    /// When the first packet of `epoch` was sealed to be sent, ns of the caller's monotonic clock.
    #[must_use]
    pub fn first_sent_ns(&self, epoch: u32) -> Option<i64> {
        let mut found = self.switches.iter().rev().filter(|mark| mark.0 == epoch);
        found.next().map(|mark| mark.1)
    }

    /// Keep a control frame until it is fetched.
    pub fn push_control(&mut self, frame: ControlFrame) {
        if self.control.len() == CONTROL_QUEUE_FRAMES {
            self.control.pop_front();
            self.counters.add(Counter::ControlDropped, 1);
        }
        self.control.push_back(frame);
    }

    /// The control frames since the last call, oldest first.
    pub fn take_control(&mut self) -> Vec<ControlFrame> {
        self.control.drain(..).collect()
    }
}

/// Lock, whatever became of an earlier holder: the counters of a cell stay readable.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn control_frames_wait_bounded_and_what_gives_way_is_counted() {
        let mut cell = Cell::new(Role::Drone, false);
        let source = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        for number in 0..CONTROL_QUEUE_FRAMES as u32 + 3 {
            cell.push_control(ControlFrame {
                kind: 4,
                payload: vec![0; 4],
                epoch: number,
                source,
                monotonic_ns: 0,
            });
        }
        let frames = cell.take_control();
        assert_eq!(frames.len(), CONTROL_QUEUE_FRAMES);
        assert_eq!(frames[0].epoch, 3);
        assert_eq!(cell.counters.get(Counter::ControlDropped), 3);
        assert!(cell.take_control().is_empty());
    }

    #[test]
    fn the_first_packet_of_each_epoch_is_timed() {
        let mut cell = Cell::new(Role::Drone, false);
        for (epoch, now_ns) in [(0, 5), (0, 6), (1, 9), (1, 10)] {
            cell.mark_sealed(epoch, || now_ns);
        }
        assert_eq!(
            [0, 1, 2].map(|epoch| cell.first_sent_ns(epoch)),
            [Some(5), Some(9), None]
        );
        for epoch in 2..2 + KEPT_SWITCHES as u32 {
            cell.mark_sealed(epoch, || 20);
        }
        assert_eq!(cell.first_sent_ns(1), None, "forgotten");
    }

    #[test]
    fn tokens_differ() {
        let mut cell = Cell::new(Role::Gcs, false);
        let mut token = |port, now_ns| {
            let source = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            cell.challenge(source, true, now_ns).expect("challenged")
        };
        assert_ne!(token(1, 0), token(2, 1_000_000_000));
    }
}
