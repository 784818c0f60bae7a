//! Whatever a network does between two drones and a station under load: it cuts, alters, repeats and makes frames, lets
//! time pass and sends drones away with a Retry. The station's judgement of first frames, its cookies and both machines are the
//! product's; primitives are the tests' toys. A station goes on with a Hello that a drone has made for it, and with none
//! twice; an EarlyHello is taken at the source its Challenge was given to, within two lives of a secret; two ends of a
//! handshake that complete have the same keys.
#![no_main]

#[path = "../../tests/kit/mod.rs"]
mod kit;

use kit::{suite, Toy};
use libfuzzer_sys::fuzz_target;
use pq_link::cookie::{Cookies, SECRET_LIFE_NS};
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::established::SessionId;
use pq_link::first::{FirstFrame, Judge};
use pq_link::gcs::{GcsHandshake, GcsSetup};
use pq_link::identity::{DroneId, GcsIdentity, GcsPublic, PskStore};
use pq_link::machine::{Machine, Side};
use pq_link::primitives::Primitives as _;
use pq_link::schedule::PskKeys;
use pq_link::suite::Suite;
use pq_link::wire::{Challenge, FrameType, HEADER_BYTES, RETRY};
use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::OnceLock;

const IDS: [DroneId; 2] = [*b"vehicle1", *b"vehicle2"];
/// Connections of one input, at most.
const MOST: usize = 12;
type Nonce = [u8; 32];
/// Is this the nonce whose Hello was found right?
type Redeem<'a> = Box<dyn Fn(&Nonce) -> Result<(), HandshakeError> + 'a>;

struct Ends {
    toy: Toy,
    identity: GcsIdentity,
    trusted: [GcsPublic; 1],
    psk: [PskKeys; 2],
    psks: PskStore,
    accepted: [Suite; 1],
}

fn ends() -> &'static Ends {
    static ENDS: OnceLock<Ends> = OnceLock::new();
    ENDS.get_or_init(|| {
        let toy = Toy::default();
        let (public, secret) = toy.signing_pair(suite().sig).expect("made");
        let public = GcsPublic::new(vec![(suite().sig, public)]).expect("fits");
        let psk = |drone: u8| PskKeys::derive(&[drone + 1; 32]);
        Ends {
            trusted: [public.clone()],
            identity: GcsIdentity {
                public,
                secrets: vec![(suite().sig, secret)],
            },
            psk: [psk(0), psk(1)],
            psks: PskStore::new(vec![(IDS[0], psk(0)), (IDS[1], psk(1))]).expect("random"),
            accepted: [suite()],
            toy,
        }
    })
}

/// A socket that does not block, with `pending` in it.
struct Pending<'a>(&'a [u8]);

impl Read for Pending<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.0.len());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        into[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// One connection, as both ends and the network see it.
struct Connection<'a> {
    drone: usize,
    source: IpAddr,
    nonce: Nonce,
    heard: Option<FirstFrame>,
    at_gcs: Option<GcsHandshake<'a>>,
    at_drone: Option<DroneHandshake<'a>>,
    to_gcs: VecDeque<Vec<u8>>,
    to_drone: VecDeque<Vec<u8>>,
    slot: usize,
}

/// What the station knows, and what a witness saw.
struct Witness {
    cookies: Cookies,
    now_ns: i64,
    /// Each nonce that was given, to whom and when.
    given: HashMap<Nonce, (IpAddr, i64)>,
    /// First frames that drones made.
    made: HashSet<Vec<u8>>,
    /// First frames that were taken.
    taken: HashSet<Vec<u8>>,
    /// Keys by session id: of the station, of the drone.
    keys: HashMap<SessionId, [Option<Vec<u8>>; 2]>,
    recorded: Vec<Vec<u8>>,
    /// What each drone answers first when it comes back.
    to_answer: [Option<Challenge>; 2],
}

fn source(byte: u8) -> IpAddr {
    IpAddr::from([198, 18, 0, byte & 1])
}

fn deliver<S: Side>(machine: &mut Machine<S>, frame: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    let Some((header, body)) = frame.split_first_chunk::<HEADER_BYTES>() else {
        return Err(HandshakeError::new(Reason::ConnectionLost, "cut short"));
    };
    let length = machine.on_header(*header)?;
    let Some(body) = body.get(..length) else {
        return Err(HandshakeError::new(Reason::ConnectionLost, "cut short"));
    };
    machine.on_body(body)
}

impl Witness {
    fn dial<'a>(&mut self, drone: usize, from: u8, slot: usize) -> Connection<'a> {
        let (ends, source) = (ends(), source(from));
        let mut at_drone = DroneHandshake::new(DroneSetup {
            suite: suite(),
            drone_id: IDS[drone],
            psk: &ends.psk[drone],
            trusted: &ends.trusted,
            min_level: 1,
            epoch: 0,
            primitives: &ends.toy,
            nonce: ends.toy.fresh(),
            rx_index: 7,
            rekey: None,
            signing_key: None,
            early: self.to_answer[drone].take(),
        });
        let first = at_drone.start().expect("its own policy allows it");
        let nonce = self.cookies.nonce(source, self.now_ns).expect("random");
        assert!(self.given.insert(nonce, (source, self.now_ns)).is_none());
        let gcs_id = ends.identity.public.key_id;
        let mut to_gcs = VecDeque::new();
        if !first.is_empty() {
            self.made.insert(first.clone());
            to_gcs.push_back(first);
        }
        Connection {
            drone,
            source,
            nonce,
            heard: Some(FirstFrame::default()),
            at_gcs: None,
            at_drone: Some(at_drone),
            to_gcs,
            to_drone: VecDeque::from([Challenge { nonce, gcs_id }.encode()]),
            slot,
        }
    }

    /// Bytes arrive at the station.
    fn at_gcs<'a>(
        &mut self,
        one: &mut Connection<'a>,
        bytes: &[u8],
        answered: &'a [Cell<Nonce>],
        redeems: &'a [Redeem<'a>],
    ) {
        if let Some(mut heard) = one.heard.take() {
            match heard.read(&mut Pending(bytes)) {
                Ok(false) => one.heard = Some(heard),
                Ok(true) => self.first(one, heard, answered, redeems),
                Err(_) => one.to_drone.clear(),
            }
            return;
        }
        let Some(machine) = &mut one.at_gcs else {
            return;
        };
        match deliver(machine, bytes) {
            Ok(answer) => {
                if let Some(keys) = machine.take_established() {
                    self.completed(0, keys.session_id, &keys.receive.key);
                    one.at_gcs = None;
                }
                one.to_drone.push_back(answer);
            }
            Err(_) => one.at_gcs = None,
        }
    }

    fn first<'a>(
        &mut self,
        one: &mut Connection<'a>,
        heard: FirstFrame,
        answered: &'a [Cell<Nonce>],
        redeems: &'a [Redeem<'a>],
    ) {
        let ends = ends();
        let judge = Judge {
            cookies: &mut self.cookies,
            psks: &ends.psks,
            gcs_id: ends.identity.public.key_id,
            source: one.source,
            now_ns: self.now_ns,
        };
        let judged = heard.judge(judge, &one.nonce, &|_| ());
        let frame = heard.into_bytes();
        let Ok(right) = judged else { return };
        assert!(self.made.contains(&frame), "a Hello that no drone made");
        assert!(self.taken.insert(frame.clone()), "a Hello was taken twice");
        assert_eq!(
            frame[0] & 0xF == FrameType::EarlyHello as u8,
            right.is_early
        );
        let (to, since_ns) = self.given[&right.nonce];
        assert_eq!(to, one.source, "at another source");
        if right.is_early {
            assert!(self.now_ns - since_ns < 2 * SECRET_LIFE_NS, "too old");
            self.cookies.spend(&right.nonce);
        } else {
            assert_eq!(right.nonce, one.nonce);
        }
        answered[one.slot].set(right.nonce);
        let mut machine = GcsHandshake::new(GcsSetup {
            identity: &ends.identity,
            psks: &ends.psks,
            accepted: &ends.accepted,
            min_level: 1,
            primitives: &ends.toy,
            nonce: right.nonce,
            rx_index: 9,
            note_claim: &|_| (),
            admit_key: &|_| Ok(()),
            rekey_basis: &|_| None,
            drone_keys: None,
            redeem: Some(&*redeems[one.slot]),
        });
        machine.start().expect("starts");
        let answer = deliver(&mut machine, &frame).expect("it was found right");
        one.to_drone.push_back(answer);
        one.at_gcs = Some(machine);
    }

    /// A frame arrives at the drone.
    fn at_drone(&mut self, one: &mut Connection<'_>, frame: &[u8]) {
        let Some(machine) = &mut one.at_drone else {
            return;
        };
        let awaited = machine.awaited();
        match deliver(machine, frame) {
            Ok(answer) => {
                if let Some(keys) = machine.take_established() {
                    self.completed(1, keys.session_id, &keys.send.key);
                    one.at_drone = None;
                }
                if answer.is_empty() {
                    return;
                }
                if awaited == Some(FrameType::Challenge) {
                    self.made.insert(answer.clone());
                }
                one.to_gcs.push_back(answer);
            }
            Err(error) => {
                if error.reason == Reason::Retry {
                    assert_eq!(frame[..HEADER_BYTES], RETRY);
                    self.to_answer[one.drone] = machine.to_answer().cloned();
                    assert!(self.to_answer[one.drone].is_some());
                }
                assert!(machine.take_established().is_none());
                one.at_drone = None;
            }
        }
    }

    fn completed(&mut self, end: usize, id: SessionId, drone_key: &[u8]) {
        let both = self.keys.entry(id).or_default();
        assert!(both[end].replace(drone_key.to_vec()).is_none(), "twice");
        if end == 1 {
            assert!(both[0].is_some(), "a drone alone");
        }
        if let [Some(at_gcs), Some(at_drone)] = both {
            assert_eq!(at_gcs, at_drone, "different keys");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let answered: Vec<Cell<Nonce>> = (0..MOST).map(|_| Cell::new([0; 32])).collect();
    let redeems: Vec<Redeem> = answered
        .iter()
        .map(|right| -> Redeem {
            Box::new(move |nonce: &Nonce| {
                let stale = || HandshakeError::new(Reason::StaleCookie, "another one");
                (*nonce == right.get()).then_some(()).ok_or_else(stale)
            })
        })
        .collect();
    let mut witness = Witness {
        cookies: Cookies::new(0).expect("random"),
        now_ns: 0,
        given: HashMap::new(),
        made: HashSet::new(),
        taken: HashSet::new(),
        keys: HashMap::new(),
        recorded: Vec::new(),
        to_answer: [None, None],
    };
    let mut connections: Vec<Connection> = Vec::new();
    let mut rest = data;
    while let Some(([what, which, how, place], after)) = rest.split_first_chunk::<4>() {
        rest = after;
        if what & 15 == 0 || connections.is_empty() {
            if connections.len() < MOST {
                let slot = connections.len();
                connections.push(witness.dial(usize::from(which & 1), *how, slot));
            }
            continue;
        }
        if what & 15 == 1 {
            witness.now_ns += i64::from(*how) * 100_000_000;
            continue;
        }
        let count = connections.len();
        let one = &mut connections[usize::from(*which) % count];
        let to_gcs = what & 16 == 0;
        let queue = if to_gcs {
            &mut one.to_gcs
        } else {
            &mut one.to_drone
        };
        let mut frame = match what & 15 {
            // A frame that the network makes: of the rest of the input, so many bytes.
            2 => {
                let made = &rest[..usize::from(*how).min(rest.len())];
                rest = &rest[made.len()..];
                made.to_vec()
            }
            // One that it has seen.
            3 | 4 if !witness.recorded.is_empty() => {
                let at = usize::from(*how) % witness.recorded.len();
                witness.recorded[at].clone()
            }
            5 if !to_gcs => RETRY.to_vec(),
            6 => {
                // Cut.
                (one.at_gcs, one.at_drone, one.heard) = (None, None, None);
                continue;
            }
            _ => match queue.pop_front() {
                Some(frame) => frame,
                None => continue,
            },
        };
        if frame.len() <= 4096 {
            witness.recorded.push(frame.clone());
        }
        if matches!(what & 15, 4 | 7) && !frame.is_empty() {
            let at = usize::from(*place) % frame.len();
            frame[at] ^= how | 1;
        }
        if !to_gcs {
            witness.at_drone(one, &frame);
            continue;
        }
        // A first frame may come in pieces.
        let middle = if what & 32 == 0 || one.heard.is_none() {
            frame.len()
        } else {
            usize::from(*place) % (frame.len() + 1)
        };
        let (front, back) = frame.split_at(middle);
        witness.at_gcs(one, front, &answered, &redeems);
        if !back.is_empty() {
            witness.at_gcs(one, back, &answered, &redeems);
        }
    }
});
