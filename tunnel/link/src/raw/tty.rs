//! A serial port's settings, which `std` cannot make: raw bytes, a speed, a read that ends when the line is silent.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A read gives up after this many tenths of a second without a byte.
const SILENCE_TENTHS: libc::cc_t = 2;

/// Speeds that a port may have, in baud, and what the system calls them.
pub const SPEEDS: &[(u64, libc::speed_t)] = &[
    (9_600, libc::B9600),
    (19_200, libc::B19200),
    (38_400, libc::B38400),
    (57_600, libc::B57600),
    (115_200, libc::B115200),
    (230_400, libc::B230400),
    (460_800, libc::B460800),
    (500_000, libc::B500000),
    (921_600, libc::B921600),
    (1_000_000, libc::B1000000),
    (1_500_000, libc::B1500000),
    (2_000_000, libc::B2000000),
    (3_000_000, libc::B3000000),
];

/// Open a port for raw bytes: 8 bits, no parity, no flow control. A read returns nothing where the line is silent.
///
/// # Errors
/// What the system said; `InvalidInput`: a speed that is not in [`SPEEDS`].
pub fn open(path: &Path, baud: u64) -> io::Result<File> {
    let speed = SPEEDS.iter().find(|(known, _)| *known == baud);
    let (_, speed) = speed.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("no speed of {baud} baud"),
        )
    })?;
    let port = OpenOptions::new()
        .read(true)
        .write(true)
        // Not this program's terminal, and no wait for a carrier.
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
        .open(path)?;
    let descriptor = port.as_raw_fd();
    // SAFETY: a plain C structure for which zeros are valid; each call gets an open descriptor and that structure, writes
    // or reads no more than it, and keeps nothing.
    unsafe {
        let mut settings = zeroed::<libc::termios>();
        told(libc::tcgetattr(descriptor, &raw mut settings))?;
        libc::cfmakeraw(&raw mut settings);
        settings.c_cflag &= !(libc::CRTSCTS | libc::CSTOPB);
        settings.c_cflag |= libc::CLOCAL | libc::CREAD;
        settings.c_cc[libc::VMIN] = 0;
        settings.c_cc[libc::VTIME] = SILENCE_TENTHS;
        told(libc::cfsetspeed(&raw mut settings, *speed))?;
        told(libc::tcsetattr(
            descriptor,
            libc::TCSANOW,
            &raw const settings,
        ))?;
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        told(flags.min(0))?;
        told(libc::fcntl(
            descriptor,
            libc::F_SETFL,
            flags & !libc::O_NONBLOCK,
        ))?;
    }
    Ok(port)
}

fn told(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
