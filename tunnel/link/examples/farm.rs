//! A farm of drones for tests: every drone of a station's folder, in one process, each with its own key, socket and
//! application.
//!
//! ```text
//! farm DRONES GCS_PUB HANDSHAKE SEALED SUITE PACKETS SPREAD_MS SEED [HOLD]
//! ```
//!
//! Each dials at a moment of its own within `SPREAD_MS` (drawn from `SEED`), dials again as `pqlink` does where that
//! fails, then sends `PACKETS` datagrams, each of which its application at the station sends back. One line of
//! `name=value` tells what happened. With `HOLD` the drones then keep their sessions until standard input ends.

use pq_core::counters::Counters;
use pq_core::packet;
use pq_core::session::{Role, Session};
use pq_link::config::{entries, Value};
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::Reason;
use pq_link::identity::GcsPublic;
use pq_link::keys;
use pq_link::primitives::{HostPrimitives, Primitives};
use pq_link::retry::Redial;
use pq_link::stream::{converse, Passed};
use pq_link::suite::Suite;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Datagrams of one drone that may be under way: a slow machine must not make them lost.
const OUTSTANDING: usize = 4;
/// A datagram that has not come back by then is lost; only a broken station takes so long.
const LOST_AFTER: Duration = Duration::from_secs(20);
const LISTEN: Duration = Duration::from_millis(20);
const KEEPALIVE: Duration = Duration::from_millis(100);

/// What all drones share.
struct Farm {
    trusted: Vec<GcsPublic>,
    primitives: HostPrimitives,
    handshake: SocketAddr,
    sealed: SocketAddr,
    suite: Suite,
    packets: usize,
    started: Instant,
    dialled: AtomicU64,
    /// Connections with the Hello first, after a Retry.
    early: AtomicU64,
    completed: AtomicU64,
    sent: AtomicU64,
    returned: AtomicU64,
    /// Datagrams that reached another drone's application, or came back changed.
    crossed: AtomicU64,
    over: AtomicBool,
}

struct Drone {
    key: keys::DroneKey,
    plaintext: SocketAddr,
    application: UdpSocket,
    delay: Duration,
}

/// splitmix64: arrivals that a seed repeats, nothing secret.
fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn fresh<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("randomness");
    bytes
}

fn read_drone(settings: &Path, delay: Duration) -> Drone {
    let text = std::fs::read_to_string(settings).expect("read");
    let held = entries(settings, &text).expect("settings");
    let address = |name: &str| -> SocketAddr {
        let found = held.iter().find(|entry| entry.key == name);
        match found.map(|entry| &entry.value) {
            Some(Value::Text(text)) => text.parse().expect("an address"),
            _ => panic!("{name} is missing"),
        }
    };
    let application = UdpSocket::bind(address("application")).expect("bound");
    application.set_read_timeout(Some(LISTEN)).expect("set");
    Drone {
        key: keys::drone(&settings.with_extension("key")).expect("a key"),
        plaintext: address("plaintext"),
        application,
        delay,
    }
}

impl Farm {
    /// Dial until it works; its session, and a socket for it.
    fn join(&self, drone: &Drone) -> (Session, UdpSocket) {
        let mut redial = Redial::default();
        let (mut early, mut again) = (None, false);
        loop {
            let now_ns = self.now_ns();
            if !redial.is_due(now_ns) && !again {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            if !std::mem::take(&mut again) {
                let [jitter] = fresh();
                redial.begun(now_ns, jitter);
                self.dialled.fetch_add(1, Ordering::Relaxed);
            }
            let started = Instant::now();
            let Ok(socket) = TcpStream::connect_timeout(&self.handshake, Duration::from_secs(3))
            else {
                continue;
            };
            socket.set_nodelay(true).expect("set");
            let [a, b, c] = fresh();
            let mut machine = DroneHandshake::new(DroneSetup {
                suite: self.suite,
                drone_id: drone.key.id,
                psk: &drone.key.psk,
                trusted: &self.trusted,
                min_level: 1,
                epoch: 0,
                primitives: &self.primitives,
                nonce: fresh(),
                rx_index: u32::from_be_bytes([0, a, b, c]),
                rekey: None,
                signing_key: None,
                early: early.take(),
            });
            let mut session = Session::new(Role::Drone);
            let now_ns = self.now_ns();
            let passed = Passed::default();
            let outcome = converse(&socket, started, passed, &mut machine, |keys, _| {
                session.install(&keys.epoch_keys(), now_ns).expect("taken");
                Ok(())
            });
            match outcome {
                Ok(()) => {
                    let link = UdpSocket::bind(("127.0.0.1", 0)).expect("bound");
                    link.set_read_timeout(Some(LISTEN)).expect("set");
                    return (session, link);
                }
                Err(error) if error.reason == Reason::Retry => {
                    early = machine.to_answer().cloned();
                    again = true;
                    self.early.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => eprintln!("farm: {error}"),
            }
        }
    }

    fn now_ns(&self) -> i64 {
        self.started.elapsed().as_nanos() as i64
    }

    /// One drone's life; how long it took until its session carried packets both ways.
    fn fly(&self, number: usize, drone: &Drone, hold: bool) -> Duration {
        std::thread::sleep(drone.delay);
        let begun = Instant::now();
        let (mut session, link) = self.join(drone);
        let mut at_work = Flight {
            farm: self,
            drone,
            link,
            counters: Counters::default(),
        };
        while !at_work.listen(&mut session, &mut |_| ()) {
            at_work.control(&mut session, packet::KEEPALIVE, &[]);
        }
        let joined = begun.elapsed();
        self.completed.fetch_add(1, Ordering::Relaxed);
        at_work.exchange(&mut session, number);
        let mut last = Instant::now();
        while hold && !self.over.load(Ordering::Relaxed) {
            at_work.listen(&mut session, &mut |_| ());
            if last.elapsed() >= KEEPALIVE * 5 {
                last = Instant::now();
                at_work.control(&mut session, packet::KEEPALIVE, &[]);
            }
        }
        joined
    }
}

struct Flight<'a> {
    farm: &'a Farm,
    drone: &'a Drone,
    link: UdpSocket,
    counters: Counters,
}

impl Flight<'_> {
    fn control(&mut self, session: &mut Session, kind: u8, payload: &[u8]) {
        let mut datagram = Vec::new();
        let sealed = session.seal_control(kind, payload, &mut datagram, &mut self.counters);
        sealed.expect("sealed");
        self.link
            .send_to(&datagram, self.farm.sealed)
            .expect("sent");
    }

    /// What comes within some milliseconds: data to `data`, challenges answered. True where something authentic came.
    fn listen(&mut self, session: &mut Session, data: &mut dyn FnMut(&[u8])) -> bool {
        let mut buffer = vec![0; 65_536];
        let Ok((length, _)) = self.link.recv_from(&mut buffer) else {
            return false;
        };
        let now_ns = self.farm.now_ns();
        let datagram = &mut buffer[..length];
        let Ok(opened) = session.receive(datagram, now_ns, &mut self.counters) else {
            return false;
        };
        let payload = &buffer[8..8 + opened.length];
        match opened.kind {
            packet::DATA => data(payload),
            packet::PATH_CHALLENGE => self.control(session, packet::PATH_RESPONSE, payload),
            _ => {}
        }
        true
    }

    /// Datagrams up, and each back down again.
    fn exchange(&mut self, session: &mut Session, number: usize) {
        let farm = self.farm;
        let (mut sent, mut last) = (0, Instant::now());
        let mut back = vec![false; farm.packets];
        let mut settled = 0;
        while settled < farm.packets && last.elapsed() < LOST_AFTER {
            while sent < farm.packets && sent - settled < OUTSTANDING {
                let payload = format!("drone {number} datagram {sent}");
                let mut datagram = Vec::new();
                let sealed =
                    session.seal_data(payload.as_bytes(), &mut datagram, &mut self.counters);
                sealed.expect("sealed");
                self.link.send_to(&datagram, farm.sealed).expect("sent");
                farm.sent.fetch_add(1, Ordering::Relaxed);
                sent += 1;
            }
            self.echo(number);
            let mut took = |payload: &[u8]| {
                let text = String::from_utf8_lossy(payload);
                let own = text.strip_prefix(&format!("drone {number} datagram "));
                match own.and_then(|place| place.parse::<usize>().ok()) {
                    Some(place) if place < back.len() && !back[place] => {
                        back[place] = true;
                        settled += 1;
                        farm.returned.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => {
                        farm.crossed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            if self.listen(session, &mut took) {
                last = Instant::now();
            }
        }
    }

    /// The application at the station sends back what comes from its own drone.
    fn echo(&self, number: usize) {
        let mut buffer = [0; 2048];
        self.drone.application.set_nonblocking(true).expect("set");
        while let Ok(length) = self.drone.application.recv(&mut buffer) {
            let payload = &buffer[..length];
            if !payload.starts_with(format!("drone {number} ").as_bytes()) {
                self.farm.crossed.fetch_add(1, Ordering::Relaxed);
            }
            let to = self.drone.plaintext;
            self.drone.application.send_to(payload, to).expect("sent");
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize| -> &str { &words[place] };
    let number = |place: usize| -> u64 { word(place).parse().expect("a number") };
    let root = std::env::var("OQS_INSTALL_PATH").unwrap_or_else(|_| "/opt/liboqs".to_owned());
    let primitives = HostPrimitives::load(&PathBuf::from(root).join("lib/liboqs.so"));
    let farm = Farm {
        trusted: vec![keys::gcs_public(Path::new(word(1))).expect("gcs.pub")],
        primitives: primitives.expect("liboqs"),
        handshake: word(2).parse().expect("an address"),
        sealed: word(3).parse().expect("an address"),
        suite: Suite::by_id(word(4)).expect("a suite"),
        packets: number(5) as usize,
        started: Instant::now(),
        dialled: AtomicU64::new(0),
        early: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        returned: AtomicU64::new(0),
        crossed: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    assert!(farm.primitives.supports(farm.suite), "liboqs has it");
    let (spread_ms, mut seed) = (number(6).max(1), number(7));
    let hold = words.get(8).is_some();
    let mut settings: Vec<PathBuf> = std::fs::read_dir(word(0))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "toml"))
        .collect();
    settings.sort();
    let drones: Vec<Drone> = settings
        .iter()
        .map(|path| read_drone(path, Duration::from_millis(drawn(&mut seed) % spread_ms)))
        .collect();
    let begun = Instant::now();
    let mut joined: Vec<Duration> = std::thread::scope(|scope| {
        let farm = &farm;
        let flights: Vec<_> = drones
            .iter()
            .enumerate()
            .map(|(place, drone)| {
                scope.spawn(move || {
                    let took = farm.fly(place, drone, hold);
                    drone.delay + took
                })
            })
            .collect();
        if hold {
            let expected = (drones.len() * farm.packets) as u64;
            let told = || farm.returned.load(Ordering::Relaxed) >= expected;
            while !told() && begun.elapsed() < LOST_AFTER * 3 {
                std::thread::sleep(LISTEN);
            }
            println!("held drones={}", drones.len());
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            farm.over.store(true, Ordering::Relaxed);
        }
        flights
            .into_iter()
            .map(|flight| flight.join().expect("flew"))
            .collect()
    });
    joined.sort();
    let at = |share: usize| {
        let place = (drones.len() * share).div_ceil(100).max(1) - 1;
        joined[place].as_secs_f64() * 1e3
    };
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "drones={} dialled={} early={} completed={} sent={} lost={} crossed={} t50_ms={:.1} t95_ms={:.1} t100_ms={:.1}",
        drones.len(),
        read(&farm.dialled),
        read(&farm.early),
        read(&farm.completed),
        read(&farm.sent),
        read(&farm.sent) - read(&farm.returned),
        read(&farm.crossed),
        at(50),
        at(95),
        at(100),
    );
}
