//! Admission before any work: token buckets by source and by key id, and a bound on half-open handshakes.
//!
//! Sans-IO: the caller passes monotonic nanoseconds. Memory is bounded. `pqtunnel.handshake.limits` says why the oldest
//! stranger of the busiest source gives way instead of the newcomer.

use crate::error::{HandshakeError, Reason};
use crate::identity::DroneId;
use std::collections::HashMap;
use std::net::IpAddr;

/// Handshakes of one drone in progress, at most: whoever holds one drone's key takes no places of the others.
const MAX_OF_A_DRONE: usize = 4;
/// Handshakes in progress, at most.
pub const MAX_HALF_OPEN: usize = 64;
const RATE_PER_S: f64 = 2000.0;
const BURST: f64 = 4000.0;
const MAX_BUCKETS: usize = 4096;

/// One token bucket a name.
struct TokenBuckets<K>(HashMap<K, (f64, i64)>);

impl<K: Copy + Eq + std::hash::Hash> TokenBuckets<K> {
    #[allow(clippy::cast_precision_loss)] // an interval of nanoseconds; a bucket needs no more
    fn take(&mut self, name: K, now_ns: i64) -> bool {
        if self.0.len() >= MAX_BUCKETS && !self.0.contains_key(&name) {
            // Forgetting one can only give a source its full burst back.
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

struct Slot {
    number: u64,
    source: IpAddr,
    /// Whose right Hello came; nobody's yet: a stranger.
    key: Option<DroneId>,
}

impl Slot {
    fn is_authentic(&self) -> bool {
        self.key.is_some()
    }
}

/// Both limits of a GCS.
pub struct Limits {
    sources: TokenBuckets<IpAddr>,
    keys: TokenBuckets<DroneId>,
    slots: Vec<Slot>,
    max_half_open: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(MAX_HALF_OPEN)
    }
}

impl Limits {
    /// With room for this many half-open handshakes.
    #[must_use]
    pub fn new(max_half_open: usize) -> Self {
        Self {
            sources: TokenBuckets(HashMap::new()),
            keys: TokenBuckets(HashMap::new()),
            slots: Vec::new(),
            max_half_open,
        }
    }

    /// Room for another number of half-open handshakes from now on.
    pub fn set_max(&mut self, max_half_open: usize) {
        self.max_half_open = max_half_open;
    }

    /// Before the Challenge: connection `number` takes a place; says whose connection gives way for it.
    ///
    /// # Errors
    /// `RateLimited`; `HalfOpenLimit` where every handshake in progress is an authentic one.
    pub fn admit(
        &mut self,
        number: u64,
        source: IpAddr,
        now_ns: i64,
    ) -> Result<Option<u64>, HandshakeError> {
        if !self.sources.take(source, now_ns) {
            let detail = format!("{source} dials too often");
            return Err(HandshakeError::new(Reason::RateLimited, detail));
        }
        let mut victim = None;
        if self.slots.len() >= self.max_half_open {
            let place = self.gives_way().ok_or_else(|| {
                let detail = format!("{} handshakes are unfinished", self.slots.len());
                HandshakeError::new(Reason::HalfOpenLimit, detail)
            })?;
            victim = Some(self.slots.remove(place).number);
        }
        self.slots.push(Slot {
            number,
            source,
            key: None,
        });
        Ok(victim)
    }

    /// Place of the oldest stranger of the source that holds the most.
    fn gives_way(&self) -> Option<usize> {
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        for slot in self.slots.iter().filter(|slot| !slot.is_authentic()) {
            *held.entry(slot.source).or_default() += 1;
        }
        let most = held.values().max()?;
        self.slots
            .iter()
            .position(|slot| !slot.is_authentic() && held.get(&slot.source) == Some(most))
    }

    /// After the Hello's MAC verified; says whose connection of the same drone, its oldest, gives way for it.
    ///
    /// # Errors
    /// `Evicted` when its place was taken already, `RateLimited`.
    pub fn admit_key(
        &mut self,
        number: u64,
        key: &DroneId,
        now_ns: i64,
    ) -> Result<Option<u64>, HandshakeError> {
        let Some(place) = self.slots.iter().position(|slot| slot.number == number) else {
            let detail = "the Hello came when its place was taken already";
            return Err(HandshakeError::new(Reason::Evicted, detail));
        };
        if !self.keys.take(*key, now_ns) {
            return Err(HandshakeError::new(
                Reason::RateLimited,
                "a drone dials too often",
            ));
        }
        self.slots[place].key = Some(*key);
        let is_own = |slot: &Slot| slot.key == Some(*key);
        if self.slots.iter().filter(|slot| is_own(slot)).count() <= MAX_OF_A_DRONE {
            return Ok(None);
        }
        let others = |slot: &Slot| is_own(slot) && slot.number != number;
        let oldest = self.slots.iter().position(others);
        Ok(oldest.map(|place| self.slots.remove(place).number))
    }

    /// After a handshake ended; false where it had been evicted.
    pub fn release(&mut self, number: u64) -> bool {
        let before = self.slots.len();
        self.slots.retain(|slot| slot.number != number);
        self.slots.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([198, 18, 0, last])
    }

    #[test]
    fn a_drone_that_dials_without_end_pushes_out_itself_alone() {
        let mut limits = Limits::new(64);
        for number in 1..=4 {
            assert_eq!(limits.admit(number, host(7), 0), Ok(None));
            assert_eq!(limits.admit_key(number, b"vehicle1", 0), Ok(None));
        }
        for (number, key, victim) in [
            (5, b"vehicle2", None),
            (6, b"vehicle1", Some(1)),
            (7, b"vehicle1", Some(2)),
        ] {
            assert_eq!(limits.admit(number, host(7), 0), Ok(None));
            assert_eq!(limits.admit_key(number, key, 0), Ok(victim));
        }
        assert!(limits.release(5) && !limits.release(1));
    }

    #[test]
    fn the_oldest_stranger_of_the_busiest_source_gives_way() {
        let mut limits = Limits::new(3);
        for (number, source) in [(1, 7), (2, 9), (3, 9)] {
            assert_eq!(limits.admit(number, host(source), 0), Ok(None));
        }
        assert_eq!(limits.admit(4, host(8), 0), Ok(Some(2)));
        let late = limits.admit_key(2, b"vehicle1", 0).map_err(|e| e.reason);
        assert_eq!(late, Err(Reason::Evicted));
        for number in [1, 3, 4] {
            assert_eq!(limits.admit_key(number, b"vehicle1", 0), Ok(None));
        }
        let full = limits.admit(5, host(8), 0).map_err(|e| e.reason);
        assert_eq!(full, Err(Reason::HalfOpenLimit));
        assert!(limits.release(3) && !limits.release(2));
        assert_eq!(limits.admit(6, host(8), 0), Ok(None));
    }

    #[test]
    fn tokens_run_out_and_come_back() {
        let mut limits = Limits::new(usize::MAX);
        let mut admitted = 0;
        while limits.admit(admitted, host(1), 0).is_ok() {
            admitted += 1;
        }
        assert_eq!(admitted, 4000);
        assert!(limits.admit(0, host(2), 0).is_ok(), "another source");
        assert!(limits.admit(0, host(1), 1_000_000).is_ok());
    }
}
