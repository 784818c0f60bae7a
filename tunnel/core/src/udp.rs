//! UDP sockets of the forwarder: batches where the kernel has them, one datagram a call elsewhere.

#[cfg(target_os = "linux")]
pub use crate::raw::batch::{Receiver, Sender};
#[cfg(not(target_os = "linux"))]
pub use portable::{Receiver, Sender};

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};

/// Messages of one system call.
pub const BATCH: usize = 32;
/// Datagrams of one message.
pub const MAX_SEGMENTS: usize = 64;
/// Room for one message.
pub const BUFFER_BYTES: usize = 65_536;
/// Asked for; the kernel grants at most `net.core.rmem_max`.
pub const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// One received message: one datagram, or several of `segment` bytes each (the last may be shorter).
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Where it begins in the receiver's buffer.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
    /// Bytes of each datagram in it; 0: it is one datagram.
    pub segment: usize,
    /// Sender.
    pub source: SocketAddr,
    /// Kernel receive time, realtime ns; 0 where the kernel gave none.
    pub stamp_ns: u64,
    /// Datagrams this socket's queue has dropped so far, modulo 2^32, where the kernel says it.
    pub dropped: Option<u32>,
}

impl Arrival {
    /// `(offset, length)` of each datagram.
    pub fn datagrams(&self) -> impl Iterator<Item = (usize, usize)> {
        let (offset, length) = (self.offset, self.length);
        let size = if self.segment == 0 {
            length.max(1)
        } else {
            self.segment
        };
        let count = length.div_ceil(size).max(1);
        (0..count).map(move |n| (offset + n * size, size.min(length - n * size)))
    }

    /// Receive time, realtime ns: the kernel's, else the clock's now.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        if self.stamp_ns == 0 {
            realtime_ns()
        } else {
            self.stamp_ns
        }
    }
}

/// What one send call did.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Datagrams that the kernel accepted, from the first on.
    pub accepted: usize,
}

/// Now, realtime ns.
#[must_use]
pub fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |duration| duration.as_nanos() as u64)
}

/// A bound socket with large buffers, whose port is nobody else's.
///
/// # Errors
/// What the system said.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        // `[::]` takes IPv4 as well, whatever this system's default is.
        socket.set_only_v6(false)?;
    }
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    #[cfg(windows)]
    {
        crate::raw::winsock::claim(&socket)?;
        crate::raw::winsock::ignore_refusals(&socket)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// `address` as a socket of this family names it: on IPv6 an IPv4 address is a mapped one.
#[must_use]
pub fn fitting(address: SocketAddr, is_ipv6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if is_ipv6 => SocketAddr::from((ip.to_ipv6_mapped(), address.port())),
        IpAddr::V6(_) if !is_ipv6 => canonical(address),
        _ => address,
    }
}

/// `address` as people write it: a mapped IPv4 address is an IPv4 address.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
        IpAddr::V6(_) => address, // with its scope
    }
}

/// Ask for kernel receive times and drop counts, and for several datagrams a message. True where the kernel stamps.
#[must_use]
pub fn enable(socket: &UdpSocket) -> bool {
    #[cfg(target_os = "linux")]
    {
        // Without it the kernel splits what the sender joined: slower, not different.
        let _ = crate::raw::batch::enable_gro(socket);
        crate::raw::batch::enable_stamps(socket)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        false
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod portable {
    use super::{Arrival, Sent, BUFFER_BYTES};
    use std::io::{self, IoSlice};
    use std::net::{SocketAddr, UdpSocket};

    /// One datagram a call.
    pub struct Receiver(Vec<u8>);

    impl Default for Receiver {
        fn default() -> Self {
            Self(vec![0; BUFFER_BYTES])
        }
    }

    impl Receiver {
        /// Wait for a datagram.
        ///
        /// # Errors
        /// What the system call said.
        pub fn receive(
            &mut self,
            socket: &UdpSocket,
            arrivals: &mut Vec<Arrival>,
        ) -> io::Result<()> {
            let (length, source) = socket.recv_from(&mut self.0)?;
            arrivals.push(Arrival {
                offset: 0,
                length,
                segment: 0,
                source,
                stamp_ns: 0,
                dropped: None,
            });
            Ok(())
        }

        /// The memory that `Arrival::offset` counts in.
        pub fn buffer(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    /// One datagram a call.
    #[derive(Default)]
    pub struct Sender;

    #[allow(clippy::unused_self)] // the batch sender's interface
    impl Sender {
        /// Send the first of `datagrams`.
        ///
        /// # Errors
        /// What the system call said.
        pub fn send(
            &mut self,
            socket: &UdpSocket,
            target: SocketAddr,
            datagrams: &[IoSlice<'_>],
        ) -> io::Result<Sent> {
            socket.send_to(&datagrams[0], target)?;
            Ok(Sent { accepted: 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn address(socket: &UdpSocket) -> SocketAddr {
        socket.local_addr().expect("bound")
    }

    fn local() -> UdpSocket {
        bound(Ipv4Addr::LOCALHOST.into())
    }

    fn bound(ip: IpAddr) -> UdpSocket {
        let socket = bind(SocketAddr::from((ip, 0))).expect("binds");
        socket
            .set_read_timeout(Some(std::time::Duration::from_secs(2)))
            .expect("set");
        socket
    }

    /// Has this kernel IPv6? Says so where it has not.
    fn has_ipv6() -> bool {
        let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
        if let Err(error) = &socket {
            eprintln!("left out: this kernel has no ::1 ({error})");
        }
        socket.is_ok()
    }

    #[test]
    fn a_bound_port_is_nobody_elses() {
        let socket = local();
        let taken = bind(address(&socket)).expect_err("it is taken");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_refused_datagram_fails_no_receive() {
        let (socket, gone) = (local(), local());
        let nobody = address(&gone);
        drop(gone);
        socket.send_to(b"to nobody", nobody).expect("sent");
        std::thread::sleep(std::time::Duration::from_millis(50));
        socket
            .send_to(b"to myself", address(&socket))
            .expect("sent");
        let mut room = [0; 16];
        let (length, _) = socket.recv_from(&mut room).expect("no refusal");
        assert_eq!(&room[..length], b"to myself");
    }

    #[test]
    fn an_address_fits_its_socket_and_is_shown_as_written() {
        let [four, six, mapped] = ["192.0.2.1:9", "[2001:db8::1]:9", "[::ffff:192.0.2.1]:9"]
            .map(|text| text.parse::<SocketAddr>().expect("an address"));
        assert_eq!(fitting(four, true), mapped);
        assert_eq!(fitting(mapped, false), four);
        assert_eq!((fitting(four, false), fitting(six, true)), (four, six));
        assert_eq!(canonical(mapped), four);
        assert_eq!(canonical(six), six);
    }

    #[test]
    fn order_and_boundaries_survive_ipv6() {
        if !has_ipv6() {
            return;
        }
        let sizes: Vec<usize> = [[100; 70], [40; 70]].concat();
        for portable_out in [false, true] {
            for portable_in in [false, true] {
                let [from, to] = [(); 2].map(|()| bound(Ipv6Addr::LOCALHOST.into()));
                pass(&sizes, &from, &to, portable_out, portable_in);
            }
        }
    }

    #[test]
    fn an_ipv6_socket_takes_ipv4_too() {
        if !has_ipv6() {
            return;
        }
        let (any, four) = (bound(Ipv6Addr::UNSPECIFIED.into()), local());
        let port = address(&any).port();
        four.send_to(b"over IPv4", (Ipv4Addr::LOCALHOST, port))
            .expect("sent");
        let (mut receiver, mut arrivals) = (Receiver::default(), Vec::new());
        receiver.receive(&any, &mut arrivals).expect("arrives");
        let source = arrivals[0].source;
        assert_eq!(source, fitting(address(&four), true));
        let answer = [IoSlice::new(b"back")];
        Sender::default()
            .send(&any, source, &answer)
            .expect("sends");
        let mut room = [0; 16];
        let (length, _) = four.recv_from(&mut room).expect("comes back");
        assert_eq!(&room[..length], b"back");
    }

    fn exchange(sizes: &[usize], portable_out: bool, portable_in: bool, offload: bool) {
        let (from, to) = (local(), local());
        // QEMU's user mode has no stamps, and the cross build says so; datagrams arrive in order there all the same.
        let stamped = enable(&to) || !cfg!(target_os = "linux");
        assert!(stamped || std::env::var_os("PQ_NO_KERNEL_STAMPS").is_some());
        if !offload {
            // A fresh socket without the option: the kernel splits what the sender joined.
            let plain = local();
            return pass(sizes, &from, &plain, portable_out, portable_in);
        }
        pass(sizes, &from, &to, portable_out, portable_in);
    }

    fn pass(
        sizes: &[usize],
        from: &UdpSocket,
        to: &UdpSocket,
        portable_out: bool,
        portable_in: bool,
    ) {
        let datagrams: Vec<Vec<u8>> = sizes
            .iter()
            .enumerate()
            .map(|(n, size)| (0..*size).map(|i| (n * 7 + i) as u8).collect())
            .collect();
        let slices: Vec<_> = datagrams.iter().map(|d| IoSlice::new(d)).collect();
        let (mut batch, mut single) = (Sender::default(), portable::Sender);
        let mut next = 0;
        while next < slices.len() {
            let rest = &slices[next..];
            let sent = if portable_out {
                single.send(from, address(to), rest)
            } else {
                batch.send(from, address(to), rest)
            };
            next += sent.expect("sends").accepted;
        }
        let (mut many, mut one) = (Receiver::default(), portable::Receiver::default());
        let mut got = Vec::new();
        while got.len() < datagrams.len() {
            let mut arrivals = Vec::new();
            let buffer = if portable_in {
                one.receive(to, &mut arrivals).expect("arrives");
                one.buffer()
            } else {
                many.receive(to, &mut arrivals).expect("arrives");
                many.buffer()
            };
            for arrival in &arrivals {
                assert_eq!(arrival.source, address(from));
                for (offset, length) in arrival.datagrams() {
                    got.push(buffer[offset..offset + length].to_vec());
                }
            }
        }
        assert_eq!(got, datagrams, "order and boundaries");
    }

    #[test]
    fn order_and_boundaries_survive_every_pairing() {
        let mixed: Vec<usize> = (0..150)
            .map(|n| [64, 64, 64, 40, 0, 280, 280, 1][n % 8])
            .collect();
        for sizes in [
            &[100; 130][..],
            &[1, 2, 3, 3, 3, 2],
            &[65_507, 65_507, 9],
            &mixed,
        ] {
            for portable_out in [false, true] {
                exchange(sizes, portable_out, false, true);
                exchange(sizes, portable_out, false, false);
                exchange(sizes, portable_out, true, false);
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn kernel_stamps_and_drops_are_read() {
        let (from, to) = (local(), local());
        assert!(enable(&to));
        // The first socket to ask makes the kernel switch its stamps on, a moment later.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let before = realtime_ns();
        from.send_to(b"x", address(&to)).expect("sends");
        std::thread::sleep(std::time::Duration::from_millis(30));
        let mut arrivals = Vec::new();
        let mut receiver = Receiver::default();
        receiver.receive(&to, &mut arrivals).expect("arrives");
        let stamp = arrivals[0].stamp_ns;
        assert!(
            before <= stamp && stamp < before + 25_000_000,
            "the kernel's time, not the reader's"
        );
        assert!(matches!(arrivals[0].dropped, None | Some(0)));

        socket2::SockRef::from(&to)
            .set_recv_buffer_size(4096)
            .expect("set");
        for _ in 0..200 {
            from.send_to(&[7; 100], address(&to)).expect("sends");
        }
        arrivals.clear();
        receiver.receive(&to, &mut arrivals).expect("arrives");
        let kept = arrivals.len() as u32;
        from.send_to(b"y", address(&to)).expect("sends");
        arrivals.clear();
        receiver.receive(&to, &mut arrivals).expect("arrives");
        let last = arrivals.last().expect("one");
        assert!(
            last.dropped.is_some_and(|n| n > 0 && n <= 200 - kept),
            "{last:?}"
        );
    }
}
