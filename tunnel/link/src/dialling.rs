//! The drone: dials, dials again after silence, rekeys by time or when asked.

use crate::config::Config;
use crate::drone::{DroneHandshake, DroneSetup};
use crate::error::{HandshakeError, Reason};
use crate::established::{Established, RekeyFrom};
use crate::identity::{DroneId, GcsPublic};
use crate::link::{log, Link, TICK};
use crate::pilot::{Due, Facts, Pilot};
use crate::primitives::Primitives;
use crate::raw::signals;
use crate::schedule::PskKeys;
use crate::secret::scrub_stack;
use crate::status::{self, StatusSocket};
use crate::stream::{converse, Passed};
use crate::wire::Challenge;
use pq_core::cell::locked;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Connections with the Hello first, at most, after one that a station under load ended.
const EARLY_TRIES: u32 = 3;

/// What the drone knows beside the link.
pub struct Drone {
    /// As read.
    pub config: Config,
    /// Its key id.
    pub id: DroneId,
    /// Of its PSK.
    pub psk: PskKeys,
    /// Pinned.
    pub trusted: Vec<GcsPublic>,
    /// This host's.
    pub primitives: Box<dyn Primitives>,
}

/// A dialled handshake's end: its keys, who answered, round trip and wall.
pub type Dialled = Result<(Established, SocketAddr, Duration, Duration), HandshakeError>;

impl Drone {
    /// Ask the resolver again, then try each address until one answers; with it, when that try began: a slow resolver
    /// and addresses that do not answer take nothing of the handshake's time.
    fn connect(&self) -> Result<(TcpStream, SocketAddr, Instant), HandshakeError> {
        let (place, sealed) = (&self.config.handshake, self.config.sealed);
        let lost = |detail| HandshakeError::new(Reason::ConnectionLost, detail);
        let found = place.resolve();
        let found = found.map_err(|error| lost(format!("{place} has no address: {error}")))?;
        let reachable = |address: &&SocketAddr| address.is_ipv4() || sealed.is_ipv6();
        let mut outcome = lost(format!(
            "{place} has addresses of IPv6 alone, and sealed = \"{sealed}\" takes IPv4; write sealed = \"[::]:{}\"",
            sealed.port()
        ));
        for address in found.iter().filter(reachable) {
            let begun = Instant::now();
            match TcpStream::connect_timeout(address, CONNECT_LIMIT) {
                Ok(socket) => return Ok((socket, *address, begun)),
                Err(error) => outcome = lost(format!("{address} does not answer: {error}")),
            }
        }
        Err(outcome)
    }

    /// One handshake from connect to keys; a station under load asks for another connection, with the Hello first.
    ///
    /// # Errors
    /// Every kind.
    pub fn dial(&self, link: &Link, epoch: u32, rekey: Option<&RekeyFrom>) -> Dialled {
        let mut early = None;
        let mut tries = 0;
        loop {
            let outcome = self.dial_once(link, epoch, rekey, &mut early);
            tries += 1;
            match outcome {
                Err(error) if error.reason == Reason::Retry && tries <= EARLY_TRIES => {
                    link.count(error.reason.counter());
                }
                other => return other,
            }
        }
    }

    fn dial_once(
        &self,
        link: &Link,
        epoch: u32,
        rekey: Option<&RekeyFrom>,
        early: &mut Option<Challenge>,
    ) -> Dialled {
        let (socket, mut peer, started) = self.connect()?;
        let rtt = started.elapsed();
        peer.set_port(self.config.peer_port);
        // Without it a small frame may wait for an acknowledgement: slower, not wrong.
        let _ = socket.set_nodelay(true);
        let mut machine = DroneHandshake::new(DroneSetup {
            suite: self.config.suite,
            drone_id: self.id,
            psk: &self.psk,
            trusted: &self.trusted,
            min_level: self.config.min_level,
            epoch,
            primitives: &*self.primitives,
            nonce: link.random()?,
            rx_index: link.free_index()?,
            rekey: rekey.map(RekeyFrom::copy),
            signing_key: None,
            early: early.take(),
        });
        let mut keys = None;
        let passed = Passed::default();
        let outcome = converse(&socket, started, passed, &mut machine, |established, _| {
            keys = Some(established);
            Ok(())
        });
        *early = machine.to_answer().cloned();
        outcome?;
        let keys = keys.ok_or_else(|| HandshakeError::new(Reason::Ended, "no keys came"))?;
        Ok((keys, peer, rtt, started.elapsed()))
    }
}

/// Run until a stop is asked for.
///
/// # Errors
/// Text: what cannot be bound.
#[cfg_attr(not(unix), allow(unused_mut))]
pub fn run(mut drone: Drone) -> Result<(), String> {
    #[cfg(unix)]
    let serial = crate::serial::Bridge::of(&mut drone.config)?;
    let link = Arc::new(Link::open(&drone.config)?);
    #[cfg(unix)]
    if let Some(bridge) = serial {
        bridge.start(&link)?;
    }
    let socket = StatusSocket::open(&drone.config.status)?;
    let drone = Arc::new(drone);
    let (sender, receiver) = channel();
    let mut pilot = Pilot::default();
    while !signals::stopping() {
        step(&drone, &link, &sender, &mut pilot);
        socket.answer(|request| answer(&link, &drone, request));
        wait(&receiver, &link, &mut pilot);
    }
    link.erase();
    log("stopped");
    Ok(())
}

fn answer(link: &Link, drone: &Drone, request: &str) -> String {
    if request == "reload" {
        return "refused: a drone has one key and one ground station; restart it\n".to_owned();
    }
    let report = status::of_drone(link, &drone.config, &*drone.primitives);
    if request == "json" {
        report.json()
    } else {
        report.text()
    }
}

/// Start what is due.
fn step(drone: &Arc<Drone>, link: &Arc<Link>, sender: &Sender<Dialled>, pilot: &mut Pilot) {
    for frame in link.tick() {
        let epoch = locked(&link.cell).session.epoch();
        pilot.heed(&frame, epoch, drone.config.suite.code());
    }
    let now_ns = link.now_ns();
    let jitter = link.random().map_or(0, |[byte]| byte);
    let is_old = link.rekey_due(drone.config.rekey_s);
    let facts = {
        let session = &locked(&link.cell).session;
        Facts {
            has_keys: session.can_send(),
            is_confirmed: link.confirmed.is_set(),
            is_silent: session.silent(now_ns),
            is_old,
        }
    };
    match pilot.due(facts, now_ns, jitter) {
        Due::Nothing => {}
        Due::Keepalive => link.keepalive(),
        Due::New => launch(drone, link, sender, pilot, None),
        Due::Rekey => launch(drone, link, sender, pilot, link.rekey_from()),
    }
}

fn launch(
    drone: &Arc<Drone>,
    link: &Arc<Link>,
    sender: &Sender<Dialled>,
    pilot: &mut Pilot,
    rekey: Option<RekeyFrom>,
) {
    link.count("hs_started");
    let (drone, own_link, sender, epoch) = (
        Arc::clone(drone),
        Arc::clone(link),
        sender.clone(),
        pilot.next_epoch(),
    );
    let work = move || {
        let dialled = drone.dial(&own_link, epoch, rekey.as_ref());
        drop(rekey);
        scrub_stack();
        // Nobody hears it only where the process is about to end.
        let _ = sender.send(dialled);
    };
    let spawned = std::thread::Builder::new()
        .name("handshake".to_owned())
        .spawn(work);
    if let Err(error) = spawned {
        pilot.dropped();
        log(&format!("no thread for a handshake: {error}"));
    }
}

/// Sleep for a tick, or until the handshake in flight has ended.
fn wait(receiver: &Receiver<Dialled>, link: &Link, pilot: &mut Pilot) {
    let dialled = match receiver.recv_timeout(TICK) {
        Ok(dialled) => dialled,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
    };
    let outcome = dialled.and_then(|(keys, peer, rtt, wall)| {
        let epoch = keys.epoch;
        link.install(keys, Some(peer), rtt, wall)?;
        Ok(epoch)
    });
    match outcome {
        Ok(epoch) => {
            pilot.completed(epoch, link.now_ns());
            link.keepalive();
        }
        Err(error) => {
            link.refused("handshake", &error);
            let jitter = link.random().map_or(0, |[byte]| byte);
            pilot.failed(error.reason, link.now_ns(), jitter);
        }
    }
}
