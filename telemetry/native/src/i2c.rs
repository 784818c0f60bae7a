//! One INA219 on a bus of Linux, by SMBus word transfers.

use crate::registers::Registers;
use i2cdev::core::I2CDevice;
use i2cdev::linux::{LinuxI2CDevice, LinuxI2CError};
use std::io;

/// SMBus sends the low byte first and the INA219 the high one, so every word is swapped.
pub struct I2c(LinuxI2CDevice);

impl I2c {
    /// # Errors
    /// When the node cannot be opened or the address is taken by a kernel driver.
    pub fn open(path: &str, address: u16) -> io::Result<Self> {
        LinuxI2CDevice::new(path, address).map(Self).map_err(plain)
    }
}

impl Registers for I2c {
    fn read(&mut self, register: u8) -> io::Result<u16> {
        self.0
            .smbus_read_word_data(register)
            .map(u16::swap_bytes)
            .map_err(plain)
    }
}

fn plain(error: LinuxI2CError) -> io::Error {
    match error {
        LinuxI2CError::Errno(number) => io::Error::from_raw_os_error(number),
        LinuxI2CError::Io(error) => error,
    }
}
