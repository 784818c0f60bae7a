//! Both machines against each other, with this host's primitives: every suite of the 72, and every message altered.
//!
//! Without liboqs (the feature `static-oqs`; else `OQS_INSTALL_PATH` or /opt/liboqs) there is nothing to run;
//! `PQ_REQUIRE_LIBOQS` makes that a failure.

use pq_core::session::Role;
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::established::{Established, RekeyBasis, RekeyFrom, SessionId};
use pq_link::gcs::{GcsHandshake, GcsSetup};
use pq_link::identity::{DroneId, GcsIdentity, GcsPublic, PskStore};
use pq_link::machine::{Machine, Side};
use pq_link::primitives::{HostPrimitives, Primitives};
use pq_link::registry::{KemKind, MATRIX_SIGS, SIGS};
use pq_link::schedule::PskKeys;
use pq_link::secret::Secret;
use pq_link::suite::Suite;
use pq_link::wire::ALERT;
use std::path::PathBuf;
use std::time::Duration;

const ID: DroneId = *b"vehicle1";
const PSK: [u8; 32] = [7; 32];

fn host() -> Option<HostPrimitives> {
    let root = std::env::var("OQS_INSTALL_PATH").unwrap_or_else(|_| "/opt/liboqs".to_owned());
    let library = PathBuf::from(root).join("lib/liboqs.so");
    let is_inside = cfg!(feature = "static-oqs");
    if !is_inside && !library.exists() && std::env::var_os("PQ_REQUIRE_LIBOQS").is_none() {
        eprintln!("left out: {} is not there", library.display());
        return None;
    }
    Some(HostPrimitives::load(&library).expect("liboqs loads"))
}

/// What one GCS and one drone hold, and the session that may be rekeyed.
struct Bench<'p> {
    primitives: &'p HostPrimitives,
    identity: GcsIdentity,
    psks: PskStore,
    psk: PskKeys,
    drone_pair: (Vec<u8>, Secret),
    trusted: [GcsPublic; 1],
    held: Option<(SessionId, u32, Vec<u8>)>,
}

impl<'p> Bench<'p> {
    fn new(primitives: &'p HostPrimitives, suite: Suite) -> Self {
        let (public, secret) = primitives.signing_pair(suite.sig).expect("made");
        let public = GcsPublic::new(vec![(suite.sig, public)]).expect("fits");
        Self {
            primitives,
            trusted: [public.clone()],
            identity: GcsIdentity {
                public,
                secrets: vec![(suite.sig, secret)],
            },
            psks: PskStore::new(vec![(ID, PskKeys::derive(&PSK))]).expect("random"),
            psk: PskKeys::derive(&PSK),
            drone_pair: primitives.signing_pair(suite.sig).expect("made"),
            held: None,
        }
    }

    /// One conversation; `tamper` gets each frame with its sender. The keys of both ends, or who refused and why.
    fn converse(
        &self,
        suite: Suite,
        options: Options,
        mut tamper: impl FnMut(Role, Vec<u8>) -> Vec<u8>,
    ) -> Result<(Established, Established), (Role, HandshakeError)> {
        let accepted = [options.accepts.unwrap_or(suite)];
        let nonces: [[u8; 32]; 2] = [[options.nonce; 32], [options.nonce.wrapping_add(1); 32]];
        let basis = |session: &SessionId| {
            let (id, epoch, secret) = self.held.as_ref()?;
            (id == session && options.gcs_holds).then(|| RekeyBasis {
                drone_id: ID,
                epoch: *epoch,
                rekey_secret: Secret::copy_of(secret),
            })
        };
        let drone_key = |_: &DroneId, _: &_| Some(self.drone_pair.0.clone());
        let admit = |_: &DroneId| Ok(());
        let mut gcs = GcsHandshake::new(GcsSetup {
            identity: &self.identity,
            psks: &self.psks,
            accepted: &accepted,
            min_level: 1,
            primitives: self.primitives,
            nonce: nonces[0],
            rx_index: 0x000A_0B0C,
            note_claim: &|_| (),
            admit_key: &admit,
            rekey_basis: &basis,
            drone_keys: if options.signs {
                Some(&drone_key)
            } else {
                None
            },
            redeem: None,
        });
        let from = self
            .held
            .as_ref()
            .map(|(session_id, epoch, secret)| RekeyFrom {
                session_id: *session_id,
                epoch: *epoch,
                rekey_secret: Secret::copy_of(secret),
            });
        let mut drone = DroneHandshake::new(DroneSetup {
            suite,
            drone_id: ID,
            psk: &self.psk,
            trusted: &self.trusted,
            min_level: 1,
            epoch: 7,
            primitives: self.primitives,
            nonce: nonces[1],
            rx_index: 0x000D_0E0F,
            rekey: from,
            signing_key: options.signs.then_some(&self.drone_pair.1[..]),
            early: None,
        });
        assert_eq!(drone.start(), Ok(Vec::new()));
        let mut frame = gcs.start().expect("starts");
        let (mut sender, mut keys) = (Role::Gcs, (None, None));
        while !frame.is_empty() {
            let passed = tamper(sender, frame);
            let (answer, receiver) = if sender == Role::Gcs {
                let answer = deliver(&mut drone, &passed);
                keys.0 = keys.0.or(drone.take_established());
                (answer, Role::Drone)
            } else {
                let answer = deliver(&mut gcs, &passed);
                keys.1 = keys.1.or(gcs.take_established());
                (answer, Role::Gcs)
            };
            frame = answer.map_err(|error| (receiver, error))?;
            sender = receiver;
        }
        assert!(drone.is_done() && gcs.is_done());
        Ok((keys.0.expect("drone's"), keys.1.expect("gcs's")))
    }
}

#[derive(Clone, Copy)]
struct Options {
    signs: bool,
    gcs_holds: bool,
    nonce: u8,
    /// The GCS's one suite, where it is not the drone's.
    accepts: Option<Suite>,
}

const PLAIN: Options = Options {
    signs: false,
    gcs_holds: true,
    nonce: 1,
    accepts: None,
};

/// One frame into a machine as a shell would; an ended machine stays ended and keeps no keys.
fn deliver<S: Side>(machine: &mut Machine<S>, frame: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    let mut header = [0; 4];
    header.copy_from_slice(&frame[..4]);
    let outcome = machine.on_header(header).and_then(|length| {
        let end = frame.len().min(4 + length);
        machine.on_body(&frame[4..end])
    });
    if let Err(error) = &outcome {
        assert_eq!(machine.refused(), Some(error.reason));
        assert!(machine.take_established().is_none() && !machine.is_done());
        for after in [
            machine.on_header(header).map(|_| ()),
            machine.on_body(&[]).map(|_| ()),
            machine.start().map(|_| ()),
        ] {
            assert_eq!(after.map_err(|error| error.reason), Err(Reason::Ended));
        }
    }
    outcome
}

fn agree(drone: &Established, gcs: &Established) {
    assert_eq!(*drone.send.key, *gcs.receive.key);
    assert_eq!(*drone.send.iv, *gcs.receive.iv);
    assert_eq!(*drone.receive.key, *gcs.send.key);
    assert_eq!(*drone.receive.iv, *gcs.send.iv);
    assert_eq!(*drone.rekey_secret, *gcs.rekey_secret);
    assert_eq!(*drone.exporter, *gcs.exporter);
    assert_ne!(*drone.send.key, *drone.receive.key);
    assert_eq!(drone.session_id, gcs.session_id);
    assert_eq!(drone.handshake_id, gcs.handshake_id);
    assert_eq!(
        (drone.tx_index, drone.rx_index),
        (gcs.rx_index, gcs.tx_index)
    );
}

fn untouched(_: Role, frame: Vec<u8>) -> Vec<u8> {
    frame
}

fn agree_in_all(suites: &[Suite]) {
    let Some(primitives) = host() else { return };
    std::thread::scope(|scope| {
        for part in 0..4 {
            let primitives = &primitives;
            scope.spawn(move || {
                for suite in suites.iter().skip(part).step_by(4) {
                    let bench = Bench::new(primitives, *suite);
                    let keys = bench.converse(*suite, PLAIN, untouched);
                    let (drone, gcs) = keys.unwrap_or_else(|e| panic!("{}: {e:?}", suite.id()));
                    agree(&drone, &gcs);
                }
            });
        }
    });
}

fn all_where(is_wanted: fn(&Suite) -> bool) -> Vec<Suite> {
    Suite::all().into_iter().filter(is_wanted).collect()
}

#[test]
fn every_suite_of_the_72_agrees_on_keys() {
    let matrix = all_where(Suite::is_of_the_72);
    assert_eq!(matrix.len(), 72);
    agree_in_all(&matrix);
}

#[test]
fn every_suite_of_the_other_hqc_agrees_on_keys() {
    let newer = all_where(|suite| suite.kem.kind == KemKind::HqcV5);
    assert_eq!(newer.len(), 24);
    agree_in_all(&newer);
}

/// Neither HQC is taken for the other, though both have three names that differ little, and ciphertexts of one length.
#[test]
fn a_station_refuses_the_hqc_that_it_was_not_told_of() {
    let Some(primitives) = host() else { return };
    let both = [
        named("cs-hqc128-aesgcm-mldsa44"),
        named("xs-hqc128v5-aesgcm-mldsa44"),
    ];
    let bench = Bench::new(&primitives, both[0]);
    for (offered, accepted) in [(both[0], both[1]), (both[1], both[0])] {
        let options = Options {
            accepts: Some(accepted),
            ..PLAIN
        };
        let (who, error) = bench
            .converse(offered, options, untouched)
            .expect_err("refused");
        assert_eq!((who, error.reason), (Role::Gcs, Reason::Policy));
    }
}

#[test]
fn suites_beside_the_72_agree_where_this_host_has_them() {
    let Some(primitives) = host() else { return };
    let mut tried = 0;
    for suite in Suite::all() {
        let is_light = !suite.kem.token.starts_with("classic") && suite.sig.signature_bytes < 7000;
        if suite.is_of_the_72() || !primitives.supports(suite) || !is_light {
            continue;
        }
        let bench = Bench::new(&primitives, suite);
        let (drone, gcs) = bench
            .converse(suite, PLAIN, untouched)
            .expect("both complete");
        agree(&drone, &gcs);
        tried += 1;
    }
    assert!(tried >= 20, "{tried}");
}

fn named(id: &str) -> Suite {
    Suite::by_id(id).expect("defined")
}

#[test]
fn a_rekey_mixes_the_old_secret_in_and_a_forgetful_gcs_says_so() {
    let Some(primitives) = host() else { return };
    let suite = named("cs-mlkem768-aesgcm-mldsa65");
    let mut bench = Bench::new(&primitives, suite);
    let (first, _) = bench.converse(suite, PLAIN, untouched).expect("complete");
    bench.held = Some((first.session_id, 6, first.rekey_secret.to_vec()));
    let (drone, gcs) = bench.converse(suite, PLAIN, untouched).expect("complete");
    agree(&drone, &gcs);
    assert!(drone.is_rekey() && gcs.is_rekey() && drone.session_id != first.session_id);
    let mut options = PLAIN;
    options.gcs_holds = false;
    let (who, error) = bench
        .converse(suite, options, untouched)
        .expect_err("refused");
    assert_eq!((who, error.reason), (Role::Gcs, Reason::SessionUnknown));
    assert_eq!(error.answer.len(), 36);
    // Epochs only grow, whatever the drone says.
    bench.held = Some((first.session_id, 7, first.rekey_secret.to_vec()));
    let mut drone = DroneHandshake::new(DroneSetup {
        suite,
        drone_id: ID,
        psk: &bench.psk,
        trusted: &bench.trusted,
        min_level: 1,
        epoch: 7,
        primitives: &primitives,
        nonce: [0; 32],
        rx_index: 1,
        rekey: Some(RekeyFrom {
            session_id: first.session_id,
            epoch: 7,
            rekey_secret: Secret::zeros(32),
        }),
        signing_key: None,
        early: None,
    });
    assert_eq!(drone.start().map_err(|e| e.reason), Err(Reason::Policy));
}

/// Frames of one conversation, in order, with their senders.
fn recorded(bench: &Bench<'_>, suite: Suite, options: Options) -> Vec<(Role, Vec<u8>)> {
    let mut frames = Vec::new();
    let keys = bench.converse(suite, options, |sender, frame| {
        frames.push((sender, frame.clone()));
        frame
    });
    keys.expect("complete");
    frames
}

/// What may be said of a frame (by place) that was altered on the way, by either end.
const NAMED: [&[Reason]; 5] = [
    &[
        Reason::BadVersion,
        Reason::BadLength,
        Reason::UnpinnedGcs,
        Reason::BadMac,
    ],
    &[Reason::BadVersion, Reason::BadLength, Reason::BadMac],
    &[Reason::BadVersion, Reason::BadLength, Reason::BadSignature],
    &[Reason::BadVersion, Reason::BadLength, Reason::BadFinished],
    &[Reason::BadVersion, Reason::BadLength, Reason::BadFinished],
];

fn every_altered_message_is_refused(suite: Suite, options: Options, stride: usize) {
    let Some(primitives) = host() else { return };
    let bench = Bench::new(&primitives, suite);
    let lengths: Vec<usize> = recorded(&bench, suite, options)
        .iter()
        .map(|(_, frame)| frame.len())
        .collect();
    assert_eq!(lengths.len(), 5);
    let mut tried = 0;
    for (place, length) in lengths.iter().enumerate() {
        // Headers and short frames bit by bit, long ones one bit of each byte.
        let bits: Vec<usize> = (0..8 * length)
            .filter(|bit| {
                (bit / 8 < 16 || *length < 128 || bit % 8 == (bit / 8) % 8)
                    && (bit / 8 < 16 || (bit / 8) % stride == 0)
            })
            .collect();
        for bit in bits {
            let mut count = 0;
            let outcome = bench.converse(suite, options, |_, mut frame| {
                // A variable signature makes other lengths than the recorded ones.
                if count == place && bit / 8 < frame.len() {
                    frame[bit / 8] ^= 1 << (bit % 8);
                }
                count += 1;
                frame
            });
            tried += 1;
            match outcome {
                Err((_, error)) => {
                    let reason = error.reason;
                    let alert = place < 5 && reason == Reason::PeerAlert;
                    assert!(
                        NAMED[place].contains(&reason) || alert,
                        "frame {place}, bit {bit}: {reason:?}"
                    );
                }
                Ok(_) => panic!("frame {place}, bit {bit} was accepted"),
            }
        }
        for cut in [0, 1, length / 2, length - 5] {
            let mut count = 0;
            let outcome = bench.converse(suite, options, |_, mut frame| {
                if count == place {
                    frame.truncate(4 + cut);
                }
                count += 1;
                frame
            });
            let reason = outcome.map(|_| ()).map_err(|(_, error)| error.reason);
            assert_eq!(reason, Err(Reason::BadLength), "frame {place} cut to {cut}");
        }
    }
    assert!(tried > 100);
    // What was refused harmed nothing: the same identities and keys still agree.
    let (drone, gcs) = bench
        .converse(suite, options, untouched)
        .expect("both complete");
    agree(&drone, &gcs);
}

#[test]
fn every_altered_message_is_refused_by_name() {
    every_altered_message_is_refused(named("cs-mlkem512-aesgcm-mldsa44"), PLAIN, 3);
}

#[test]
fn every_altered_message_of_a_signing_drone_is_refused_by_name() {
    let mut options = PLAIN;
    options.signs = true;
    every_altered_message_is_refused(named("cs-mlkem768-aesgcm-mldsa65"), options, 29);
}

#[test]
fn replays_and_messages_of_the_wrong_role_are_refused_by_name() {
    let Some(primitives) = host() else { return };
    let suite = named("cs-mlkem512-chacha20poly1305-falcon512");
    let bench = Bench::new(&primitives, suite);
    let old = recorded(&bench, suite, PLAIN);
    let mut fresh = PLAIN;
    fresh.nonce = 100;
    let expected = [
        Reason::BadMac, // an old Challenge: the Hello answers another one than the GCS's
        Reason::BadMac,
        Reason::BadSignature,
        Reason::BadFinished,
        Reason::BadFinished,
    ];
    for (place, reason) in expected.into_iter().enumerate() {
        let mut count = 0;
        let outcome = bench.converse(suite, fresh, |_, frame| {
            count += 1;
            if count == place + 1 {
                old[place].1.clone()
            } else {
                frame
            }
        });
        // A Falcon signature has one of many lengths: a recorded one may be refused by nothing else than what it says.
        assert_eq!(
            outcome.map(|_| ()).map_err(|(_, error)| error.reason),
            Err(reason),
            "frame {place}"
        );
    }
    for place in 0..5 {
        for (other, frame) in old.iter().enumerate() {
            if other == place {
                continue;
            }
            let mut count = 0;
            let outcome = bench.converse(suite, fresh, |_, passed| {
                count += 1;
                if count == place + 1 {
                    frame.1.clone()
                } else {
                    passed
                }
            });
            let reason = outcome.map(|_| ()).map_err(|(_, error)| error.reason);
            assert_eq!(reason, Err(Reason::BadLength), "{other} for {place}");
        }
        let mut count = 0;
        let outcome = bench.converse(suite, fresh, |_, passed| {
            count += 1;
            if count == place + 1 {
                ALERT.to_vec()
            } else {
                passed
            }
        });
        let reason = outcome.map(|_| ()).map_err(|(_, error)| error.reason);
        assert_eq!(reason, Err(Reason::PeerAlert), "alert for {place}");
    }
}

#[test]
fn time_is_an_input() {
    let Some(primitives) = host() else { return };
    let suite = named("cs-classicmceliece348864-aesgcm-falcon512");
    let bench = Bench::new(&primitives, suite);
    let mut drone = DroneHandshake::new(DroneSetup {
        suite,
        drone_id: ID,
        psk: &bench.psk,
        trusted: &bench.trusted,
        min_level: 1,
        epoch: 0,
        primitives: &primitives,
        nonce: [0; 32],
        rx_index: 1,
        rekey: None,
        signing_key: None,
        early: None,
    });
    let limit = Duration::from_secs(5 + 15 + 1);
    assert_eq!(drone.deadline(), limit);
    drone.start().expect("starts");
    assert_eq!(
        drone.on_time(limit.checked_sub(Duration::from_nanos(1)).expect("long")),
        Ok(())
    );
    let late = drone.on_time(limit).map_err(|error| error.reason);
    assert_eq!(late, Err(Reason::TimedOut));
    assert_eq!(drone.on_time(2 * limit), Ok(()), "ended once");
}

#[test]
fn random_frames_never_complete_a_handshake() {
    let Some(primitives) = host() else { return };
    let suite = named("cs-mlkem512-aesgcm-mldsa44");
    let bench = Bench::new(&primitives, suite);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..2_000 {
        let place = next() as usize % 5;
        let mut count = 0;
        let outcome = bench.converse(suite, PLAIN, |_, mut frame| {
            if count == place {
                // The right header before noise of the right length; or noise alone.
                let keep = if next() % 4 == 0 { 0 } else { 4 };
                for byte in &mut frame[keep..] {
                    *byte = next() as u8;
                }
            }
            count += 1;
            frame
        });
        assert!(outcome.is_err(), "noise in place of frame {place}");
    }
    assert_eq!(SIGS[..MATRIX_SIGS].len(), 8);
}
