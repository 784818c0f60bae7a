//! A drone that comes back with its Hello first, at the machines: what a Retry leads to, and what an EarlyHello must not.

mod kit;

use kit::{suite, Toy};
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::gcs::{GcsHandshake, GcsSetup};
use pq_link::identity::{GcsIdentity, GcsPublic, PskStore};
use pq_link::machine::{Machine, Side};
use pq_link::primitives::Primitives as _;
use pq_link::schedule::PskKeys;
use pq_link::wire::{framed, Challenge, FrameType, HEADER_BYTES, RETRY};

const ID: [u8; 8] = *b"vehicle1";

struct Ends {
    toy: Toy,
    identity: GcsIdentity,
    trusted: [GcsPublic; 1],
    psk: PskKeys,
    psks: PskStore,
}

impl Ends {
    fn new() -> Self {
        let toy = Toy::default();
        let (public, secret) = toy.signing_pair(suite().sig).expect("made");
        let public = GcsPublic::new(vec![(suite().sig, public)]).expect("fits");
        Self {
            trusted: [public.clone()],
            identity: GcsIdentity {
                public,
                secrets: vec![(suite().sig, secret)],
            },
            psk: PskKeys::derive(&[7; 32]),
            psks: PskStore::new(vec![(ID, PskKeys::derive(&[7; 32]))]).expect("random"),
            toy,
        }
    }

    fn drone(&self, early: Option<Challenge>) -> DroneHandshake<'_> {
        DroneHandshake::new(DroneSetup {
            suite: suite(),
            drone_id: ID,
            psk: &self.psk,
            trusted: &self.trusted,
            min_level: 1,
            epoch: 0,
            primitives: &self.toy,
            nonce: self.toy.fresh(),
            rx_index: 7,
            rekey: None,
            signing_key: None,
            early,
        })
    }
}

/// A GCS that gave `given` to a connection which is gone, or remembers nothing.
fn with_gcs<T>(
    ends: &Ends,
    given: Option<[u8; 32]>,
    work: impl FnOnce(GcsHandshake<'_>) -> T,
) -> T {
    let redeem = |nonce: &[u8; 32]| {
        let stale = || HandshakeError::new(Reason::StaleCookie, "not given");
        (Some(*nonce) == given).then_some(()).ok_or_else(stale)
    };
    work(GcsHandshake::new(GcsSetup {
        identity: &ends.identity,
        psks: &ends.psks,
        accepted: &[suite()],
        min_level: 1,
        primitives: &ends.toy,
        nonce: ends.toy.fresh(),
        rx_index: 9,
        note_claim: &|_| (),
        admit_key: &|_| Ok(()),
        rekey_basis: &|_| None,
        drone_keys: None,
        redeem: given.is_some().then_some(&redeem),
    }))
}

fn deliver<S: Side>(machine: &mut Machine<S>, frame: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    let length = machine.on_header(frame[..HEADER_BYTES].try_into().expect("a header"))?;
    assert_eq!(length, frame.len() - HEADER_BYTES);
    machine.on_body(&frame[HEADER_BYTES..])
}

fn reason<T>(outcome: Result<T, HandshakeError>) -> Option<Reason> {
    outcome.err().map(|error| error.reason)
}

/// A drone that was told to come back: the Challenge that it answers first.
fn sent_away(ends: &Ends) -> Challenge {
    let mut drone = ends.drone(None);
    drone.start().expect("starts");
    let challenge = with_gcs(ends, None, |mut gcs| gcs.start().expect("starts"));
    deliver(&mut drone, &challenge).expect("a Hello");
    assert_eq!(reason(deliver(&mut drone, &RETRY)), Some(Reason::Retry));
    assert!(drone.take_established().is_none());
    drone.to_answer().cloned().expect("remembered")
}

#[test]
fn after_a_retry_the_hello_goes_first_and_both_ends_agree() {
    let ends = Ends::new();
    let challenge = sent_away(&ends);
    let mut drone = ends.drone(Some(challenge.clone()));
    let early = drone.start().expect("starts");
    assert_eq!(early.len(), HEADER_BYTES + 133);
    with_gcs(&ends, Some(challenge.nonce), |mut gcs| {
        let second = gcs.start().expect("starts");
        let server_hello = deliver(&mut gcs, &early).expect("right");
        assert_eq!(deliver(&mut drone, &second), Ok(Vec::new()), "passed over");
        let client_kem = deliver(&mut drone, &server_hello).expect("right");
        let finished = deliver(&mut gcs, &client_kem).expect("right");
        deliver(&mut drone, &finished).expect("right");
        let at_drone = drone.take_established().expect("complete");
        let at_gcs = gcs.take_established().expect("complete");
        assert_eq!(*at_drone.send.key, *at_gcs.receive.key);
        assert_eq!(*at_drone.rekey_secret, *at_gcs.rekey_secret);
        assert_eq!(at_drone.handshake_id, challenge.nonce[..8]);
        assert_eq!(at_drone.handshake_id, at_gcs.handshake_id);
    });
}

#[test]
fn a_second_retry_leads_to_the_newer_challenge() {
    let ends = Ends::new();
    let first = sent_away(&ends);
    let mut drone = ends.drone(Some(first.clone()));
    drone.start().expect("starts");
    let second = with_gcs(&ends, None, |mut gcs| gcs.start().expect("starts"));
    deliver(&mut drone, &second).expect("passed over");
    assert_eq!(reason(deliver(&mut drone, &RETRY)), Some(Reason::Retry));
    let to_answer = drone.to_answer().expect("remembered");
    assert_ne!(*to_answer, first);
    assert_eq!(to_answer.encode(), second);
}

#[test]
fn a_challenge_that_is_passed_over_is_a_pinned_stations_too() {
    let ends = Ends::new();
    let first = sent_away(&ends);
    let mut drone = ends.drone(Some(first.clone()));
    drone.start().expect("starts");
    let mut other = first;
    other.gcs_id[0] ^= 1;
    let found = reason(deliver(&mut drone, &other.encode()));
    assert_eq!(found, Some(Reason::UnpinnedGcs));
    assert!(drone.to_answer().is_none(), "nothing to come back with");
}

#[test]
fn an_early_hello_that_is_not_what_it_says_is_refused_before_anything_dear() {
    let ends = Ends::new();
    let challenge = sent_away(&ends);
    let early = ends.drone(Some(challenge.clone())).start().expect("starts");
    // Another nonce than was given; a GCS that remembers none.
    for (given, expected) in [
        (Some([9; 32]), Reason::StaleCookie),
        (None, Reason::BadLength),
    ] {
        let found = with_gcs(&ends, given, |mut gcs| {
            gcs.start().expect("starts");
            reason(deliver(&mut gcs, &early))
        });
        assert_eq!(found, Some(expected));
    }
    // A recorded Hello in an EarlyHello's frame: the MAC covers the frame's type.
    let mut drone = ends.drone(None);
    drone.start().expect("starts");
    let hello = deliver(&mut drone, &challenge.encode()).expect("a Hello");
    let relabelled = framed(
        FrameType::EarlyHello,
        &[&challenge.nonce, &hello[HEADER_BYTES..]],
    );
    let found = with_gcs(&ends, Some(challenge.nonce), |mut gcs| {
        gcs.start().expect("starts");
        reason(deliver(&mut gcs, &relabelled))
    });
    assert_eq!(found, Some(Reason::BadMac));
    // And every bit of an EarlyHello counts.
    for place in HEADER_BYTES..early.len() {
        let mut altered = early.clone();
        altered[place] ^= 1;
        let found = with_gcs(&ends, Some(challenge.nonce), |mut gcs| {
            gcs.start().expect("starts");
            reason(deliver(&mut gcs, &altered))
        });
        assert!(found.is_some(), "byte {place}");
    }
    let calls = ends.toy.fresh();
    with_gcs(&ends, Some(challenge.nonce), |mut gcs| {
        gcs.start().expect("starts");
        deliver(&mut gcs, &early).expect("the right one passes");
    });
    assert_ne!(calls, ends.toy.fresh());
}

#[test]
fn a_retry_is_for_whoever_awaits_a_server_hello() {
    let ends = Ends::new();
    let mut drone = ends.drone(None);
    drone.start().expect("starts");
    assert_eq!(reason(deliver(&mut drone, &RETRY)), Some(Reason::BadLength));
    with_gcs(&ends, None, |mut gcs| {
        gcs.start().expect("starts");
        assert_eq!(reason(deliver(&mut gcs, &RETRY)), Some(Reason::BadLength));
    });
}
