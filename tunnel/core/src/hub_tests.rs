//! Two drones at one hub: each hears its own, and what befalls one leaves the other as it was.

use super::*;
use crate::aead::Algorithm;
use crate::session::Session;

const HERE: Address = Address::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn keys(role: Role, tag: u8, epoch: u32, own: (u32, u32)) -> EpochKeys<'static> {
    // One byte names drone and direction; leaked, because a test has few of them.
    let key = |direction: u8| -> &'static [u8] { Box::leak(Box::new([tag ^ direction; 32])) };
    let (up, down) = ((key(0x10), &key(0x20)[..12]), (key(0x30), &key(0x40)[..12]));
    let is_gcs = role == Role::Gcs;
    EpochKeys {
        role,
        algorithm: Algorithm::AesGcm,
        epoch,
        rx_index: if is_gcs { own.0 } else { own.1 },
        tx_index: if is_gcs { own.1 } else { own.0 },
        send: if is_gcs { down } else { up },
        receive: if is_gcs { up } else { down },
    }
}

/// One drone with its application at the station.
struct Drone {
    peer: Arc<HubPeer>,
    application: UdpSocket,
    link: UdpSocket,
    session: Session,
    counters: Counters,
    hub: Address,
}

impl Drone {
    fn join(hub: &Hub, tag: u8) -> Self {
        let socket = || {
            let socket = UdpSocket::bind(HERE).expect("binds");
            let limit = Some(Duration::from_secs(20));
            socket.set_read_timeout(limit).expect("set");
            socket
        };
        let (application, link) = (socket(), socket());
        let peer = hub.add(HERE, local_address(&application)).expect("added");
        let mut drone = Self {
            peer,
            application,
            link,
            session: Session::new(Role::Drone),
            counters: Counters::default(),
            hub: hub.sealed_address(),
        };
        drone.install(hub, tag, 0);
        drone
    }

    fn install(&mut self, hub: &Hub, tag: u8, epoch: u32) {
        let own = (u32::from(tag) * 100 + epoch + 1, 7);
        let address = Some(local_address(&self.link));
        let own = (own.0, own.1 + epoch);
        let gcs = keys(Role::Gcs, tag, epoch, own);
        hub.install(&self.peer, &gcs, address, Duration::ZERO)
            .expect("installed");
        let drone = keys(Role::Drone, tag, epoch, own);
        self.session.install(&drone, 0).expect("installed");
    }

    fn send(&mut self, payload: &[u8]) {
        let mut datagram = Vec::new();
        self.session
            .seal_data(payload, &mut datagram, &mut self.counters)
            .expect("sealed");
        self.link.send_to(&datagram, self.hub).expect("sent");
    }

    /// What its application at the station gets next.
    fn heard(&self) -> Vec<u8> {
        let mut buffer = [0; 2048];
        let length = self.application.recv(&mut buffer).expect("arrives");
        buffer[..length].to_vec()
    }

    /// What the drone gets next that is data.
    fn told(&mut self) -> Vec<u8> {
        loop {
            let mut buffer = [0; 2048];
            let length = self.link.recv(&mut buffer).expect("arrives");
            let datagram = &mut buffer[..length];
            let opened = self.session.receive(datagram, 0, &mut self.counters);
            let opened = opened.expect("authentic");
            if opened.kind == packet::DATA {
                return buffer[8..8 + opened.length].to_vec();
            }
        }
    }

    fn tell(&self, payload: &[u8]) {
        let to = self.peer.plaintext_address();
        self.application.send_to(payload, to).expect("sent");
    }
}

#[test]
fn each_drone_has_its_own_application_and_one_leaves_without_the_other() {
    let hub = Hub::open(HERE, Instant::now()).expect("opened");
    let (mut a, mut b) = (Drone::join(&hub, 1), Drone::join(&hub, 2));
    for round in 0..3_u8 {
        a.send(&[b'a', round]);
        b.send(&[b'b', round]);
        assert_eq!(
            (a.heard(), b.heard()),
            (vec![b'a', round], vec![b'b', round])
        );
        a.tell(&[b'A', round]);
        b.tell(&[b'B', round]);
        assert_eq!((a.told(), b.told()), (vec![b'A', round], vec![b'B', round]));
    }
    assert!(a.peer.confirmed.is_set() && b.peer.confirmed.is_set());
    // What one drone seals is nothing under another's index.
    let mut forged = Vec::new();
    let sealed = a.session.seal_data(b"x", &mut forged, &mut a.counters);
    sealed.expect("sealed");
    let word = packet::first_word(packet::DATA, 0, 201);
    forged[..4].copy_from_slice(&word.to_be_bytes());
    a.link.send_to(&forged, a.hub).expect("sent");
    a.link.send_to(b"noise", a.hub).expect("sent");
    // The drone's next epoch, while the other's goes on.
    a.install(&hub, 1, 1);
    a.send(b"next");
    assert_eq!(a.heard(), b"next");
    let counted = |peer: &HubPeer, counter| locked(&peer.cell).counters.get(counter);
    assert_eq!(counted(&b.peer, Counter::AuthFailed), 1);
    assert_eq!(counted(&a.peer, Counter::AuthFailed), 0);
    assert_eq!(hub.strays().get(Counter::BadHeader), 1);
    hub.remove(&a.peer);
    a.send(b"late");
    b.send(b"still here");
    assert_eq!(b.heard(), b"still here");
    assert_eq!(hub.strays().get(Counter::UnknownIndex), 1);
    assert!(hub.index_is_free(101) && !hub.index_is_free(201));
    assert!(!hub
        .send_control(&a.peer, packet::KEEPALIVE, &[])
        .expect("a control type"));
}

#[test]
fn what_never_came_is_missing_and_what_comes_late_is_not() {
    let hub = Hub::open(HERE, Instant::now()).expect("opened");
    let mut a = Drone::join(&hub, 3);
    let mut datagrams: Vec<Vec<u8>> = (0..4_u8)
        .map(|number| {
            let mut datagram = Vec::new();
            let sealed = a
                .session
                .seal_data(&[number], &mut datagram, &mut a.counters);
            sealed.expect("sealed");
            datagram
        })
        .collect();
    let (last, _lost) = (datagrams.remove(3), datagrams.remove(2));
    a.link.send_to(&last, a.hub).expect("sent");
    assert_eq!(a.heard(), [3]);
    assert_eq!(a.peer.missing(), 3);
    for (number, datagram) in datagrams.iter().enumerate() {
        a.link.send_to(datagram, a.hub).expect("sent");
        assert_eq!(a.heard(), [number as u8]);
    }
    assert_eq!(a.peer.missing(), 1);
}

#[test]
fn an_index_is_one_drones_alone() {
    let hub = Hub::open(HERE, Instant::now()).expect("opened");
    let (a, b) = (Drone::join(&hub, 1), Drone::join(&hub, 2));
    let taken = keys(Role::Gcs, 2, 1, (101, 9));
    let refused = hub.install(&b.peer, &taken, None, Duration::ZERO);
    assert_eq!(refused, Err(InstallError::IndexTaken));
    hub.end_session(&a.peer);
    let now = hub.install(&b.peer, &taken, None, Duration::ZERO);
    assert_eq!(now, Ok(()));
}

#[test]
fn epochs_that_were_never_heard_displace_none_that_was() {
    let hub = Hub::open(HERE, Instant::now()).expect("opened");
    let mut a = Drone::join(&hub, 4);
    a.send(b"first");
    assert_eq!(a.heard(), b"first");
    for epoch in 1..=40 {
        let unheard = keys(Role::Gcs, 4, epoch, (401 + epoch, 7 + epoch));
        let taken = hub.install(&a.peer, &unheard, None, Duration::ZERO);
        assert_eq!(taken, Ok(()));
    }
    a.send(b"still here");
    assert_eq!(a.heard(), b"still here");
    assert!(!hub.index_is_free(401) && !hub.index_is_free(441));
    assert!(hub.index_is_free(402), "what was forgotten is free again");
}
