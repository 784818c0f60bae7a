//! The machines as a test drives them; prints keys, so it is no part of the product.
//!
//! ```text
//! oracle registry                              every suite: id, code, sizes, allowance
//! oracle pipe                                  machines by lines on stdin: `drone …`, `gcs …`, `start`, `frame HEX`, `time S`
//! oracle gcs ADDRESS COUNT key=value…          COUNT handshakes over TCP, one after another
//! oracle drone ADDRESS COUNT key=value…
//! oracle kem TOKEN                             one KEM by lines on stdin: `pair`, `encaps PUBLIC`, `decaps CIPHERTEXT`,
//!                                              the last with the newest pair, which is erased then
//! ```
//!
//! Keys of a machine: `suite=` (gcs: several, or 72), `id=`, `psk=`, `gcs=token:PUBLIC[:SECRET],…`, `level=`, `epoch=`,
//! `nonce=`, `index=`, `old=SESSION:EPOCH:SECRET[:DRONE]`, `sign=SECRET` (drone) or `drone_key=PUBLIC` (gcs), `early=CHALLENGE`
//! (drone: answer this frame first) or `given=NONCE` (gcs: an EarlyHello may answer it); and results
//! that take a primitive's place: `encaps=CIPHERTEXT:SHARED`, `pair=PUBLIC:SECRET`, `shared=`, `signature=`.

use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::established::{Established, RekeyBasis, RekeyFrom, SessionId};
use pq_link::gcs::{GcsHandshake, GcsSetup, Redeem};
use pq_link::hex;
use pq_link::identity::{GcsIdentity, GcsPublic, PskStore};
use pq_link::primitives::{HostPrimitives, KemPair, PrimitiveError, Primitives};
use pq_link::raw::clock::thread_cpu_ns;
use pq_link::registry::{kem_by_token, sig_by_token, Kem, Sig};
use pq_link::schedule::PskKeys;
use pq_link::secret::Secret;
use pq_link::stream::{converse, Passed};
use pq_link::suite::Suite;
use pq_link::wire::{Challenge, HEADER_BYTES};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

type Text = HashMap<String, String>;

/// This host's primitives, some of whose results are given.
struct Recorded {
    host: &'static HostPrimitives,
    given: Text,
}

impl Recorded {
    fn given(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        let parts = self.given.get(name)?.split(':');
        parts.map(hex::read).collect()
    }
}

impl Primitives for Recorded {
    fn provider(&self) -> String {
        self.host.provider()
    }

    fn supports(&self, suite: Suite) -> bool {
        self.host.supports(suite)
    }

    fn kem_pair(&self, kem: &'static Kem) -> Result<KemPair, PrimitiveError> {
        match self.given("pair") {
            Some(parts) => Ok(KemPair {
                public: parts[0].clone(),
                secret: Secret::copy_of(&parts[1]),
            }),
            None => self.host.kem_pair(kem),
        }
    }

    fn encapsulate(
        &self,
        kem: &'static Kem,
        public: &[u8],
    ) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        match self.given("encaps") {
            Some(parts) => Ok((parts[0].clone(), Secret::copy_of(&parts[1]))),
            None => self.host.encapsulate(kem, public),
        }
    }

    fn decapsulate(
        &self,
        kem: &'static Kem,
        pair: &KemPair,
        ciphertext: &[u8],
    ) -> Result<Secret, PrimitiveError> {
        self.host.decapsulate(kem, pair, ciphertext)
    }

    fn signing_pair(&self, sig: &'static Sig) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        self.host.signing_pair(sig)
    }

    fn sign(
        &self,
        sig: &'static Sig,
        secret: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, PrimitiveError> {
        match self.given("signature") {
            Some(parts) => Ok(parts[0].clone()),
            None => self.host.sign(sig, secret, message),
        }
    }

    fn verify(&self, sig: &'static Sig, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
        self.host.verify(sig, public, message, signature)
    }
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value)) // a test tool of a few machines
}

fn field<'a>(spec: &'a Text, name: &str) -> &'a str {
    spec.get(name).map_or("", |text| &text[..])
}

fn bytes(spec: &Text, name: &str) -> Vec<u8> {
    hex::read(field(spec, name)).unwrap_or_else(|| panic!("{name}= is not hexadecimal"))
}

fn fixed<const N: usize>(given: &[u8]) -> [u8; N] {
    given.try_into().unwrap_or_else(|_| panic!("{N} bytes"))
}

fn number(spec: &Text, name: &str) -> u32 {
    field(spec, name).parse().unwrap_or(0)
}

fn nonce(spec: &Text) -> [u8; 32] {
    let mut fresh = [0; 32];
    if spec.contains_key("nonce") {
        return fixed(&bytes(spec, "nonce"));
    }
    SystemRandom::new().fill(&mut fresh).expect("randomness");
    fresh
}

fn suites(spec: &Text) -> Vec<Suite> {
    if field(spec, "suite") == "72" {
        return Suite::all()
            .into_iter()
            .filter(Suite::is_of_the_72)
            .collect();
    }
    let ids = field(spec, "suite").split(',');
    ids.map(|id| Suite::by_id(id).unwrap_or_else(|| panic!("suite {id}")))
        .collect()
}

fn identity(spec: &Text) -> GcsIdentity {
    let (mut keys, mut secrets) = (Vec::new(), Vec::new());
    for entry in field(spec, "gcs").split(',') {
        let mut parts = entry.split(':');
        let sig = parts.next().and_then(sig_by_token).expect("a token");
        let mut key = || parts.next().and_then(hex::read);
        keys.push((sig, key().expect("a public key")));
        if let Some(secret) = key() {
            secrets.push((sig, Secret::copy_of(&secret)));
        }
    }
    GcsIdentity {
        public: GcsPublic::new(keys).expect("keys that fit"),
        secrets,
    }
}

fn old(spec: &Text) -> Option<(SessionId, u32, Vec<u8>, Vec<u8>)> {
    let parts: Vec<&str> = spec.get("old")?.split(':').collect();
    let session = fixed(&hex::read(parts[0])?);
    let drone = parts.get(3).and_then(|text| hex::read(text));
    Some((
        session,
        parts[1].parse().ok()?,
        hex::read(parts[2])?,
        drone.unwrap_or_default(),
    ))
}

fn psk(spec: &Text) -> PskKeys {
    PskKeys::derive(&fixed(&bytes(spec, "psk")))
}

struct Ends {
    host: &'static HostPrimitives,
}

impl Ends {
    fn primitives(&self, spec: &Text) -> &'static dyn Primitives {
        leak(Recorded {
            host: self.host,
            given: spec.clone(),
        })
    }

    fn drone(&self, spec: &Text) -> DroneHandshake<'static> {
        DroneHandshake::new(DroneSetup {
            suite: suites(spec)[0],
            drone_id: fixed(&bytes(spec, "id")),
            psk: leak(psk(spec)),
            trusted: leak(vec![identity(spec).public]),
            min_level: number(spec, "level") as u8,
            epoch: number(spec, "epoch"),
            primitives: self.primitives(spec),
            nonce: nonce(spec),
            rx_index: number(spec, "index"),
            rekey: old(spec).map(|(session_id, epoch, secret, _)| RekeyFrom {
                session_id,
                epoch,
                rekey_secret: Secret::copy_of(&secret),
            }),
            signing_key: spec
                .contains_key("sign")
                .then(|| &leak(bytes(spec, "sign"))[..]),
            early: spec.contains_key("early").then(|| {
                let frame = bytes(spec, "early");
                Challenge::parse(&frame[HEADER_BYTES..]).expect("a Challenge")
            }),
        })
    }

    fn gcs(&self, spec: &Text) -> GcsHandshake<'static> {
        let drone_key = spec
            .contains_key("drone_key")
            .then(|| bytes(spec, "drone_key"));
        let held = old(spec);
        let find = move |session: &SessionId| {
            let (id, epoch, secret, drone) = held.as_ref()?;
            (id == session).then(|| RekeyBasis {
                drone_id: fixed(drone),
                epoch: *epoch,
                rekey_secret: Secret::copy_of(secret),
            })
        };
        let store = PskStore::new(vec![(fixed(&bytes(spec, "id")), psk(spec))]);
        GcsHandshake::new(GcsSetup {
            identity: leak(identity(spec)),
            psks: leak(store.expect("randomness")),
            accepted: leak(suites(spec)),
            min_level: number(spec, "level") as u8,
            primitives: self.primitives(spec),
            nonce: nonce(spec),
            rx_index: number(spec, "index"),
            note_claim: leak(|_: &[u8; 8]| ()),
            admit_key: leak(|_: &[u8; 8]| Ok(())),
            rekey_basis: leak(find),
            drone_keys: drone_key.map(|key| -> pq_link::gcs::FindDroneKey<'static> {
                leak(move |_: &[u8; 8], _: &Sig| Some(key.clone()))
            }),
            redeem: spec.contains_key("given").then(|| -> Redeem<'static> {
                let given: [u8; 32] = fixed(&bytes(spec, "given"));
                leak(move |nonce: &[u8; 32]| {
                    let stale = || HandshakeError::new(Reason::StaleCookie, "another nonce");
                    (*nonce == given).then_some(()).ok_or_else(stale)
                })
            }),
        })
    }
}

fn shown(keys: &Established) -> String {
    let hexed = |bytes: &[u8]| hex::shown(bytes);
    format!(
        "suite={} epoch={} session_id={} peer={} handshake_id={} rx_index={} tx_index={} rekey={} send_key={} send_iv={} \
         receive_key={} receive_iv={} rekey_secret={} exporter={}",
        keys.suite.id(),
        keys.epoch,
        hexed(&keys.session_id),
        hexed(&keys.peer_key_id),
        hexed(&keys.handshake_id),
        keys.rx_index,
        keys.tx_index,
        keys.is_rekey(),
        hexed(&keys.send.key),
        hexed(&keys.send.iv),
        hexed(&keys.receive.key),
        hexed(&keys.receive.iv),
        hexed(&keys.rekey_secret),
        hexed(&keys.exporter),
    )
}

fn refusal(error: &HandshakeError) -> String {
    let (reason, counter) = (error.reason, error.reason.counter());
    let answer = hex::shown(&error.answer);
    format!("refused {reason:?} {counter} answer={answer}")
}

enum Either {
    Drone(DroneHandshake<'static>),
    Gcs(GcsHandshake<'static>),
}

macro_rules! both {
    ($machine:expr, $name:ident => $work:expr) => {
        match $machine {
            Either::Drone($name) => $work,
            Either::Gcs($name) => $work,
        }
    };
}

fn deliver(machine: &mut Either, frame: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    let header = fixed(&frame[..4]);
    let length = both!(machine, one => one.on_header(header))?;
    let body = &frame[4..frame.len().min(4 + length)];
    both!(machine, one => one.on_body(body))
}

fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Text {
    let pairs = words.filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn pipe(ends: &Ends) {
    let mut machine = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let outcome = match (command, &mut machine) {
            ("drone", _) => {
                machine = Some(Either::Drone(ends.drone(&parse(rest.split(' ')))));
                Ok(Vec::new())
            }
            ("gcs", _) => {
                machine = Some(Either::Gcs(ends.gcs(&parse(rest.split(' ')))));
                Ok(Vec::new())
            }
            ("start", Some(machine)) => both!(machine, one => one.start()),
            ("frame", Some(machine)) => deliver(machine, &hex::read(rest).expect("hexadecimal")),
            ("time", Some(machine)) => {
                let lasted = Duration::from_secs_f64(rest.parse().expect("seconds"));
                both!(machine, one => one.on_time(lasted)).map(|()| Vec::new())
            }
            (other, _) => panic!("{other}"),
        };
        let established = machine
            .as_mut()
            .and_then(|machine| both!(machine, one => one.take_established()));
        match (outcome, established) {
            (Ok(answer), Some(keys)) => println!("done {} {}", hex::shown(&answer), shown(&keys)),
            (Ok(answer), None) => println!("send {}", hex::shown(&answer)),
            (Err(error), _) => println!("{}", refusal(&error)),
        }
        std::io::stdout().flush().expect("flushed");
    }
}

fn over_tcp(ends: &Ends, role: &str, address: &str, count: usize, spec: &Text) {
    let listener = (role == "gcs").then(|| TcpListener::bind(address).expect("bound"));
    if let Some(listener) = &listener {
        println!("listening {}", listener.local_addr().expect("bound"));
        std::io::stdout().flush().expect("flushed");
    }
    let is_quiet = spec.contains_key("quiet");
    for place in 0..count {
        // The machine is made before the clock starts: reading its keys from text is no part of a handshake.
        let mut spec = spec.clone();
        let epoch = number(&spec, "epoch") + place as u32;
        spec.insert("epoch".to_owned(), epoch.to_string());
        let mut machine = if role == "gcs" {
            Either::Gcs(ends.gcs(&spec))
        } else {
            Either::Drone(ends.drone(&spec))
        };
        let accepted = listener.as_ref().map(|one| one.accept().expect("accepted"));
        let (before_ns, started) = (thread_cpu_ns(), Instant::now());
        let socket = accepted.map_or_else(
            || TcpStream::connect(address).expect("connected"),
            |(socket, _)| socket,
        );
        socket.set_nodelay(true).expect("set");
        let mut keys = None;
        let install = |established: Established, _: Duration| {
            keys = Some(established);
            Ok(())
        };
        let passed = Passed::default();
        let outcome = both!(&mut machine, one => converse(&socket, started, passed, one, install));
        let wall_ns = started.elapsed().as_nanos();
        let spent_ns = thread_cpu_ns() - before_ns;
        let told = keys.as_ref().map_or_else(String::new, shown);
        match outcome {
            Ok(()) if is_quiet => println!("wall_ns={wall_ns} cpu_ns={spent_ns}"),
            Ok(()) => println!("done wall_ns={wall_ns} {told}"),
            Err(error) => println!("{}", refusal(&error)),
        }
    }
}

fn registry() {
    for suite in Suite::all() {
        let (kem, sig) = (suite.kem, suite.sig);
        println!(
            "{} {} {} {} {} {} {} {} {}",
            suite.id(),
            hex::shown(&suite.code()),
            suite.level(),
            kem.public_bytes,
            kem.ciphertext_bytes,
            kem.shared_bytes,
            sig.public_bytes,
            sig.signature_bytes,
            suite.allowance_s(),
        );
    }
}

fn kem(ends: &Ends, token: &str) {
    let kem = kem_by_token(token).expect("a token");
    let mut held = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let given = line.split_once(' ').and_then(|(_, text)| hex::read(text));
        let (first, second) = match (&line[..], given) {
            ("pair", None) => {
                let pair = held.insert(ends.host.kem_pair(kem).expect("made"));
                (pair.public.clone(), Secret::copy_of(&pair.secret))
            }
            (ask, Some(public)) if ask.starts_with("encaps") => {
                ends.host.encapsulate(kem, &public).expect("made")
            }
            (_, ciphertext) => {
                let pair = held.take().expect("a pair");
                let ciphertext = ciphertext.expect("hexadecimal");
                let shared = ends.host.decapsulate(kem, &pair, &ciphertext);
                (ciphertext, shared.expect("made"))
            }
        };
        // Whoever reads the line may look at once: what is no longer needed is gone by then.
        let line = format!("{} {}", hex::shown(&first), hex::shown(&second));
        drop((first, second));
        println!("{line}");
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words[0] == "registry" {
        return registry();
    }
    let root = std::env::var("OQS_INSTALL_PATH").unwrap_or_else(|_| "/opt/liboqs".to_owned());
    let library = PathBuf::from(root).join("lib/liboqs.so");
    let host = leak(HostPrimitives::load(&library).expect("liboqs"));
    let ends = Ends { host };
    match &words[0][..] {
        "pipe" => pipe(&ends),
        "kem" => kem(&ends, &words[1]),
        role => {
            let spec = parse(words[3..].iter().map(|word| &word[..]));
            let count = words[2].parse().expect("a count");
            over_tcp(&ends, role, &words[1], count, &spec);
        }
    }
}
