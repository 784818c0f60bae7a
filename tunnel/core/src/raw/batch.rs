//! `recvmmsg` and `sendmmsg` with kernel receive times, drop counts and segmentation offload (Linux).
//!
//! One call moves up to [`BATCH`] messages, and one message up to 64 equal datagrams (`UDP_GRO` in,
//! `UDP_SEGMENT` out). Receiving waits for the first message only: a lone datagram is never held back.

use crate::udp::{Arrival, Sent, BATCH, BUFFER_BYTES, MAX_SEGMENTS};
use std::io::{self, IoSlice};
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

/// Room for the three control messages of a receive (24 + 32 + 24 bytes), aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 128]);

const fn payload_space(bytes: u32) -> usize {
    // SAFETY: arithmetic on a number; CMSG_SPACE touches no memory.
    unsafe { libc::CMSG_SPACE(bytes) as usize }
}

const _: () = assert!(
    payload_space(size_of::<libc::timespec>() as u32) + 2 * payload_space(4) <= 128,
    "control messages must fit"
);

/// Ask for one socket option; false where this kernel does not have it.
fn option(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> bool {
    // SAFETY: the descriptor is open while `socket` is borrowed, and the kernel reads four bytes of `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    result == 0
}

/// Ask for kernel receive times and drop counts; false where they cannot be had.
#[must_use]
pub fn enable_stamps(socket: &UdpSocket) -> bool {
    option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
        && option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// Ask for several equal datagrams in one message, both ways; false where the kernel cannot receive so.
#[must_use]
pub fn enable_gro(socket: &UdpSocket) -> bool {
    // A train must fit the path's MTU as the kernel believes it, and any ICMP message that quotes this socket may lower
    // that: one forged packet would end trains for good. With OMIT the interface's MTU counts, and what exceeds it is
    // fragmented as by default; routers with a smaller one fragment as well, because DF is not set.
    let omit = libc::IP_PMTUDISC_OMIT;
    let _ = option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, omit);
    let omit = libc::IPV6_PMTUDISC_OMIT;
    let _ = option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, omit);
    option(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)
}

/// Receive buffers of one thread. All memory the headers point to is owned here and never moves.
pub struct Receiver {
    headers: Vec<libc::mmsghdr>,
    slices: Vec<libc::iovec>,
    /// Of either family: that of IPv4 is the shorter one.
    names: Vec<libc::sockaddr_in6>,
    controls: Vec<Control>,
    buffer: Vec<u8>,
}

// SAFETY: the raw pointers in `headers` and `slices` point into this value's own heap blocks, which move with it
// from thread to thread and are reached through `&mut self` alone.
unsafe impl Send for Receiver {}

impl Default for Receiver {
    fn default() -> Self {
        // SAFETY: these are plain C structures of integers and pointers, for which all zeros is a valid value.
        let (header, name) = unsafe { (zeroed::<libc::mmsghdr>(), zeroed::<libc::sockaddr_in6>()) };
        let slice = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            headers: vec![header; BATCH],
            slices: vec![slice; BATCH],
            names: vec![name; BATCH],
            controls: vec![Control([0; 128]); BATCH],
            buffer: vec![0; BATCH * BUFFER_BYTES],
        }
    }
}

impl Receiver {
    /// Wait for a message, take what else is there already, and append an [`Arrival`] for each to `arrivals`.
    ///
    /// # Errors
    /// What the system call said.
    pub fn receive(&mut self, socket: &UdpSocket, arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        for place in 0..BATCH {
            self.slices[place] = libc::iovec {
                iov_base: self.buffer[place * BUFFER_BYTES..].as_mut_ptr().cast(),
                iov_len: BUFFER_BYTES,
            };
            let header = &mut self.headers[place].msg_hdr;
            header.msg_name = ptr::from_mut(&mut self.names[place]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            header.msg_iov = ptr::from_mut(&mut self.slices[place]);
            header.msg_iovlen = 1;
            header.msg_control = self.controls[place].0.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: every header was set above to memory of this value that is as long as it says; nothing else
        // reads or writes it during the call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_WAITFORONE as _,
                ptr::null_mut(),
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        for place in 0..count as usize {
            arrivals.push(self.arrival(place));
        }
        Ok(())
    }

    /// What the kernel wrote about message `place`.
    fn arrival(&self, place: usize) -> Arrival {
        let name = &self.names[place];
        let mut arrival = Arrival {
            offset: place * BUFFER_BYTES,
            length: self.headers[place].msg_len as usize,
            segment: 0,
            source: source(name),
            stamp_ns: 0,
            dropped: None,
        };
        let header = &self.headers[place].msg_hdr;
        // SAFETY: `header` is as the kernel left it, its control buffer is ours; CMSG_FIRSTHDR and CMSG_NXTHDR
        // stay within `msg_controllen`. A payload is read (unaligned) only if its length covers the type.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            while !message.is_null() {
                let (level, kind) = ((*message).cmsg_level, (*message).cmsg_type);
                let has = (*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(message);
                match (level, kind) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                        if has >= size_of::<libc::timespec>() =>
                    {
                        let time = data.cast::<libc::timespec>().read_unaligned();
                        arrival.stamp_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) if has >= 4 => {
                        arrival.dropped = Some(data.cast::<u32>().read_unaligned());
                    }
                    (libc::IPPROTO_UDP, libc::UDP_GRO) if has >= 4 => {
                        arrival.segment = data.cast::<i32>().read_unaligned().max(0) as usize;
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        arrival
    }

    /// The memory that [`Arrival::offset`] counts in.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

/// Send buffers of one thread.
pub struct Sender {
    headers: Vec<libc::mmsghdr>,
    controls: Vec<Control>,
    /// Datagrams up to this length may share a message; 0: the kernel cannot.
    segment_limit: usize,
}

// SAFETY: the pointers in `headers` are used only within `send`, which sets them anew.
unsafe impl Send for Sender {}

impl Default for Sender {
    fn default() -> Self {
        // SAFETY: a plain C structure, for which all zeros is a valid value.
        let header = unsafe { zeroed::<libc::mmsghdr>() };
        Self {
            headers: vec![header; BATCH],
            controls: vec![Control([0; 128]); BATCH],
            segment_limit: crate::packet::MAX_DATAGRAM_BYTES,
        }
    }
}

impl Sender {
    /// Send the first of `datagrams`, and as many after it as one call takes, in order; says how many the kernel
    /// accepted, at least one.
    ///
    /// # Errors
    /// What the system call said about the first datagram, which was not sent.
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        target: SocketAddr,
        datagrams: &[IoSlice<'_>],
    ) -> io::Result<Sent> {
        loop {
            let (result, first_train) = self.try_send(socket, target, datagrams);
            match result {
                Err(error) if first_train > 1 => {
                    // The device may not allow segments of this size: not again above it.
                    let refused = datagrams[0].len();
                    self.segment_limit = match error.raw_os_error() {
                        Some(libc::EINVAL | libc::EMSGSIZE) => refused - 1,
                        Some(libc::EIO | libc::EOPNOTSUPP | libc::ENOPROTOOPT) => 0,
                        _ => return Err(error),
                    };
                }
                other => return other,
            }
        }
    }

    fn try_send(
        &mut self,
        socket: &UdpSocket,
        target: SocketAddr,
        datagrams: &[IoSlice<'_>],
    ) -> (io::Result<Sent>, usize) {
        let (name, name_bytes) = named(target);
        let mut ends = [0_usize; BATCH];
        let (mut messages, mut next) = (0, 0);
        while messages < BATCH && next < datagrams.len() {
            let train = train_length(&datagrams[next..], self.segment_limit);
            let header = &mut self.headers[messages].msg_hdr;
            header.msg_name = ptr::from_ref(&name).cast_mut().cast();
            header.msg_namelen = name_bytes as libc::socklen_t;
            // IoSlice is guaranteed to have the layout of iovec.
            header.msg_iov = datagrams[next..].as_ptr().cast_mut().cast();
            header.msg_iovlen = train as _;
            header.msg_control = ptr::null_mut();
            header.msg_controllen = 0;
            if train > 1 {
                header.msg_control = self.controls[messages].0.as_mut_ptr().cast();
                header.msg_controllen = payload_space(2) as _;
                // SAFETY: the control buffer is ours, aligned, and longer than CMSG_SPACE(2), so the first
                // header exists and two bytes of payload fit behind it.
                unsafe {
                    let message = libc::CMSG_FIRSTHDR(header);
                    (*message).cmsg_level = libc::IPPROTO_UDP;
                    (*message).cmsg_type = libc::UDP_SEGMENT;
                    (*message).cmsg_len = libc::CMSG_LEN(2) as _;
                    let size = datagrams[next].len() as u16;
                    libc::CMSG_DATA(message).cast::<u16>().write_unaligned(size);
                }
            }
            next += train;
            ends[messages] = next;
            messages += 1;
        }
        // SAFETY: the first `messages` headers point to `name`, `datagrams` and `controls`, all of which live
        // through the call; the kernel only reads what msg_name, msg_iov and msg_control point to.
        let count = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                messages as libc::c_uint,
                0,
            )
        };
        let result = if count < 0 {
            Err(io::Error::last_os_error())
        } else {
            let accepted = (count as usize).checked_sub(1).map_or(0, |last| ends[last]);
            Ok(Sent { accepted })
        };
        (result, ends[0])
    }
}

// One structure serves both families: the port of both stands at the same place, and IPv4's address where IPv6 has its
// flow.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(libc::sockaddr_in, sin_port) == offset_of!(libc::sockaddr_in6, sin6_port));
    assert!(
        offset_of!(libc::sockaddr_in, sin_addr) == offset_of!(libc::sockaddr_in6, sin6_flowinfo)
    );
};

/// The sender that the kernel wrote.
fn source(name: &libc::sockaddr_in6) -> SocketAddr {
    let port = u16::from_be(name.sin6_port);
    if libc::c_int::from(name.sin6_family) == libc::AF_INET {
        return SocketAddr::from((Ipv4Addr::from(u32::from_be(name.sin6_flowinfo)), port));
    }
    let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
    SocketAddr::V6(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id))
}

/// `address` as the kernel reads it, and how much of it.
fn named(address: SocketAddr) -> (libc::sockaddr_in6, usize) {
    let mut name = libc::sockaddr_in6 {
        sin6_family: libc::AF_INET as libc::sa_family_t,
        sin6_port: address.port().to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
        sin6_scope_id: 0,
    };
    match address {
        SocketAddr::V4(address) => {
            name.sin6_flowinfo = u32::from(*address.ip()).to_be();
            (name, size_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(address) => {
            name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            name.sin6_addr.s6_addr = address.ip().octets();
            name.sin6_scope_id = address.scope_id();
            (name, size_of::<libc::sockaddr_in6>())
        }
    }
}

/// How many of the first datagrams may travel as one message: equal lengths, the last may be shorter.
fn train_length(datagrams: &[IoSlice<'_>], limit: usize) -> usize {
    let size = datagrams[0].len();
    if size == 0 || size > limit {
        return 1;
    }
    let most = MAX_SEGMENTS.min(crate::packet::MAX_DATAGRAM_BYTES / size);
    let mut train = 1;
    while train < most && train < datagrams.len() && datagrams[train].len() == size {
        train += 1;
    }
    if train < most && train < datagrams.len() && (1..size).contains(&datagrams[train].len()) {
        train += 1;
    }
    train
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_icmp_message_can_lower_what_a_train_may_hold() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let _ = enable_gro(&socket);
        let mut value: libc::c_int = -1;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes to `value`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                ptr::from_mut(&mut value).cast(),
                ptr::from_mut(&mut length),
            )
        };
        assert_eq!((result, value), (0, libc::IP_PMTUDISC_OMIT));
    }

    #[test]
    fn trains_are_equal_with_a_shorter_end() {
        let bytes = vec![0_u8; 60_000];
        let length = |sizes: &[usize], limit| {
            let slices: Vec<_> = sizes.iter().map(|s| IoSlice::new(&bytes[..*s])).collect();
            train_length(&slices, limit)
        };
        assert_eq!(length(&[100], 1472), 1);
        assert_eq!(length(&[100, 100, 100], 1472), 3);
        assert_eq!(length(&[100, 100, 50, 50], 1472), 3);
        assert_eq!(length(&[100, 101, 100], 1472), 1);
        assert_eq!(
            length(&[100, 0, 100], 1472),
            1,
            "an empty datagram is no segment"
        );
        assert_eq!(length(&[0, 0], 1472), 1);
        assert_eq!(length(&[1473, 1473], 1472), 1);
        assert_eq!(length(&[10, 10], 0), 1, "no offload");
        assert_eq!(length(&[100; 200], 1472), MAX_SEGMENTS);
        assert_eq!(length(&[30_000, 30_000, 30_000], 65_507), 2);
    }
}
