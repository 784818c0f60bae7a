//! Which of many sockets has something to read: Linux's epoll, for one thread that serves them all.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;

/// Sockets told of by one call.
const EVENTS: u16 = 64;

/// Watches sockets, each under a number of the caller's.
pub struct Poller(OwnedFd);

impl Poller {
    /// Watching none.
    ///
    /// # Errors
    /// The system has no descriptor to give.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes a flag, gives a descriptor or -1.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made above, is open, and nobody else holds it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Watch `socket` under `number`.
    ///
    /// # Errors
    /// What the system said.
    pub fn add(&self, socket: &UdpSocket, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: number,
        };
        self.control(libc::EPOLL_CTL_ADD, socket, &raw mut event)
    }

    /// Watch it no more.
    ///
    /// # Errors
    /// It was not watched.
    pub fn remove(&self, socket: &UdpSocket, _number: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, socket, ptr::null_mut())
    }

    fn control(
        &self,
        what: libc::c_int,
        socket: &UdpSocket,
        event: *mut libc::epoll_event,
    ) -> io::Result<()> {
        // SAFETY: both descriptors are open while their owners are borrowed; `event` is null only where the kernel
        // ignores it, else it lives through the call, which keeps a copy.
        let result =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, socket.as_raw_fd(), event) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Wait at most `limit_ms` for sockets that have something to read, and append their numbers to `ready`.
    ///
    /// # Errors
    /// What the system said; an interrupted call is none.
    pub fn wait(&self, limit_ms: u16, ready: &mut Vec<u64>) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS as usize];
        // SAFETY: the kernel writes at most EVENTS entries to `events`, which lives through the call.
        let count = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS.into(),
                limit_ms.into(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        }
        ready.extend(events[..count as usize].iter().map(|event| event.u64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn only_sockets_with_something_to_read_are_told() {
        let sockets = [0; 3].map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds"));
        let poller = Poller::new().expect("made");
        for (number, socket) in sockets.iter().enumerate() {
            poller.add(socket, number as u64).expect("added");
        }
        let mut ready = Vec::new();
        poller.wait(1, &mut ready).expect("waits");
        assert!(ready.is_empty());
        let to = sockets[1].local_addr().expect("bound");
        sockets[0].send_to(b"x", to).expect("sent");
        poller.wait(2_000, &mut ready).expect("waits");
        assert_eq!(ready, [1]);
        poller.remove(&sockets[1], 1).expect("removed");
        ready.clear();
        poller.wait(1, &mut ready).expect("waits");
        assert!(ready.is_empty(), "watched no more");
    }
}
