//! Whatever the network sends: a session never panics, counts every datagram exactly once, and lets nothing that is not
//! authentic move its windows. The input is a train of length-prefixed datagrams, among them altered honest ones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pq_core::aead::Algorithm;
use pq_core::counters::{Counter, Counters};
use pq_core::outcome::{EpochKeys, Role};
use pq_core::packet;
use pq_core::session::Session;

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
        let _ = gcs.receive(&mut datagram, now_ns, &mut seen);
        received += 1;
        let counted: u64 = OUTCOMES.iter().map(|counter| seen.get(*counter)).sum();
        assert_eq!(counted, received, "each datagram has one outcome");
        assert!(seen.get(Counter::RxOk) <= sent.get(Counter::TxData));
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
