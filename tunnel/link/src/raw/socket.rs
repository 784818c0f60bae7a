//! A connected socket that another part of this process owns and closes: Python's, in the lab's agent.

use std::mem::ManuallyDrop;
use std::net::TcpStream;
#[cfg(unix)]
use std::os::fd::{FromRawFd as _, RawFd as Raw};
#[cfg(windows)]
use std::os::windows::io::{FromRawSocket as _, RawSocket as Raw};

/// Run `work` on the socket of this number, which stays the owner's: it is not closed here.
///
/// The owner keeps it for as long as `work` runs. One that it closes meanwhile gives an error at the next call, or, where
/// the number was given to another socket, that one's bytes: never memory of anybody.
pub fn with_lent<T>(number: Raw, work: impl FnOnce(&TcpStream) -> T) -> T {
    // SAFETY: a socket's number is no pointer; whatever it names, calls on it read and write buffers that are ours. It is
    // never closed here, so the owner's own close closes what it opened.
    #[cfg(unix)]
    let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(number) });
    // SAFETY: as above.
    #[cfg(windows)]
    let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_socket(number) });
    work(&socket)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_lent_socket_is_the_owners_before_and_after() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut owner = TcpStream::connect(address).expect("it listens");
        let (mut peer, _) = listener.accept().expect("it dialled");
        with_lent(owner.as_raw_fd(), |mut lent| lent.write_all(b"a")).expect("sent");
        owner.write_all(b"b").expect("still open");
        let mut heard = [0; 2];
        peer.read_exact(&mut heard).expect("both came");
        assert_eq!(&heard, b"ab");
    }
}
