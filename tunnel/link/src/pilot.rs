//! What a drone does next, sans-IO: dial, dial again after silence, rekey by time or when asked, confirm a new epoch
//! (docs/PROTOCOL.md, section 7). Times are monotonic nanoseconds of the caller; what the session and the suite say, the
//! caller tells.

use crate::error::Reason;
use crate::retry::{Redial, RekeyTries};
use pq_core::cell::ControlFrame;
use pq_core::packet;

/// A keepalive for a new epoch each so often …
pub const CONFIRM_EVERY_NS: i64 = 100_000_000;
/// … and so many of them at most.
pub const CONFIRM_KEEPALIVES: u32 = 10;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A keepalive, so that the GCS answers on the newest epoch.
    Keepalive,
    /// A handshake for a new session.
    New,
    /// A handshake that replaces the session.
    Rekey,
}

/// What the session says now.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is asked by itself, and all of them can be at once
pub struct Facts {
    /// An epoch may be sent on.
    pub has_keys: bool,
    /// The GCS was heard on the newest epoch.
    pub is_confirmed: bool,
    /// Nothing authentic came for too long.
    pub is_silent: bool,
    /// The epoch in use is old, or nearly used up.
    pub is_old: bool,
}

/// Where the drone stands between handshakes.
pub struct Pilot {
    next_epoch: u32,
    /// A handshake is in flight; true: a rekey.
    in_flight: Option<bool>,
    redial: Redial,
    tries: RekeyTries,
    is_asked: bool,
    /// Keepalives sent for the newest epoch, until the GCS has answered on it.
    confirming: u32,
    confirmed_ns: i64,
    /// The session is lost or was never there: dial a new one.
    wants_new: bool,
}

impl Default for Pilot {
    fn default() -> Self {
        Self {
            next_epoch: 0,
            in_flight: None,
            redial: Redial::default(),
            tries: RekeyTries::default(),
            is_asked: false,
            confirming: 0,
            confirmed_ns: 0,
            wants_new: true,
        }
    }
}

impl Pilot {
    /// Number of the epoch that the next handshake makes.
    #[must_use]
    pub fn next_epoch(&self) -> u32 {
        self.next_epoch
    }

    /// Is a handshake in flight?
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// What to do now; a handshake that it names is in flight from here on.
    pub fn due(&mut self, facts: Facts, now_ns: i64, jitter: u8) -> Due {
        if facts.has_keys && !facts.is_confirmed && self.confirming < CONFIRM_KEEPALIVES {
            if now_ns < self.confirmed_ns {
                return Due::Nothing;
            }
            self.confirmed_ns = now_ns + CONFIRM_EVERY_NS;
            self.confirming += 1;
            return Due::Keepalive;
        }
        if self.in_flight.is_some() {
            return Due::Nothing;
        }
        if self.wants_new || facts.is_silent {
            if !self.redial.is_due(now_ns) {
                return Due::Nothing;
            }
            self.redial.begun(now_ns, jitter);
            self.in_flight = Some(false);
            return Due::New;
        }
        let wants = self.is_asked || facts.is_old;
        if wants && facts.is_confirmed && self.tries.is_due(now_ns) {
            self.in_flight = Some(true);
            return Due::Rekey;
        }
        Due::Nothing
    }

    /// An authentic control frame came; `epoch` and `suite_code` are in use.
    pub fn heed(&mut self, frame: &ControlFrame, epoch: Option<u32>, suite_code: [u8; 3]) {
        if frame.kind != packet::REKEY_REQUEST || !matches!(frame.payload[0], 1 | 2) {
            return;
        }
        if epoch > Some(frame.epoch) {
            return; // it asked for what has happened meanwhile
        }
        let code = &frame.payload[1..];
        self.is_asked |= code == [0; 3] || code == suite_code;
    }

    /// The handshake in flight could not begin.
    pub fn dropped(&mut self) {
        self.in_flight = None;
    }

    /// The handshake in flight has completed, and its keys are installed: say so on the new epoch at once.
    pub fn completed(&mut self, epoch: u32, now_ns: i64) {
        self.in_flight = None;
        self.next_epoch = epoch.wrapping_add(1);
        (self.wants_new, self.is_asked, self.confirming) = (false, false, 0);
        self.redial.completed();
        self.tries.completed();
        self.confirmed_ns = now_ns + CONFIRM_EVERY_NS;
    }

    /// The handshake in flight has failed.
    pub fn failed(&mut self, reason: Reason, now_ns: i64, jitter: u8) {
        let was_rekey = self.in_flight.take() == Some(true);
        if reason == Reason::SessionUnknown {
            self.wants_new = true; // the GCS proved that it has nothing to rekey
            self.redial.completed();
        } else if was_rekey {
            let again = self.tries.failed(now_ns, jitter);
            self.is_asked &= again;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Facts = Facts {
        has_keys: true,
        is_confirmed: true,
        is_silent: false,
        is_old: false,
    };

    #[test]
    fn a_drone_dials_confirms_rekeys_and_dials_again() {
        let mut pilot = Pilot::default();
        let none = Facts {
            has_keys: false,
            is_confirmed: false,
            ..UP
        };
        assert_eq!(pilot.due(none, 0, 0), Due::New);
        assert_eq!(pilot.due(none, 9 << 30, 0), Due::Nothing, "one at a time");
        pilot.completed(0, 5);
        let fresh = Facts {
            is_confirmed: false,
            ..UP
        };
        assert_eq!(pilot.due(fresh, 5, 0), Due::Nothing);
        for place in 1..=i64::from(CONFIRM_KEEPALIVES) {
            let now_ns = 5 + place * CONFIRM_EVERY_NS;
            assert_eq!(pilot.due(fresh, now_ns, 0), Due::Keepalive);
            assert_eq!(pilot.due(fresh, now_ns, 0), Due::Nothing);
        }
        assert_eq!(
            pilot.due(fresh, 9 << 30, 0),
            Due::Nothing,
            "no rekey of what nobody heard"
        );
        let old = Facts { is_old: true, ..UP };
        assert_eq!(
            (pilot.due(old, 9 << 30, 0), pilot.next_epoch()),
            (Due::Rekey, 1)
        );
        pilot.failed(Reason::ConnectionLost, 9 << 30, 0);
        assert_eq!(pilot.due(old, 9 << 30, 0), Due::Nothing, "after a pause");
        assert_eq!(pilot.due(old, 10 << 30, 0), Due::Rekey);
        pilot.failed(Reason::SessionUnknown, 10 << 30, 0);
        assert_eq!(pilot.due(UP, 10 << 30, 0), Due::New, "at once");
        pilot.completed(1, 10 << 30);
        let silent = Facts {
            is_silent: true,
            ..UP
        };
        assert_eq!(pilot.due(silent, 11 << 30, 0), Due::New);
        pilot.dropped();
        assert!(!pilot.is_in_flight());
    }
}
