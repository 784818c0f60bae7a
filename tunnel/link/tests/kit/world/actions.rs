//! What can happen next, and what happens then: frames, datagrams, an attacker's copies, kills, time.

use super::*;

impl World {
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

    pub(super) fn due(&mut self, drone: usize) -> Due {
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

    pub(super) fn pass(&mut self, place: usize, at_drone: bool) {
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
}
