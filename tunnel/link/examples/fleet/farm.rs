//! What all drones share, and the threads that serve them.

use crate::drone::Drone;
use crate::packets::Exchanges;
use crate::prepare::{prepare, Setup, APPLICATION, FARM_SEALED, HANDSHAKE, STATION_SEALED};
use crate::rows::Rows;
use pq_core::udp;
use pq_link::config::Config;
use pq_link::identity::GcsPublic;
use pq_link::primitives::HostPrimitives;
use pq_link::suite::Suite;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(5);
/// A socket's reader looks this often whether the farm is over.
pub const LISTEN: Duration = Duration::from_millis(100);

pub struct Farm {
    pub drones: Vec<Arc<Drone>>,
    pub trusted: Vec<GcsPublic>,
    pub primitives: HostPrimitives,
    pub suite: Suite,
    pub config: Config,
    pub seed: u64,
    pub handshake: SocketAddr,
    pub station_ip: IpAddr,
    sealed_at: SocketAddr,
    pub sealed: UdpSocket,
    pub application: UdpSocket,
    pub rows: Rows,
    /// Held by who takes a sample.
    pub sampling: Mutex<()>,
    pub exchanges: Exchanges,
    /// Process of the station; 0: none yet.
    pub station: AtomicU32,
    /// Datagrams that the farm's own sockets dropped.
    pub dropped: AtomicU64,
    stage: Mutex<String>,
    by_index: Mutex<HashMap<u32, usize>>,
    random: SystemRandom,
    new_sessions: AtomicBool,
    over: AtomicBool,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(port: u16) -> Result<UdpSocket, String> {
    let failed = |error| format!("UDP port {port} of the farm: {error}");
    let socket = udp::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).map_err(failed)?;
    let _ = udp::enable(&socket); // receive times are a ledger's alone
    socket.set_read_timeout(Some(LISTEN)).map_err(failed)?;
    Ok(socket)
}

impl Farm {
    pub fn of(setup: &Setup) -> Result<Arc<Self>, String> {
        let prepared = prepare(setup)?;
        let keys = prepared.keys.into_iter().enumerate();
        let farm = Arc::new(Self {
            drones: keys
                .map(|(number, key)| Arc::new(Drone::new(number, key)))
                .collect(),
            trusted: prepared.trusted,
            primitives: prepared.primitives,
            suite: prepared.suite,
            config: prepared.config,
            seed: setup.seed,
            handshake: SocketAddr::from((setup.station, HANDSHAKE)),
            station_ip: setup.station,
            sealed_at: SocketAddr::from((setup.station, STATION_SEALED)),
            sealed: open(FARM_SEALED)?,
            application: open(APPLICATION)?,
            rows: Rows::default(),
            sampling: Mutex::default(),
            exchanges: Exchanges::default(),
            station: AtomicU32::new(0),
            dropped: AtomicU64::new(0),
            stage: Mutex::new("none".to_owned()),
            by_index: Mutex::default(),
            random: SystemRandom::new(),
            new_sessions: AtomicBool::new(true),
            over: AtomicBool::new(false),
        });
        for work in [
            Farm::keep_ticking,
            Farm::keep_receiving,
            Farm::keep_answering,
        ] {
            let own = Arc::clone(&farm);
            std::thread::spawn(move || work(&own));
        }
        let own = Arc::clone(&farm);
        std::thread::spawn(move || own.keep_sampling());
        Ok(farm)
    }

    fn keep_ticking(self: &Arc<Self>) {
        while !self.is_over() {
            for drone in &self.drones {
                drone.tick(self);
            }
            std::thread::sleep(TICK);
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
        for drone in &self.drones {
            drone.finish(self);
        }
    }

    /// From now on attempts are of this stage, and nobody is back.
    pub fn enter(&self, stage: &str) {
        stage.clone_into(&mut held(&self.stage));
        // A session may outlive an outage; what a killed station sent is no sign of a new one.
        self.new_sessions
            .store(stage != "outage", Ordering::Relaxed);
        self.forget_who_is_back();
    }

    pub fn asks_new_sessions(&self) -> bool {
        self.new_sessions.load(Ordering::Relaxed)
    }

    pub fn forget_who_is_back(&self) {
        for drone in &self.drones {
            drone.flight().back_ns = None;
        }
    }

    pub fn stage_name(&self) -> String {
        held(&self.stage).clone()
    }

    /// True where the kernel took it. On a link that is down it does not: as in the air, nobody hears of it.
    pub fn send(&self, datagram: &[u8]) -> bool {
        self.sealed.send_to(datagram, self.sealed_at).is_ok()
    }

    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut fresh = [0; N];
        // Every drone would repeat its nonce: better no farm at all.
        self.random
            .fill(&mut fresh)
            .expect("the system's randomness");
        fresh
    }

    pub fn jitter(&self) -> u8 {
        let [byte] = self.random();
        byte
    }

    /// A receiver index that no drone of the farm has.
    pub fn fresh_index(&self, drone: usize) -> u32 {
        let mut taken = held(&self.by_index);
        loop {
            let [a, b, c] = self.random();
            let index = u32::from_be_bytes([0, a, b, c]);
            if index != 0 && !taken.contains_key(&index) {
                taken.insert(index, drone);
                return index;
            }
        }
    }

    pub fn forget_index(&self, index: Option<u32>) {
        if let Some(index) = index {
            held(&self.by_index).remove(&index);
        }
    }

    pub fn drone_of(&self, index: u32) -> Option<&Arc<Drone>> {
        let number = held(&self.by_index).get(&index).copied();
        number.and_then(|number| self.drones.get(number))
    }
}
