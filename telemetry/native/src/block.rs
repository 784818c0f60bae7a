//! One block of samples: schedule, reading, record. The counts are those of `pqtelemetry.schedule` and
//! `pqtelemetry.power.loop`: expected = got + late + lost, and got + late = stored + stale + failed.

use crate::pace::Pace;
use crate::registers as reg;
use crate::registers::Registers;
use std::io;

const HALF_MS_NS: i64 = 500_000;
/// Flags of a record, as in `pqtelemetry.power.rawfile`.
const CLIPPED: u8 = 1;
const LATE: u8 = 4;

/// From register words to calibrated volts and amperes: true = gain × (reading − offset).
pub struct Scale {
    pub shunt_ohm: f64,
    /// End of the shunt's range in steps of 10 µV.
    pub full_scale: i32,
    pub current: (f64, f64),
    pub voltage: (f64, f64),
}

/// One pair of conversions. `clipped`: the range ended below the true value.
pub struct Reading {
    pub volts: f64,
    pub amps: f64,
    pub clipped: bool,
}

impl Scale {
    fn reading(&self, status: u16, shunt: u16) -> Reading {
        let counts = i32::from(shunt as i16);
        let shunt_a = f64::from(counts) * reg::SHUNT_LSB_V / self.shunt_ohm;
        let bus_v = f64::from(status >> 3) * reg::BUS_LSB_V;
        Reading {
            volts: self.voltage.0 * (bus_v - self.voltage.1),
            amps: self.current.0 * (shunt_a - self.current.1),
            clipped: counts.abs() >= self.full_scale || status & reg::OVERFLOW != 0,
        }
    }

    /// A fresh reading, or None when no conversion has finished since the last one.
    fn take(&self, chip: &mut dyn Registers) -> io::Result<Option<Reading>> {
        let status = chip.read(reg::BUS)?;
        if status & reg::READY == 0 {
            return Ok(None);
        }
        let shunt = chip.read(reg::SHUNT)?;
        chip.read(reg::POWER)?; // clears CNVR (§8.6.3.2)
        Ok(Some(self.reading(status, shunt)))
    }
}

/// A chip that never converts: what a loop costs that only wakes up.
pub struct Nothing;

impl Registers for Nothing {
    fn read(&mut self, _register: u8) -> io::Result<u16> {
        Ok(0)
    }
}

impl Scale {
    /// For a chip that is never read.
    #[must_use]
    pub fn none() -> Self {
        Self {
            shunt_ohm: 1.0,
            full_scale: 0,
            current: (1.0, 0.0),
            voltage: (1.0, 0.0),
        }
    }
}

/// The transfer that ended a block; its sample was taken and has no value.
#[derive(Clone, Debug)]
pub struct Failure {
    pub index: i64,
    pub now_ns: i64,
    pub lateness_ns: i64,
    pub errno: i32,
}

/// What became of the deadlines of one block.
#[derive(Default, Debug)]
pub struct Block {
    pub next_index: i64,
    pub got: u64,
    pub late: u64,
    pub lost: u64,
    pub stored: u64,
    pub stale: u64,
    pub within_half_ms: u64,
    pub clipped: u64,
    pub volts: f64,
    pub amps: f64,
    pub watts: f64,
    /// Records of 24 bytes as in `pqtelemetry.power.rawfile`.
    pub records: Vec<u8>,
    pub failure: Option<Failure>,
}

impl Block {
    /// Take deadlines from `from_index` up to `end_index`; sooner back at a signal or a failed transfer.
    ///
    /// # Errors
    /// When the kernel's timers fail.
    pub fn take(
        pace: &Pace,
        chip: &mut dyn Registers,
        scale: &Scale,
        from_index: i64,
        end_index: i64,
    ) -> io::Result<Self> {
        let mut block = Self {
            next_index: from_index,
            ..Self::default()
        };
        while block.next_index < end_index && block.failure.is_none() {
            let Some(now_ns) = pace.wait(block.next_index)? else {
                break;
            };
            block.sample(pace, chip, scale, now_ns);
        }
        Ok(block)
    }

    fn sample(&mut self, pace: &Pace, chip: &mut dyn Registers, scale: &Scale, now_ns: i64) {
        let index = (now_ns - pace.start_ns) / pace.period_ns;
        self.lost += (index - self.next_index) as u64;
        self.next_index = index + 1;
        let lateness_ns = now_ns - pace.deadline_ns(index);
        let late = 2 * lateness_ns > pace.period_ns;
        if late {
            self.late += 1;
        } else {
            self.got += 1;
        }
        self.within_half_ms += u64::from(lateness_ns <= HALF_MS_NS);
        match scale.take(chip) {
            Ok(Some(reading)) => self.store(now_ns, &reading, late, lateness_ns),
            Ok(None) => self.stale += 1,
            Err(error) => {
                self.failure = Some(Failure {
                    index,
                    now_ns,
                    lateness_ns,
                    errno: error.raw_os_error().unwrap_or(0),
                });
            }
        }
    }

    fn store(&mut self, now_ns: i64, reading: &Reading, late: bool, lateness_ns: i64) {
        let clipped = if reading.clipped { CLIPPED } else { 0 };
        let flags = clipped | if late { LATE } else { 0 };
        let late_ns = i32::try_from(lateness_ns).unwrap_or(i32::MAX);
        self.records.extend(now_ns.to_le_bytes());
        self.records.extend((reading.volts as f32).to_le_bytes());
        self.records.extend((reading.amps as f32).to_le_bytes());
        self.records.extend([flags, 0, 0, 0]);
        self.records.extend(late_ns.to_le_bytes());
        self.stored += 1;
        self.clipped += u64::from(reading.clipped);
        self.volts += reading.volts;
        self.amps += reading.amps;
        self.watts += reading.volts * reading.amps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::now_ns;

    /// Words that are played in turn; None is a transfer that fails.
    struct Played(Vec<Option<u16>>);

    impl Registers for Played {
        fn read(&mut self, _register: u8) -> io::Result<u16> {
            if self.0.is_empty() {
                return Err(io::Error::from_raw_os_error(5));
            }
            self.0
                .remove(0)
                .ok_or_else(|| io::Error::from_raw_os_error(121))
        }
    }

    const SCALE: Scale = Scale {
        shunt_ohm: 0.1,
        full_scale: 32_000,
        current: (2.0, 0.1),
        voltage: (1.0, 0.0),
    };

    fn taken(words: Vec<Option<u16>>, count: i64, period_ns: i64) -> Block {
        let pace = Pace::new(now_ns() + 1_000_000, period_ns).unwrap();
        Block::take(&pace, &mut Played(words), &SCALE, 0, count).unwrap()
    }

    #[test]
    fn a_reading_is_calibrated_and_kept_and_a_stale_one_is_not() {
        let fresh = vec![Some((1250 << 3) | reg::READY), Some(6_000), Some(0)];
        let clipped = vec![Some((1250 << 3) | reg::READY), Some(32_000), Some(0)];
        let words = [fresh, vec![Some(0)], clipped].concat();
        // Far enough apart that a busy machine skips none of the three.
        let block = taken(words, 3, 200_000_000);
        assert_eq!(block.next_index as u64, block.got + block.late + block.lost);
        assert_eq!((block.stale, block.stored, block.records.len()), (1, 2, 48));
        let amps = f32::from_le_bytes(block.records[12..16].try_into().unwrap());
        assert!((amps - 1.0).abs() < 1e-6, "2 × (0.6 A − 0.1 A)");
        let volts = f32::from_le_bytes(block.records[8..12].try_into().unwrap());
        assert!((volts - 5.0).abs() < 1e-6);
        assert_eq!(block.clipped, 1);
        assert_eq!(block.records[24 + 16] & CLIPPED, CLIPPED);
    }

    #[test]
    fn a_failed_transfer_ends_the_block_with_its_number() {
        let block = taken(vec![Some(reg::READY), None], 50, 1_000_000);
        let failure = block.failure.unwrap();
        assert_eq!(failure.errno, 121);
        assert_eq!((block.stored, failure.index), (0, block.next_index - 1));
    }

    #[test]
    fn deadlines_that_nobody_could_meet_are_lost() {
        let pace = Pace::new(now_ns() - 10_500_000, 1_000_000).unwrap();
        let block = Block::take(&pace, &mut Played(vec![Some(0)]), &SCALE, 0, 5).unwrap();
        assert!(block.lost >= 10);
        assert_eq!(block.next_index as u64, block.got + block.late + block.lost);
    }
}
