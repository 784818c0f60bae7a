//! What two planes on loopback do not show: a queue that is full, a batch that takes long.

use super::*;
use crate::cell::Cell;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

fn setup() -> Setup {
    Setup {
        role: Role::Drone,
        plain: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        sealed: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        peer: Some(ANYWHERE),
        routes: vec![Route {
            source: Ipv4Addr::LOCALHOST.into(),
            target: ANYWHERE,
        }],
        origin: (Instant::now(), 1),
    }
}

/// A socket that takes nothing more for two seconds. Loopback gives a UDP socket its room back at once; a TCP stream
/// that nobody reads stays full, and the call on it is the same.
fn full() -> (UdpSocket, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
    let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("opens");
    let (unread, _) = listener.accept().expect("opens");
    stream.set_nonblocking(true).expect("set");
    while stream.write(&[0; 8_192]).is_ok() {}
    stream.set_nonblocking(false).expect("set");
    let limit = Some(Duration::from_secs(2));
    stream.set_write_timeout(limit).expect("set");
    (UdpSocket::from(OwnedFd::from(stream)), unread)
}

#[test]
fn a_control_packet_does_not_wait_for_room() {
    let (sealed, _unread) = full();
    let plain = udp::bind(setup().plain).expect("binds");
    let plane = Plane {
        shared: Arc::new(Shared::new(setup(), plain, sealed)),
        threads: Vec::new(),
        stamped: false,
    };
    let cell = Cell::shared(Role::Drone, false);
    plane.attach(Some(Arc::clone(&cell)));
    let start = Instant::now();
    outgoing::send_one(&plane.shared, &cell, ANYWHERE, &[0; 8_192]);
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "it waited for room"
    );
    assert_eq!(locked(&cell).counters.get(Counter::QueueFull), 1);
    assert_eq!(locked(&cell).counters.get(Counter::OversizeLink), 0);
    assert_eq!(plane.take_notes().len(), 1);
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let give_up = Instant::now() + Duration::from_secs(5);
    while Instant::now() < give_up {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn the_link_is_not_silent_while_a_batch_is_in_hand() {
    let source = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
    let mut plane = Plane::new(setup()).expect("binds");
    plane.open().expect("starts");
    for socket in [plane.plaintext_address(), plane.sealed_address()] {
        let cell = Cell::shared(Role::Drone, false);
        plane.attach(Some(Arc::clone(&cell)));
        assert_eq!(plane.last_data_ns(), 0, "never");
        let at_work = locked(&cell); // its thread stands still with the batch
        source.send_to(b"batch", socket).expect("sends");
        assert!(
            eventually(|| plane.last_data_ns() > 0),
            "a batch is in hand"
        );
        let before = plane.last_data_ns();
        std::thread::sleep(Duration::from_millis(2));
        assert!(plane.last_data_ns() > before, "and still is");
        drop(at_work);
        assert!(
            eventually(|| plane.last_data_ns() == 0),
            "nothing was sealed or opened without keys"
        );
        let counters = &locked(&cell).counters;
        let booked = [
            Counter::Gated,
            Counter::WrongSource,
            Counter::BadHeader,
            Counter::UnknownIndex,
        ];
        assert_eq!(booked.map(|name| counters.get(name)).iter().sum::<u64>(), 1);
    }
}
