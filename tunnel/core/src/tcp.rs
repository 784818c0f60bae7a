//! The queue of a listener: a fleet that dials at once after an outage must not overflow it.

use std::io;
use std::net::TcpListener;

/// Connections that may wait to be accepted; the kernel grants at most `net.core.somaxconn`. With the standard library's
/// 128, of 1,000 drones that dialled in one moment 151 believed to be connected and waited in vain.
const WAITING: i32 = 4096;

/// Let more connections wait than the standard library does.
///
/// # Errors
/// What the system said.
pub fn widen(listener: &TcpListener) -> io::Result<()> {
    socket2::SockRef::from(listener).listen(WAITING)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream};

    #[test]
    fn more_may_wait_than_the_standard_library_lets() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        widen(&listener).expect("widened");
        let to = listener.local_addr().expect("bound");
        let limit = std::time::Duration::from_millis(500);
        let mut waiting = Vec::new();
        while waiting.len() < 200 {
            match TcpStream::connect_timeout(&to, limit) {
                Ok(stream) => waiting.push(stream),
                Err(_) => break,
            }
        }
        assert_eq!(waiting.len(), 200);
    }
}
