//! The software INA219 of `pqtelemetry.ina219.model`, playing its square load in real time. Marked wherever it is
//! used: nothing it gives is a measurement.

use crate::pace;
use crate::registers as reg;
use crate::registers::Registers;
use std::io;

const SHUNT_NOISE_V: f64 = 10e-6;
const BUS_NOISE_V: f64 = 4e-3;

/// Volts and amperes of the rail at a time in seconds: 5.1 V; 0.6 A, then 1.0 A for half of each second.
fn load(t_s: f64) -> (f64, f64) {
    (5.1, if t_s % 1.0 >= 0.5 { 1.0 } else { 0.6 })
}

/// Registers that follow the load in continuous conversion; the clock is read at every access.
pub struct Model {
    shunt_ohm: f64,
    noise: Vec<f64>,
    drawn: usize,
    held_ns: Option<i64>,
    pub conversions: u64,
    config: u16,
    calibration: u16,
    cycle_s: f64,
    cycle_start_s: f64,
    ready: bool,
    overflow: bool,
    shunt: u16,
    bus: u16,
    current: i32,
    power: u16,
}

impl Model {
    /// A chip after its reset. `noise`: standard normal numbers, an even count and not none.
    #[must_use]
    pub fn new(shunt_ohm: f64, noise: Vec<f64>) -> Self {
        let mut model = Self {
            shunt_ohm,
            noise,
            drawn: 0,
            held_ns: None,
            conversions: 0,
            config: 0,
            calibration: 0,
            cycle_s: 0.0,
            cycle_start_s: 0.0,
            ready: false,
            overflow: false,
            shunt: 0,
            bus: 0,
            current: 0,
            power: 0,
        };
        model.reset();
        model
    }

    /// Let the model's time stand at `now_ns`; None lets it run.
    pub fn hold(&mut self, now_ns: Option<i64>) {
        self.held_ns = now_ns;
    }

    fn now_s(&self) -> f64 {
        self.held_ns.unwrap_or_else(pace::now_ns) as f64 / 1e9
    }

    fn reset(&mut self) {
        self.config = reg::CONFIG_AT_RESET;
        self.calibration = 0;
        (self.shunt, self.bus, self.current, self.power) = (0, 0, 0, 0);
        self.overflow = false;
        self.restart();
    }

    fn restart(&mut self) {
        self.cycle_s = reg::cycle_s(self.config);
        self.ready = false;
        self.cycle_start_s = self.now_s();
    }

    /// Configuration and calibration take a value, the rest is read-only.
    pub fn write(&mut self, register: u8, word: u16) {
        self.bring_up_to_date();
        if register == reg::CALIBRATION {
            self.calibration = word & 0xFFFE;
        } else if register == reg::CONFIG && word & reg::RESET != 0 {
            self.reset();
        } else if register == reg::CONFIG {
            self.config = word;
            self.restart();
        }
    }

    /// Finish every cycle that has ended by now; only the last one's values stay.
    fn bring_up_to_date(&mut self) {
        let since_s = self.now_s() - self.cycle_start_s;
        if since_s < self.cycle_s || self.config & 0b111 != reg::MODE_CONTINUOUS {
            return;
        }
        let finished = (since_s / self.cycle_s).floor();
        let start_s = self.cycle_start_s + (finished - 1.0) * self.cycle_s;
        self.cycle_start_s += finished * self.cycle_s;
        self.conversions += finished as u64;
        self.convert(start_s, self.cycle_s / 2.0);
    }

    /// One cycle that began at `start_s`: the shunt in its first half, the bus in its second.
    fn convert(&mut self, start_s: f64, half_s: f64) {
        let amps = load(start_s + half_s / 2.0).1;
        let volts = load(start_s + half_s * 1.5).0;
        let (first, second) = (self.noise[self.drawn], self.noise[self.drawn + 1]);
        self.drawn = (self.drawn + 2) % self.noise.len();
        let shunt_v = amps * self.shunt_ohm + first * SHUNT_NOISE_V;
        let full = reg::full_scale(self.config);
        let shunt = ((shunt_v / reg::SHUNT_LSB_V).round_ties_even() as i32).clamp(-full, full);
        let bus_v = volts + second * BUS_NOISE_V;
        let most = reg::bus_full_scale(self.config);
        let bus = ((bus_v / reg::BUS_LSB_V).round_ties_even() as i32).clamp(0, most);
        let current = shunt * i32::from(self.calibration) / 4096;
        let power = i64::from(current.abs()) * i64::from(bus) / 5000;
        self.overflow = !(-0x8000..=0x7FFF).contains(&current) || power > 0xFFFF;
        self.shunt = shunt as u16;
        self.bus = bus as u16;
        self.current = current.clamp(-0x8000, 0x7FFF);
        self.power = power.min(0xFFFF) as u16;
        self.ready = true;
    }
}

impl Registers for Model {
    fn read(&mut self, register: u8) -> io::Result<u16> {
        self.bring_up_to_date();
        match register {
            reg::BUS => {
                let ready = if self.ready { reg::READY } else { 0 };
                Ok((self.bus << 3) | ready | u16::from(self.overflow))
            }
            reg::SHUNT => Ok(self.shunt),
            reg::POWER => {
                self.ready = false;
                Ok(self.power)
            }
            reg::CONFIG => Ok(self.config),
            reg::CURRENT => Ok(self.current as u16),
            reg::CALIBRATION => Ok(self.calibration),
            _ => Err(io::Error::from_raw_os_error(6)), // ENXIO: no such register
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now_ns: i64) -> Model {
        let mut model = Model::new(0.1, vec![0.0; 8]);
        model.hold(Some(now_ns));
        model.write(reg::CONFIG, reg::RESET);
        model
    }

    #[test]
    fn it_behaves_as_the_chip_after_a_reset() {
        let mut model = at(0);
        assert_eq!(model.read(reg::CONFIG).unwrap(), reg::CONFIG_AT_RESET);
        model.write(reg::CALIBRATION, 1);
        assert_eq!(model.read(reg::CALIBRATION).unwrap(), 0);
        assert!(model.read(0x07).is_err());
    }

    #[test]
    fn a_conversion_is_ready_once() {
        let mut model = at(0);
        assert_eq!(model.read(reg::BUS).unwrap() & reg::READY, 0);
        model.hold(Some(2_000_000));
        let bus = model.read(reg::BUS).unwrap();
        assert_eq!((bus & reg::READY, bus >> 3), (reg::READY, 1275));
        assert_eq!(model.read(reg::SHUNT).unwrap(), 6_000);
        model.read(reg::POWER).unwrap();
        assert_eq!(model.read(reg::BUS).unwrap() & reg::READY, 0);
        model.hold(Some(700_000_000));
        model.read(reg::BUS).unwrap();
        assert_eq!(model.read(reg::SHUNT).unwrap(), 10_000);
    }

    #[test]
    fn a_range_too_small_ends_at_full_scale() {
        let mut model = at(0);
        model.write(reg::CONFIG, 0x0007); // 40 mV, 9 bit
        model.hold(Some(1_000_000));
        model.read(reg::BUS).unwrap();
        assert_eq!(model.read(reg::SHUNT).unwrap(), 4_000);
    }
}
