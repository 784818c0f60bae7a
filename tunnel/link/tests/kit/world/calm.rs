//! Hours without an attacker: both ends work by their clocks, and what lies in flight lands.

use super::*;

impl World {
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
