//! Registers of the INA219 that the loop needs (TI SBOS448G §8.6), and what their words mean.

use std::io;

pub const CONFIG: u8 = 0x00;
pub const SHUNT: u8 = 0x01;
pub const BUS: u8 = 0x02;
pub const POWER: u8 = 0x03;
pub const CURRENT: u8 = 0x04;
pub const CALIBRATION: u8 = 0x05;

pub const RESET: u16 = 0x8000;
pub const CONFIG_AT_RESET: u16 = 0x399F;
/// Shunt and bus voltage, one conversion after the other, without end.
pub const MODE_CONTINUOUS: u16 = 0b111;
/// CNVR of the bus register: conversions are complete; cleared by reading the power register.
pub const READY: u16 = 0b10;
/// OVF of the bus register: current or power is out of the calibrated range.
pub const OVERFLOW: u16 = 0b01;

pub const SHUNT_LSB_V: f64 = 10e-6;
pub const BUS_LSB_V: f64 = 4e-3;

/// Typical conversion times of one channel in µs (§7.5, Table 5), by field; bit 2 is ignored below 12 bit.
const PLAIN_US: [f64; 4] = [84.0, 148.0, 276.0, 532.0];
const AVERAGED_US: [f64; 8] = [
    532.0, 1_060.0, 2_130.0, 4_260.0, 8_510.0, 17_020.0, 34_050.0, 68_100.0,
];

/// One chip's 16-bit registers, in the chip's own byte order already put right.
pub trait Registers {
    /// The register's word.
    ///
    /// # Errors
    /// When the transfer fails.
    fn read(&mut self, register: u8) -> io::Result<u16>;
}

/// Full scale of the shunt in steps of 10 µV, from the configuration's gain: 40, 80, 160 or 320 mV.
#[must_use]
pub fn full_scale(config: u16) -> i32 {
    4_000 << ((config >> 11) & 0b11)
}

/// Full scale of the bus in steps of 4 mV: 16 or 32 V.
#[must_use]
pub fn bus_full_scale(config: u16) -> i32 {
    if config & 0x2000 == 0 {
        4_000
    } else {
        8_000
    }
}

/// Shunt and bus conversion, one after the other, typical, in seconds.
#[must_use]
pub fn cycle_s(config: u16) -> f64 {
    let field = (config >> 3) & 0xF;
    let one_us = if field & 0b1000 == 0 {
        PLAIN_US[usize::from(field & 0b11)]
    } else {
        AVERAGED_US[usize::from(field & 0b111)]
    };
    2.0 * one_us / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_times_follow_the_data_sheet() {
        assert_eq!(full_scale(CONFIG_AT_RESET), 32_000);
        assert_eq!(full_scale(0), 4_000);
        assert_eq!(bus_full_scale(CONFIG_AT_RESET), 8_000);
        assert!((cycle_s(CONFIG_AT_RESET) - 1_064e-6).abs() < 1e-12);
        assert!((cycle_s(0b0010 << 3) - 552e-6).abs() < 1e-12);
        assert!((cycle_s(0b1111 << 3) - 136_200e-6).abs() < 1e-9);
    }
}
