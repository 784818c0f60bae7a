//! Admission of a ground station: a room for connections whose right Hello has not come, and how often a drone may dial.
//! Who is in has its place in `turns`.
//!
//! Sans-IO: the caller passes monotonic nanoseconds. Memory is bounded. A stranger never has a place: it waits in the
//! room, and when that is full the oldest of the source that has most there gives way (`pqtunnel.handshake.limits` says
//! why not the newcomer). Whoever is sent away so may come back with its Hello first (`cookie`), and needs no room then.

use crate::error::{HandshakeError, Reason};
use crate::identity::DroneId;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Handshakes whose Hello was right, waiting or begun, at most, beside one for each drone.
pub const MAX_IN_PROGRESS: usize = 64;
/// Connections that wait, at most, beside one for each drone.
pub const MAX_WAITING: usize = 128;
/// Handshakes of one drone, whatever they cost: it needs one in ten minutes, and one a second while it looks for its
/// station.
const RATE_PER_S: f64 = 2.0;
const BURST: f64 = 30.0;
const MAX_BUCKETS: usize = 4096;

/// One token bucket a drone.
#[derive(Default)]
pub struct Rates(HashMap<DroneId, (f64, i64)>);

impl Rates {
    /// After the Hello's MAC verified, so that nobody spends another drone's tokens.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn take(&mut self, name: &DroneId, now_ns: i64) -> Result<(), HandshakeError> {
        if self.has_one(*name, now_ns) {
            return Ok(());
        }
        let detail = "a drone dials too often";
        Err(HandshakeError::new(Reason::RateLimited, detail))
    }

    #[allow(clippy::cast_precision_loss)] // an interval of nanoseconds; a bucket needs no more
    fn has_one(&mut self, name: DroneId, now_ns: i64) -> bool {
        if self.0.len() >= MAX_BUCKETS && !self.0.contains_key(&name) {
            // Forgetting one can only give a drone its full burst back.
            let oldest = self.0.iter().min_by_key(|(_, bucket)| bucket.1);
            if let Some(oldest) = oldest.map(|(name, _)| *name) {
                self.0.remove(&oldest);
            }
        }
        let bucket = self.0.entry(name).or_insert((BURST, now_ns));
        let gained = (now_ns - bucket.1) as f64 * RATE_PER_S / 1e9;
        *bucket = ((bucket.0 + gained).min(BURST), now_ns);
        let admitted = bucket.0 >= 1.0;
        if admitted {
            bucket.0 -= 1.0;
        }
        admitted
    }
}

/// Connections whose right Hello has not come, by the number of their arrival.
pub struct Room {
    waiting: BTreeMap<u64, IpAddr>,
    held: HashMap<IpAddr, usize>,
    size: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self::new(MAX_WAITING)
    }
}

impl Room {
    /// For so many.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            held: HashMap::new(),
            size,
        }
    }

    /// For another number from now on.
    pub fn set_size(&mut self, size: usize) {
        self.size = size;
    }

    /// Connection `number` comes in; who gives way for it.
    pub fn enter(&mut self, number: u64, source: IpAddr) -> Option<u64> {
        let victim = (self.waiting.len() >= self.size).then(|| self.gives_way());
        let victim = victim.flatten();
        if let Some(victim) = victim {
            self.leave(victim);
        }
        self.waiting.insert(number, source);
        *self.held.entry(source).or_default() += 1;
        victim
    }

    /// The oldest of the source that has the most here.
    #[must_use]
    pub fn gives_way(&self) -> Option<u64> {
        let most = self.held.values().max()?;
        let mut found = self.waiting.iter();
        found
            .find(|(_, source)| self.held.get(source) == Some(most))
            .map(|(number, _)| *number)
    }

    /// It has gone.
    pub fn leave(&mut self, number: u64) {
        let Some(source) = self.waiting.remove(&number) else {
            return;
        };
        if let Some(held) = self.held.get_mut(&source) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([198, 18, 0, last])
    }

    #[test]
    fn the_oldest_of_the_busiest_source_gives_way() {
        let mut room = Room::new(3);
        for (number, source) in [(1, 7), (2, 9), (3, 9)] {
            assert_eq!(room.enter(number, host(source)), None);
        }
        assert_eq!(room.enter(4, host(8)), Some(2));
        assert_eq!(room.enter(5, host(9)), Some(1), "all alike: the oldest");
        room.leave(4);
        room.leave(4);
        assert_eq!(room.enter(6, host(9)), None);
        assert_eq!(room.enter(7, host(8)), Some(3));
        room.set_size(9);
        assert_eq!(room.enter(8, host(8)), None);
        for number in [5, 6, 7, 8] {
            room.leave(number);
        }
        assert!(room.held.is_empty() && room.gives_way().is_none());
    }

    #[test]
    fn a_drones_tokens_run_out_and_come_back_and_are_its_own() {
        let mut rates = Rates::default();
        let mut taken = 0;
        while rates.take(b"vehicle1", 0).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 30);
        assert!(rates.take(b"vehicle2", 0).is_ok(), "another drone");
        assert!(rates.take(b"vehicle1", 500_000_000).is_ok());
        let again = rates.take(b"vehicle1", 500_000_001);
        assert_eq!(again.map_err(|e| e.reason), Err(Reason::RateLimited));
    }
}
