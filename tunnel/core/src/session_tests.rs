//! What the differential tests cannot reach from outside: limits that take 2^31 packets and more.

use super::*;
use crate::aead::Algorithm;

const SECOND: i64 = 1_000_000_000;

fn keys(role: Role, epoch: u32, indices: (u32, u32)) -> EpochKeys<'static> {
    const A: (&[u8], &[u8]) = (&[1; 32], &[2; 12]);
    const B: (&[u8], &[u8]) = (&[3; 32], &[4; 12]);
    let (send, receive) = match role {
        Role::Drone => (A, B),
        Role::Gcs => (B, A),
    };
    EpochKeys {
        role,
        algorithm: Algorithm::AesGcm,
        epoch,
        rx_index: indices.0,
        tx_index: indices.1,
        send,
        receive,
    }
}

struct Pair {
    drone: Session,
    gcs: Session,
    counters: Counters,
}

fn pair() -> Pair {
    let mut pair = Pair {
        drone: Session::new(Role::Drone),
        gcs: Session::new(Role::Gcs),
        counters: Counters::default(),
    };
    pair.gcs
        .install(&keys(Role::Gcs, 0, (20, 10)), 0)
        .expect("first");
    pair.drone
        .install(&keys(Role::Drone, 0, (10, 20)), 0)
        .expect("first");
    pair
}

impl Pair {
    fn sealed(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.drone
            .seal_data(b"payload", &mut out, &mut self.counters)
            .expect("seals");
        out
    }

    fn open(&mut self, datagram: &[u8], now_ns: i64) -> Result<Opened, Reason> {
        self.gcs
            .receive(&mut datagram.to_vec(), now_ns, &mut self.counters)
    }
}

#[test]
fn nothing_is_sealed_from_the_hard_stop_on() {
    let mut pair = pair();
    pair.drone.current.as_mut().expect("installed").sent = HARD_STOP_PACKETS - 1;
    let last = pair.sealed();
    assert_eq!(last[4..8], [0xFF, 0xFF, 0xFF, 0xFE]);
    let mut out = vec![7];
    let refused = pair.drone.seal_data(b"x", &mut out, &mut pair.counters);
    assert_eq!(refused, Err(SealError::Exhausted { epoch: 0 }));
    let refused = pair
        .drone
        .seal_control(packet::KEEPALIVE, b"", &mut out, &mut pair.counters);
    assert_eq!(refused, Err(SealError::Exhausted { epoch: 0 }));
    assert_eq!(out, [7]);
    assert_eq!(pair.counters.get(Counter::TxData), 1);
}

#[test]
fn rekey_is_due_by_packets_or_by_age() {
    let mut pair = pair();
    assert!(!pair.drone.rekey_due(REKEY_AGE_NS - 1));
    assert!(pair.drone.rekey_due(REKEY_AGE_NS));
    pair.drone.current.as_mut().expect("installed").sent = REKEY_PACKETS - 1;
    assert!(!pair.drone.rekey_due(0));
    pair.sealed();
    assert!(pair.drone.rekey_due(0));
}

#[test]
fn a_key_whose_tags_failed_too_often_opens_nothing() {
    let mut pair = pair();
    let good = pair.sealed();
    let mut forged = good.clone();
    forged[12] ^= 1;
    assert_eq!(pair.open(&forged, 1), Err(Reason::AuthFailed));
    assert_eq!(pair.gcs.failed_tags(), 1);
    pair.gcs.next.as_mut().expect("installed").failed_tags = FAILED_TAG_LIMIT;
    assert_eq!(pair.open(&good, 1), Err(Reason::AuthFailed));
    assert!(!pair.gcs.can_send());
    assert_eq!(pair.gcs.failed_tags(), FAILED_TAG_LIMIT);
}

#[test]
fn the_wire_sequence_may_wrap_at_the_receiver() {
    let mut pair = pair();
    for sequence in [(1 << 31) - 1, (1 << 32) - 3, (1 << 32) - 2] {
        pair.drone.current.as_mut().expect("installed").sent = sequence;
        let sealed = pair.sealed();
        assert_eq!(pair.open(&sealed, 1).map(|got| got.sequence), Ok(sequence));
    }
}

#[test]
fn three_epochs_live_and_the_fourth_ends_the_first() {
    let mut pair = pair();
    let first = pair.sealed();
    let late = pair.sealed();
    assert!(pair.open(&first, 1).is_ok());
    for (epoch, index) in [(1, 30), (2, 40)] {
        pair.gcs
            .install(&keys(Role::Gcs, epoch, (index, index + 1)), SECOND)
            .expect("free index");
    }
    assert!(
        pair.open(&late, 2 * SECOND).is_ok(),
        "current until the next is heard"
    );
    assert!(
        !pair.gcs.index_is_free(30),
        "replaced before it was heard, and remembered"
    );
    assert_eq!(
        pair.gcs.install(&keys(Role::Gcs, 3, (20, 9)), 0),
        Err(InstallError::IndexTaken)
    );
    assert_eq!(
        pair.gcs.install(&keys(Role::Drone, 3, (50, 9)), 0),
        Err(InstallError::WrongRole)
    );
    pair.gcs.close();
    assert!(!pair.gcs.can_send());
    assert_eq!(pair.open(&late, 2 * SECOND), Err(Reason::OldEpoch));
    assert!([20, 30, 40]
        .iter()
        .all(|index| !pair.gcs.index_is_free(*index)));
}

#[test]
fn the_previous_epoch_ends_on_time_without_a_packet() {
    let mut pair = pair();
    pair.drone
        .install(&keys(Role::Drone, 1, (30, 40)), SECOND)
        .expect("free index");
    pair.drone.expire(SECOND + RETIRE_NS);
    assert!(pair.drone.previous.is_some(), "late packets may still come");
    pair.drone.expire(SECOND + RETIRE_NS + 1);
    assert!(pair.drone.previous.is_none());
    assert!(!pair.drone.index_is_free(10), "remembered as ended");
    assert_eq!(pair.drone.epoch(), Some(1));
}
