//! Datagrams: sealed, in flight, opened, and the books of both ends held against each other.

use super::*;

impl World {
    pub(super) fn control(&mut self, drone: usize, from_drone: bool, kind: u8) {
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

    pub(super) fn send(&mut self, drone: usize, from_drone: bool) -> bool {
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
    pub(super) fn fly(&mut self, place: usize) {
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
}
