//! Handshakes and rekeys: dialled, carried frame by frame, ended, and their keys installed and compared.

use super::*;

impl World {
    pub(super) fn dial(&mut self, drone: usize, is_rekey: bool) {
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
    pub(super) fn arrive(&mut self, place: usize, at_drone: bool, frame: &[u8]) -> bool {
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
    pub(super) fn end(&mut self, place: usize, reason: Reason) {
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
}
