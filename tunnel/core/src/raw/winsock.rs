//! Two settings of a Windows socket that neither `std` nor `socket2` offers.

use socket2::Socket;
use std::ffi::c_void;
use std::io;
use std::mem::size_of;
use std::os::windows::io::AsRawSocket;
use std::ptr;

const SOL_SOCKET: i32 = 0xffff;
/// `winsock2.h`: `(int)(~SO_REUSEADDR)`, and `SO_REUSEADDR` is 4.
const SO_EXCLUSIVEADDRUSE: i32 = !4;
/// `mswsock.h`: whether a receive fails with `WSAECONNRESET` after an ICMP port unreachable.
const SIO_UDP_CONNRESET: u32 = 0x9800_000c;

#[link(name = "ws2_32")]
extern "system" {
    fn setsockopt(socket: usize, level: i32, name: i32, value: *const c_void, length: i32) -> i32;
    fn WSAIoctl(
        socket: usize,
        code: u32,
        input: *const c_void,
        input_length: u32,
        output: *mut c_void,
        output_length: u32,
        returned: *mut u32,
        overlapped: *mut c_void,
        completion: *const c_void,
    ) -> i32;
}

/// Before `bind`: no other process may take this port while we have it, as any could by `SO_REUSEADDR`.
///
/// # Errors
/// What the system said.
pub fn claim(socket: &Socket) -> io::Result<()> {
    let on: i32 = 1;
    // SAFETY: the handle is open while `socket` is borrowed, and the system reads the four bytes of `on`.
    let result = unsafe {
        setsockopt(
            socket.as_raw_socket() as usize,
            SOL_SOCKET,
            SO_EXCLUSIVEADDRUSE,
            ptr::from_ref(&on).cast(),
            size_of::<i32>() as i32,
        )
    };
    told(result)
}

/// A refused datagram shall not fail the next receive (`WSAECONNRESET`, 10054).
///
/// # Errors
/// What the system said.
pub fn ignore_refusals(socket: &Socket) -> io::Result<()> {
    let off: i32 = 0;
    let mut returned = 0;
    // SAFETY: the handle is open while `socket` is borrowed; the system reads the four bytes of `off`, writes
    // `returned`, and keeps neither, because without an OVERLAPPED the call is over when it returns.
    let result = unsafe {
        WSAIoctl(
            socket.as_raw_socket() as usize,
            SIO_UDP_CONNRESET,
            ptr::from_ref(&off).cast(),
            size_of::<i32>() as u32,
            ptr::null_mut(),
            0,
            &raw mut returned,
            ptr::null_mut(),
            ptr::null(),
        )
    };
    told(result)
}

fn told(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
