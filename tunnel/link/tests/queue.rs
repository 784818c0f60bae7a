//! A station that has more handshakes to carry out than processors: real sockets, threads and machines, and primitives that
//! take their time on processors that are played.

mod kit;

use kit::{suite, Toy};
use pq_link::accepting::{patience, Bounds};
use pq_link::config;
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::established::{Established, RekeyFrom};
use pq_link::identity::{GcsIdentity, GcsPublic};
use pq_link::keys::{self, DroneKey};
use pq_link::machine::BASE_DEADLINE;
use pq_link::primitives::{KemPair, PrimitiveError, Primitives};
use pq_link::reception::Reception;
use pq_link::registry::{Kem, Sig};
use pq_link::retry::Redial;
use pq_link::secret::Secret;
use pq_link::station::Station;
use pq_link::stream::{converse, Passed};
use pq_link::suite::Suite;
use pq_link::wire::{Challenge, HEADER_BYTES};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const EARLY_TRIES: u32 = 3;
const LIMIT: Duration = Duration::from_secs(60);
const SLICE: Duration = Duration::from_millis(2);

/// Processors that are shared in slices, as a machine shares its own among whoever wants to compute.
struct Processors {
    free: Mutex<usize>,
    freed: Condvar,
    /// How many compute now, and did at most.
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    pairs: AtomicUsize,
}

impl Processors {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(count),
            freed: Condvar::new(),
            inside: AtomicUsize::new(0),
            most_inside: AtomicUsize::new(0),
            pairs: AtomicUsize::new(0),
        })
    }

    fn compute(&self, cost: Duration) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_inside.fetch_max(inside, Ordering::SeqCst);
        let mut done = Duration::ZERO;
        while done < cost {
            let free = self.free.lock().expect("held");
            let mut free = self
                .freed
                .wait_while(free, |free| *free == 0)
                .expect("held");
            *free -= 1;
            drop(free);
            let begun = Instant::now();
            std::thread::sleep(SLICE);
            done += begun.elapsed();
            *self.free.lock().expect("held") += 1;
            self.freed.notify_one();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A station's primitives: a key pair, and a decapsulation, take so long each.
struct Slow {
    toy: Toy,
    processors: Arc<Processors>,
    cost: Duration,
}

impl Primitives for Slow {
    fn provider(&self) -> String {
        self.toy.provider()
    }
    fn supports(&self, suite: Suite) -> bool {
        self.toy.supports(suite)
    }
    fn kem_pair(&self, kem: &'static Kem) -> Result<KemPair, PrimitiveError> {
        self.processors.pairs.fetch_add(1, Ordering::SeqCst);
        self.processors.compute(self.cost);
        self.toy.kem_pair(kem)
    }
    fn encapsulate(
        &self,
        kem: &'static Kem,
        public: &[u8],
    ) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        self.toy.encapsulate(kem, public)
    }
    fn decapsulate(
        &self,
        kem: &'static Kem,
        pair: &KemPair,
        ciphertext: &[u8],
    ) -> Result<Secret, PrimitiveError> {
        self.processors.compute(self.cost);
        self.toy.decapsulate(kem, pair, ciphertext)
    }
    fn signing_pair(&self, sig: &'static Sig) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        self.toy.signing_pair(sig)
    }
    fn sign(
        &self,
        sig: &'static Sig,
        secret: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, PrimitiveError> {
        self.toy.sign(sig, secret, message)
    }
    fn verify(&self, sig: &'static Sig, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
        self.toy.verify(sig, public, message, signature)
    }
}

/// A station at work, and what its drones know.
struct Scene {
    reception: Arc<Reception>,
    processors: Arc<Processors>,
    address: SocketAddr,
    trusted: [GcsPublic; 1],
    drones: Vec<DroneKey>,
    toy: Toy,
    suite: Suite,
    folder: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Scene {
    fn new(name: &str, drones: usize, bounds: Bounds, cost: Duration) -> Self {
        Self::of_suite(suite(), name, drones, bounds, cost)
    }

    fn of_suite(suite: Suite, name: &str, drones: usize, bounds: Bounds, cost: Duration) -> Self {
        let folder = std::env::temp_dir().join(format!("pqlink-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("drones")).expect("made");
        let mut keys_of = Vec::new();
        for number in 0..drones {
            let path = folder.join(format!("drones/d{number:03}.key"));
            let text = keys::fresh_drone().expect("random");
            keys::write_new(&path, &text, 0o600).expect("written");
            keys_of.push(keys::drone(&path).expect("read"));
            let settings = "plaintext = \"127.0.0.1:0\"\napplication = \"127.0.0.1:9\"\n";
            std::fs::write(path.with_extension("toml"), settings).expect("written");
        }
        let free = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = free.local_addr().expect("bound");
        drop(free);
        let lines = format!(
            "role = \"gcs\"\nsuite = \"{}\"\nhandshake = \"{address}\"\nsealed = \"127.0.0.1:0\"\ndrones = \"drones\"\n",
            suite.id()
        );
        let config = config::parse(&folder.join("gcs.toml"), &lines).expect("right");
        let toy = Toy::default();
        let (public, secret) = toy.signing_pair(suite.sig).expect("made");
        let public = GcsPublic::new(vec![(suite.sig, public)]).expect("fits");
        let identity = GcsIdentity {
            public: public.clone(),
            secrets: vec![(suite.sig, secret)],
        };
        let processors = Processors::new(bounds.processors.min(4));
        let slow = Slow {
            toy: Toy::default(),
            processors: Arc::clone(&processors),
            cost,
        };
        let station = Station::open(config, identity, Box::new(slow)).expect("open");
        let reception = Arc::new(Reception::open(station, bounds).expect("open"));
        let ticking = Arc::downgrade(&reception);
        std::thread::spawn(move || {
            while let Some(reception) = ticking.upgrade() {
                reception.tick();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            reception,
            processors,
            address,
            trusted: [public],
            drones: keys_of,
            toy,
            suite,
            folder,
        }
    }

    /// A counter of the station, of everybody.
    fn count(&self, name: &str) -> usize {
        let told = self.reception.told("status");
        let top = told.split("\n[[").next().unwrap_or("");
        let line = format!("{name} = ");
        let found = top.lines().find_map(|one| one.strip_prefix(&line));
        found.map_or(0, |text| text.parse().expect("a number"))
    }

    fn pairs(&self) -> usize {
        self.processors.pairs.load(Ordering::SeqCst)
    }

    fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(
                begun.elapsed() < LIMIT,
                "{what}: {}",
                self.reception.told("status")
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn machine(
        &self,
        drone: usize,
        rekey: Option<&RekeyFrom>,
        early: Option<Challenge>,
    ) -> DroneHandshake<'_> {
        let key = &self.drones[drone];
        DroneHandshake::new(DroneSetup {
            suite: self.suite,
            drone_id: key.id,
            psk: &key.psk,
            trusted: &self.trusted,
            min_level: 1,
            epoch: rekey.map_or(0, |from| from.epoch + 1),
            primitives: &self.toy,
            nonce: self.toy.fresh(),
            rx_index: 7 + drone as u32,
            rekey: rekey.map(RekeyFrom::copy),
            signing_key: None,
            early,
        })
    }

    /// One dial, as `pqlink`'s drone makes it.
    fn dial(&self, drone: usize, rekey: Option<&RekeyFrom>) -> Result<Established, HandshakeError> {
        let (mut early, mut tries) = (None, 0);
        loop {
            let started = Instant::now();
            let socket = TcpStream::connect(self.address).expect("connected");
            let mut machine = self.machine(drone, rekey, early.take());
            let mut keys = None;
            let outcome = converse(
                &socket,
                started,
                Passed::default(),
                &mut machine,
                |established, _| {
                    keys = Some(established);
                    Ok(())
                },
            );
            early = machine.to_answer().cloned();
            tries += 1;
            match outcome {
                Ok(()) => return Ok(keys.expect("they came")),
                Err(error) if error.reason == Reason::Retry && tries <= EARLY_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Dial until it works; how often.
    fn join(&self, drone: usize, begun: Instant) -> usize {
        let mut redial = Redial::default();
        let mut dials = 0;
        while begun.elapsed() < LIMIT {
            let now_ns = begun.elapsed().as_nanos() as i64;
            if !redial.is_due(now_ns) {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            redial.begun(now_ns, self.toy.fresh()[0]);
            dials += 1;
            if self.dial(drone, None).is_ok() {
                return dials;
            }
        }
        panic!("drone {drone} is not in after {dials} dials")
    }

    /// A drone that hangs up once its Hello is there.
    fn gives_up(&self, drone: usize) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).expect("connected");
        let mut machine = self.machine(drone, None, None);
        machine.start().expect("starts");
        let mut header = [0; HEADER_BYTES];
        socket.read_exact(&mut header).expect("a Challenge");
        let mut body = vec![0; machine.on_header(header).expect("a Challenge")];
        socket.read_exact(&mut body).expect("a Challenge");
        let hello = machine.on_body(&body).expect("a Hello");
        socket.write_all(&hello).expect("sent");
        socket
    }
}

const TWO: Bounds = Bounds {
    processors: 2,
    places: 1024,
};
const ONE: Bounds = Bounds {
    processors: 1,
    places: 1024,
};

#[test]
fn never_more_are_worked_for_than_there_are_processors() {
    const DRONES: usize = 32;
    let scene = Scene::new("bound", DRONES, TWO, Duration::from_millis(10));
    std::thread::scope(|scope| {
        for drone in 0..DRONES {
            let scene = &scene;
            scope.spawn(move || scene.dial(drone, None).expect("in at its first dial"));
        }
    });
    assert_eq!(scene.processors.most_inside.load(Ordering::SeqCst), 2);
    assert_eq!(
        (scene.pairs(), scene.count("hs_completed")),
        (DRONES, DRONES)
    );
    assert_eq!(scene.count("hs_begun"), DRONES);
    assert_eq!(scene.count("at_work_most"), 2);
    assert!(scene.count("queue_most") > 2 && scene.count("queue") == 0);
}

#[test]
fn a_handshake_that_was_given_up_while_it_waited_costs_no_primitive() {
    let scene = Scene::new("gone", 8, ONE, Duration::from_millis(400));
    std::thread::scope(|scope| {
        scope.spawn(|| scene.dial(0, None).expect("in"));
        scene.wait_for("one at work", || scene.pairs() == 1);
        for drone in 1..=5 {
            drop(scene.gives_up(drone));
        }
        scene.wait_for("Hellos", || scene.count("queue_most") == 5);
        scope.spawn(|| scene.dial(6, None).expect("in"));
        // And one whose drone dials again: the newer connection has its place.
        let older = scene.gives_up(7);
        scene.wait_for("an older one", || scene.count("queue") >= 2);
        scene.dial(7, None).expect("in");
        drop(older);
    });
    assert_eq!((scene.pairs(), scene.count("hs_completed")), (3, 3));
    assert_eq!(scene.count("hs_abandoned"), 6);
    assert_eq!(scene.count("hs_connection_lost"), 6);
}

#[test]
fn a_rekey_of_a_living_drone_passes_joins_that_wait() {
    const JOINS: usize = 8;
    let scene = Scene::new("rekey", JOINS + 1, ONE, Duration::from_millis(40));
    let living = scene.dial(JOINS, None).expect("in");
    let from = RekeyFrom {
        session_id: living.session_id,
        epoch: living.epoch,
        rekey_secret: Secret::copy_of(&living.rekey_secret),
    };
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for drone in 0..JOINS {
            let (scene, done) = (&scene, &done);
            scope.spawn(move || {
                scene.dial(drone, None).expect("in");
                done.lock().expect("held").push(drone);
            });
        }
        scene.wait_for("joins that wait", || scene.count("queue") >= JOINS - 2);
        let rekeyed = scene.dial(JOINS, Some(&from)).expect("rekeyed");
        assert_eq!(rekeyed.epoch, 1);
        let before = done.lock().expect("held").len();
        assert!(before <= 2, "{before} of {JOINS} joins were done before");
    });
    assert_eq!(scene.count("hs_completed"), JOINS + 2);
}

#[test]
fn a_full_queue_refuses_by_name() {
    let bounds = Bounds {
        processors: 1,
        places: 3,
    };
    let scene = Scene::new("full", 4, bounds, Duration::from_millis(300));
    std::thread::scope(|scope| {
        for drone in 0..3 {
            let scene = &scene;
            scope.spawn(move || scene.dial(drone, None).expect("in"));
        }
        scene.wait_for("a full queue", || {
            scene.count("hs_begun") == 1 && scene.count("queue") == 2
        });
        let refused = scene.dial(3, None).map_err(|error| error.reason);
        assert_eq!(refused.err(), Some(Reason::ConnectionLost), "told nothing");
        assert_eq!(scene.count("hs_half_open_limit"), 1);
        let told = scene.reception.told("status");
        let own = told.split("[[drone]]").find(|one| one.contains("\"d003\""));
        let own = own.expect("served");
        assert!(
            own.contains("hs_half_open_limit = 1") && own.contains("refusals = 1"),
            "{own}"
        );
    });
    assert_eq!((scene.pairs(), scene.count("hs_completed")), (3, 3));
}

#[test]
fn an_overload_is_worked_off_with_one_handshake_a_drone() {
    overload("overload", suite());
}

/// Here a drone has more patience than the 5 s that a handshake has before its suite is known.
#[test]
fn an_overload_of_a_slow_suite_is_worked_off_with_one_handshake_a_drone() {
    let slow = Suite::by_id("cs-mlkem768-aesgcm-sphincs192s").expect("registered");
    assert!(patience(slow) > BASE_DEADLINE);
    overload("slow-suite", slow);
}

/// Twelve seconds of work, and drones that hear nothing wait seven, or more.
fn overload(name: &str, suite: Suite) {
    const DRONES: usize = 40;
    let scene = Scene::of_suite(suite, name, DRONES, ONE, Duration::from_millis(150));
    let begun = Instant::now();
    let dials: usize = std::thread::scope(|scope| {
        let scene = &scene;
        let joins = (0..DRONES).map(|drone| scope.spawn(move || scene.join(drone, begun)));
        let joins: Vec<_> = joins.collect();
        joins.into_iter().map(|join| join.join().expect("in")).sum()
    });
    let took_s = begun.elapsed().as_secs_f64();
    let (pairs, deferred) = (scene.pairs(), scene.count("hs_deferred"));
    println!("{DRONES} drones in after {took_s:.1} s: {dials} dials, {pairs} key pairs, {deferred} asked to come back");
    assert_eq!(scene.count("hs_completed"), DRONES);
    assert!(took_s > 11.0 && deferred > 0, "no overload: {took_s:.1} s");
    assert_eq!((pairs, dials), (DRONES, DRONES));
    assert_eq!(
        (scene.count("hs_abandoned"), scene.count("hs_timeout")),
        (0, 0)
    );
}
