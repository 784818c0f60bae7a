//! Whatever the network sends: trains of any length and segment size are cut into datagrams that join to the train, and a
//! session never panics, counts every datagram exactly once, and lets nothing that is not authentic move its windows. The
//! input is a row of commands that make datagrams, noise and altered honest ones among them, and cut them into trains.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pq_core::aead::Algorithm;
use pq_core::counters::{Counter, Counters};
use pq_core::outcome::{EpochKeys, Role};
use pq_core::packet;
use pq_core::session::Session;
use pq_core::udp::Arrival;
use std::net::{Ipv4Addr, SocketAddrV4};

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::AesGcm,
    Algorithm::ChaCha20Poly1305,
    Algorithm::Ascon128a,
    Algorithm::AsconAead128,
];
const OUTCOMES: [Counter; 11] = [
    Counter::RxOk,
    Counter::RxKeepalive,
    Counter::RxEpochAck,
    Counter::RxRekeyRequest,
    Counter::RxPathChallenge,
    Counter::RxPathResponse,
    Counter::BadHeader,
    Counter::UnknownIndex,
    Counter::AuthFailed,
    Counter::Replay,
    Counter::OldEpoch,
];

fn install(session: &mut Session, algorithm: Algorithm, epoch: u32, now_ns: i64) {
    let key = vec![epoch as u8; algorithm.key_bytes()];
    let iv = vec![7; algorithm.nonce_bytes()];
    let index = epoch % 4;
    let role = session.role();
    // Refused while the index lives: then nothing has changed.
    let _ = session.install(
        &EpochKeys {
            role,
            algorithm,
            epoch,
            rx_index: index,
            tx_index: index,
            send: (&key, &iv),
            receive: (&key, &iv),
        },
        now_ns,
    );
}

/// Datagrams that the kernel hands over as one message: of `segment` bytes each, the last may be shorter.
#[derive(Default)]
struct Train {
    bytes: Vec<u8>,
    segment: usize,
}

impl Train {
    /// Cuts the train as the plane does and gives each datagram to `take`; nothing is left of it.
    fn cut(&mut self, mut take: impl FnMut(&mut [u8])) {
        let arrival = Arrival {
            offset: 0,
            length: self.bytes.len(),
            segment: self.segment,
            source: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1),
            stamp_ns: 1,
            dropped: None,
        };
        let mut end = 0;
        for (offset, length) in arrival.datagrams() {
            assert_eq!(offset, end, "no gap and no overlap");
            assert!(self.segment == 0 || length <= self.segment);
            assert!(length > 0 || arrival.length == 0);
            end += length;
            take(&mut self.bytes[offset..end]);
        }
        assert_eq!(end, arrival.length);
        self.bytes.clear();
        self.segment = 0;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, mut rest)) = data.split_first() else {
        return;
    };
    let algorithm = ALGORITHMS[usize::from(first & 3)];
    let (mut drone, mut gcs) = (Session::new(Role::Drone), Session::new(Role::Gcs));
    let (mut sent, mut seen) = (Counters::default(), Counters::default());
    let (mut now_ns, mut epoch, mut received) = (0_i64, 0_u32, 0_u64);
    install(&mut gcs, algorithm, 0, 0);
    install(&mut drone, algorithm, 0, 0);
    let mut honest = Vec::new();
    let mut train = Train::default();
    while let Some((&command, tail)) = rest.split_first() {
        let length = usize::from(command >> 3).min(tail.len());
        let (body, tail) = tail.split_at(length);
        rest = tail;
        let mut datagram = match command & 7 {
            0 => body.to_vec(),
            1 => {
                now_ns += i64::from(body.first().copied().unwrap_or(1)) * 50_000_000;
                continue;
            }
            2 => {
                epoch += 1;
                install(&mut gcs, algorithm, epoch, now_ns);
                install(&mut drone, algorithm, epoch, now_ns);
                continue;
            }
            kind => {
                honest.clear();
                let sealed = if kind == 3 {
                    drone.seal_data(body, &mut honest, &mut sent).map(|_| ())
                } else {
                    let kind = body.first().copied().unwrap_or(packet::KEEPALIVE);
                    drone.seal_control(kind, body, &mut honest, &mut sent)
                };
                if sealed.is_err() {
                    continue;
                }
                let mut datagram = honest.clone();
                if kind > 5 {
                    let place = usize::from(body.last().copied().unwrap_or(0)) % datagram.len();
                    datagram[place] ^= 1 << (kind & 7);
                }
                datagram
            }
        };
        let mut take = |datagram: &mut [u8]| {
            let _ = gcs.receive(datagram, now_ns, &mut seen);
            received += 1;
            let counted: u64 = OUTCOMES.iter().map(|counter| seen.get(*counter)).sum();
            assert_eq!(counted, received, "each datagram has one outcome");
            assert!(seen.get(Counter::RxOk) <= sent.get(Counter::TxData));
        };
        // As the kernel does: a train grows by datagrams of one length; a shorter one ends it, and so does reading it.
        let size = datagram.len();
        if size > train.segment && !train.bytes.is_empty() {
            train.cut(&mut take);
        }
        let ends = size < train.segment || size == 0 || body.len() & 1 == 1;
        train.segment = train.segment.max(size);
        train.bytes.append(&mut datagram);
        if ends {
            // Now and then by a segment size that is not the sender's.
            if let Some(&first) = body.first().filter(|&&first| first & 7 == 7) {
                train.segment = usize::from(first >> 3);
            }
            train.cut(&mut take);
        }
    }
    // A fresh epoch still carries honest packets, whatever came before.
    epoch += 4;
    install(&mut gcs, algorithm, epoch, now_ns);
    install(&mut drone, algorithm, epoch, now_ns);
    if drone.epoch() == Some(epoch) {
        honest.clear();
        drone
            .seal_data(b"honest", &mut honest, &mut sent)
            .expect("seals");
        let opened = gcs.receive(&mut honest, now_ns, &mut seen);
        if gcs.epoch() == Some(epoch) {
            assert_eq!(opened.map(|packet| packet.length), Ok(6));
        }
    }
});
