//! The GCS: listens, admits, converses, asks for rekeys. One thread a handshake, bounded by `limits`.

use crate::config::Config;
use crate::error::{HandshakeError, Reason};
use crate::gcs::{GcsHandshake, GcsSetup};
use crate::identity::{DroneId, GcsIdentity, PskStore};
use crate::limits::Limits;
use crate::link::{log, Link, TICK};
use crate::place::{listen, source_of, Place};
use crate::primitives::Primitives;
use crate::raw::signals;
use crate::secret::scrub_stack;
use crate::status::StatusSocket;
use crate::stream::converse;
use pq_core::cell::locked;
use pq_core::packet;
use pq_core::udp::canonical;
use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ASK_EVERY_NS: i64 = 1_000_000_000;
/// Reason "due", and the suite in use.
const REQUEST_DUE: [u8; 4] = [1, 0, 0, 0];

/// What the GCS knows beside the link.
pub struct Gcs {
    /// As read.
    pub config: Config,
    /// Its signing keys.
    pub identity: GcsIdentity,
    /// Of its drones.
    pub psks: PskStore,
    /// This host's.
    pub primitives: Box<dyn Primitives>,
}

/// What handshake threads share.
struct Station {
    gcs: Gcs,
    link: Link,
    limits: Mutex<Limits>,
    /// Sockets of the handshakes in progress, to end the one that gives way.
    sockets: Mutex<HashMap<u64, TcpStream>>,
}

/// Run until a stop is asked for.
///
/// # Errors
/// Text: what cannot be bound.
pub fn run(gcs: Gcs) -> Result<(), String> {
    let place = &gcs.config.handshake;
    let address = match place {
        Place::Address(address) => *address,
        Place::Name(..) => return Err(format!("handshake = \"{place}\" is no address")),
    };
    let listener = listen(address).map_err(|error| {
        format!("handshake = \"{address}\" cannot be bound: {error}; name a free port")
    })?;
    let link = Link::open(&gcs.config)?;
    let status = StatusSocket::open(&gcs.config.status)?;
    let station = Arc::new(Station {
        gcs,
        link,
        limits: Mutex::default(),
        sockets: Mutex::default(),
    });
    let acceptor = Arc::clone(&station);
    let accepting = std::thread::Builder::new().name("accept".to_owned());
    let accepting = accepting.spawn(move || accept(&acceptor, &listener));
    accepting.map_err(|error| format!("no thread to accept on: {error}"))?;
    let mut asked_ns = 0;
    while !signals::stopping() {
        let link = &station.link;
        link.tick();
        let now_ns = link.now_ns();
        let can_ask = locked(&link.cell).session.can_send() && link.confirmed.is_set();
        let rekey_s = station.gcs.config.rekey_s;
        if can_ask && now_ns - asked_ns >= ASK_EVERY_NS && link.rekey_due(rekey_s) {
            asked_ns = now_ns;
            // Of a control type; without keys or peer there is nobody to ask.
            let _ = link.plane.send_control(packet::REKEY_REQUEST, &REQUEST_DUE);
        }
        status.answer(link, &station.gcs.config, &*station.gcs.primitives);
        std::thread::sleep(TICK);
    }
    station.link.erase();
    log("stopped");
    Ok(())
}

fn accept(station: &Arc<Station>, listener: &TcpListener) {
    for number in 0.. {
        let Ok((socket, source)) = listener.accept() else {
            // Out of descriptors, or a connection that died in the queue: not a spin.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let source = canonical(source);
        let started = Instant::now();
        station.link.count("hs_started");
        let now_ns = station.link.now_ns();
        let admitted = locked(&station.limits).admit(number, source_of(source.ip()), now_ns);
        match admitted {
            Ok(None) => {}
            Ok(Some(victim)) => {
                if let Some(socket) = locked(&station.sockets).remove(&victim) {
                    let _ = socket.shutdown(Shutdown::Both); // wakes the thread that waits there
                }
            }
            Err(error) => {
                station.link.refused(&source.to_string(), &error);
                continue;
            }
        }
        if let Ok(copy) = socket.try_clone() {
            locked(&station.sockets).insert(number, copy);
        }
        let own = Arc::clone(station);
        let work = move || {
            serve(&own, number, &socket, source, started);
            scrub_stack();
        };
        let spawned = std::thread::Builder::new()
            .name("handshake".to_owned())
            .spawn(work);
        if let Err(error) = spawned {
            log(&format!("no thread for a handshake: {error}"));
            release(station, number);
        }
    }
}

fn release(station: &Station, number: u64) -> bool {
    locked(&station.sockets).remove(&number);
    locked(&station.limits).release(number)
}

fn serve(station: &Station, number: u64, socket: &TcpStream, source: SocketAddr, started: Instant) {
    let outcome = handshake(station, number, socket, source, started);
    let was_held = release(station, number);
    if let Err(mut error) = outcome {
        if !was_held && error.reason == Reason::ConnectionLost {
            error.reason = Reason::Evicted;
        }
        station.link.refused(&source.to_string(), &error);
    }
}

fn handshake(
    station: &Station,
    number: u64,
    socket: &TcpStream,
    source: SocketAddr,
    started: Instant,
) -> Result<(), HandshakeError> {
    let (gcs, link) = (&station.gcs, &station.link);
    // Without it a small frame may wait for an acknowledgement: slower, not wrong.
    let _ = socket.set_nodelay(true);
    let admit_key = |key: &DroneId| locked(&station.limits).admit_key(number, key, link.now_ns());
    let rekey_basis = |session: &_| link.rekey_basis(session);
    let accepted = [gcs.config.suite];
    let mut machine = GcsHandshake::new(GcsSetup {
        identity: &gcs.identity,
        psks: &gcs.psks,
        accepted: &accepted,
        min_level: gcs.config.min_level,
        primitives: &*gcs.primitives,
        nonce: link.random()?,
        rx_index: link.free_index()?,
        admit_key: &admit_key,
        rekey_basis: &rekey_basis,
        drone_keys: None,
    });
    let mut peer = source;
    peer.set_port(gcs.config.peer_port);
    converse(socket, started, &mut machine, |established, rtt| {
        link.install(established, Some(peer), rtt, started.elapsed())
    })
}
