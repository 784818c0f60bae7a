//! The drone: dials, dials again after silence, rekeys by time or when asked.

use crate::config::Config;
use crate::drone::{DroneHandshake, DroneSetup};
use crate::error::{HandshakeError, Reason};
use crate::established::{Established, RekeyFrom};
use crate::identity::{DroneId, GcsPublic};
use crate::link::{log, Link, TICK};
use crate::primitives::Primitives;
use crate::raw::signals;
use crate::retry::{Redial, RekeyTries};
use crate::schedule::PskKeys;
use crate::secret::scrub_stack;
use crate::status::{self, StatusSocket};
use crate::stream::converse;
use pq_core::cell::{locked, ControlFrame};
use pq_core::packet;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const CONFIRM_EVERY_NS: i64 = 100_000_000;
const CONFIRM_KEEPALIVES: u32 = 10;

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
type Dialled = Result<(Established, SocketAddr, Duration, Duration), HandshakeError>;

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

    /// One handshake from connect to keys.
    fn dial(&self, link: &Link, epoch: u32, rekey: Option<RekeyFrom>) -> Dialled {
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
            rekey,
            signing_key: None,
        });
        let mut keys = None;
        converse(&socket, started, &mut machine, |established, _| {
            keys = Some(established);
            Ok(())
        })?;
        let keys = keys.ok_or_else(|| HandshakeError::new(Reason::Ended, "no keys came"))?;
        Ok((keys, peer, rtt, started.elapsed()))
    }
}

/// Where the drone stands between handshakes.
#[derive(Default)]
struct Standing {
    /// Number of the next epoch.
    next_epoch: u32,
    /// A handshake is in flight; true: a rekey.
    in_flight: Option<bool>,
    redial: Redial,
    tries: RekeyTries,
    is_asked: bool,
    /// Keepalives sent for the newest epoch, until the GCS has answered on it.
    confirming: u32,
    confirmed_ns: i64,
    /// The session is lost or was never there: dial a new one.
    wants_new: bool,
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
    let mut standing = Standing {
        wants_new: true,
        ..Standing::default()
    };
    while !signals::stopping() {
        step(&drone, &link, &sender, &mut standing);
        socket.answer(|request| answer(&link, &drone, request));
        wait(&receiver, &link, &mut standing);
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
fn step(drone: &Arc<Drone>, link: &Arc<Link>, sender: &Sender<Dialled>, now: &mut Standing) {
    for frame in link.tick() {
        now.is_asked |= asks(drone, link, &frame);
    }
    let now_ns = link.now_ns();
    let jitter = link.random().map_or(0, |[byte]| byte);
    let has_keys = locked(&link.cell).session.can_send();
    if has_keys && !link.confirmed.is_set() && now.confirming < CONFIRM_KEEPALIVES {
        if now_ns >= now.confirmed_ns {
            now.confirmed_ns = now_ns + CONFIRM_EVERY_NS;
            now.confirming += 1;
            link.keepalive();
        }
        return;
    }
    if now.in_flight.is_some() {
        return;
    }
    if now.wants_new || locked(&link.cell).session.silent(now_ns) {
        if now.redial.is_due(now_ns) {
            now.redial.begun(now_ns, jitter);
            launch(drone, link, sender, now, None);
        }
        return;
    }
    let is_due = now.is_asked || link.rekey_due(drone.config.rekey_s);
    if is_due && link.confirmed.is_set() && now.tries.is_due(now_ns) {
        let from = link.rekey_from();
        launch(drone, link, sender, now, from);
    }
}

/// Does an authentic frame ask for a rekey in the suite that this end may speak?
fn asks(drone: &Drone, link: &Link, frame: &ControlFrame) -> bool {
    if frame.kind != packet::REKEY_REQUEST || !matches!(frame.payload[0], 1 | 2) {
        return false;
    }
    if locked(&link.cell).session.epoch() > Some(frame.epoch) {
        return false; // it asked for what has happened meanwhile
    }
    let code = &frame.payload[1..];
    code == [0; 3] || code == drone.config.suite.code()
}

fn launch(
    drone: &Arc<Drone>,
    link: &Arc<Link>,
    sender: &Sender<Dialled>,
    now: &mut Standing,
    rekey: Option<RekeyFrom>,
) {
    link.count("hs_started");
    now.in_flight = Some(rekey.is_some());
    let (drone, own_link, sender, epoch) = (
        Arc::clone(drone),
        Arc::clone(link),
        sender.clone(),
        now.next_epoch,
    );
    let work = move || {
        let dialled = drone.dial(&own_link, epoch, rekey);
        scrub_stack();
        // Nobody hears it only where the process is about to end.
        let _ = sender.send(dialled);
    };
    let spawned = std::thread::Builder::new()
        .name("handshake".to_owned())
        .spawn(work);
    if let Err(error) = spawned {
        now.in_flight = None;
        log(&format!("no thread for a handshake: {error}"));
    }
}

/// Sleep for a tick, or until the handshake in flight has ended.
fn wait(receiver: &Receiver<Dialled>, link: &Link, now: &mut Standing) {
    let dialled = match receiver.recv_timeout(TICK) {
        Ok(dialled) => dialled,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
    };
    let was_rekey = now.in_flight.take() == Some(true);
    let outcome = dialled.and_then(|(keys, peer, rtt, wall)| {
        let epoch = keys.epoch;
        link.install(keys, Some(peer), rtt, wall)?;
        Ok(epoch)
    });
    match outcome {
        Ok(epoch) => {
            now.next_epoch = epoch.wrapping_add(1);
            (now.wants_new, now.is_asked, now.confirming) = (false, false, 0);
            now.redial.completed();
            now.tries.completed();
            now.confirmed_ns = link.now_ns() + CONFIRM_EVERY_NS;
            link.keepalive();
        }
        Err(error) => {
            link.refused("handshake", &error);
            if error.reason == Reason::SessionUnknown {
                now.wants_new = true; // the GCS proved that it has nothing to rekey
                now.redial.completed();
            } else if was_rekey {
                let jitter = link.random().map_or(0, |[byte]| byte);
                let again = now.tries.failed(link.now_ns(), jitter);
                now.is_asked &= again;
            }
        }
    }
}
