//! The GCS: listens, admits, converses. One thread a handshake, bounded by `limits`.

use crate::error::{HandshakeError, Reason};
use crate::gcs::{GcsHandshake, GcsSetup};
use crate::identity::DroneId;
use crate::limits::{Limits, MAX_HALF_OPEN};
use crate::link::{log, TICK};
use crate::place::{listen, source_of, Place};
use crate::raw::signals;
use crate::secret::scrub_stack;
use crate::station::{Reloaded, Station};
use crate::status::{self, StatusSocket};
use crate::stream::converse;
use pq_core::cell::locked;
use pq_core::tcp;
use pq_core::udp::canonical;
use std::collections::{HashMap, HashSet};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A whole fleet may dial at once after an outage; beyond this many it dials in turns.
const MAX_FLEET_HALF_OPEN: usize = 1024;

/// A handshake in progress.
struct InProgress {
    socket: TcpStream,
    claimed: Option<DroneId>,
}

/// What handshake threads share.
struct Gate {
    station: Station,
    limits: Mutex<Limits>,
    /// To end the one that gives way, and those of drones that are served no more.
    in_progress: Mutex<HashMap<u64, InProgress>>,
}

impl Gate {
    /// Room for every drone at once, beside as many strangers as ever.
    fn size(&self) {
        let places = (MAX_HALF_OPEN + self.station.peers().len()).min(MAX_FLEET_HALF_OPEN);
        locked(&self.limits).set_max(places);
    }

    /// This handshake gives way.
    fn end(&self, victim: u64) {
        if let Some(victim) = locked(&self.in_progress).remove(&victim) {
            let _ = victim.socket.shutdown(Shutdown::Both); // wakes the thread that waits there
        }
    }

    fn reload(&self) -> Result<String, String> {
        let Reloaded { text, gone } = self.station.reload()?;
        self.size();
        end_those_of(&locked(&self.in_progress), &gone);
        log(&format!("drones read again: {text}"));
        Ok(text)
    }

    fn answer(&self, request: &str) -> String {
        match request {
            "reload" => match self.reload() {
                Ok(text) => format!("done: {text}\n"),
                Err(text) => {
                    self.size();
                    log(&format!("drones not read again: {text}"));
                    format!("refused: {text}\n")
                }
            },
            "json" => status::of_station(&self.station).json(),
            _ => status::of_station(&self.station).text(),
        }
    }
}

fn end_those_of(in_progress: &HashMap<u64, InProgress>, gone: &HashSet<DroneId>) {
    for one in in_progress.values() {
        if one.claimed.is_some_and(|id| gone.contains(&id)) {
            let _ = one.socket.shutdown(Shutdown::Both); // wakes the thread that waits there
        }
    }
}

/// Run until a stop is asked for.
///
/// # Errors
/// Text: what cannot be bound.
pub fn run(station: Station) -> Result<(), String> {
    let place = &station.config.handshake;
    let address = match place {
        Place::Address(address) => *address,
        Place::Name(..) => return Err(format!("handshake = \"{place}\" is no address")),
    };
    let listener = listen(address).map_err(|error| {
        format!("handshake = \"{address}\" cannot be bound: {error}; name a free port")
    })?;
    tcp::widen(&listener).map_err(|error| format!("handshake = \"{address}\": {error}"))?;
    let status = StatusSocket::open(&station.config.status)?;
    let gate = Arc::new(Gate {
        station,
        limits: Mutex::default(),
        in_progress: Mutex::default(),
    });
    gate.size();
    let acceptor = Arc::clone(&gate);
    let accepting = std::thread::Builder::new().name("accept".to_owned());
    let accepting = accepting.spawn(move || accept(&acceptor, &listener));
    accepting.map_err(|error| format!("no thread to accept on: {error}"))?;
    while !signals::stopping() {
        gate.station.tick();
        status.answer(|request| gate.answer(request));
        std::thread::sleep(TICK);
    }
    gate.station.erase();
    log("stopped");
    Ok(())
}

fn accept(gate: &Arc<Gate>, listener: &TcpListener) {
    for number in 0.. {
        let Ok((socket, source)) = listener.accept() else {
            // Out of descriptors, or a connection that died in the queue: not a spin.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let source = canonical(source);
        let started = Instant::now();
        gate.station.counts.add("hs_started");
        let now_ns = gate.station.hub.now_ns();
        let admitted = locked(&gate.limits).admit(number, source_of(source.ip()), now_ns);
        match admitted {
            Ok(None) => {}
            Ok(Some(victim)) => gate.end(victim),
            Err(error) => {
                gate.station.refused(&source.to_string(), None, &error);
                continue;
            }
        }
        if let Ok(copy) = socket.try_clone() {
            let one = InProgress {
                socket: copy,
                claimed: None,
            };
            locked(&gate.in_progress).insert(number, one);
        }
        let own = Arc::clone(gate);
        let work = move || {
            serve(&own, number, &socket, source, started);
            scrub_stack();
        };
        let spawned = std::thread::Builder::new()
            .name("handshake".to_owned())
            .spawn(work);
        if let Err(error) = spawned {
            log(&format!("no thread for a handshake: {error}"));
            release(gate, number);
        }
    }
}

fn release(gate: &Gate, number: u64) -> bool {
    locked(&gate.in_progress).remove(&number);
    locked(&gate.limits).release(number)
}

fn serve(gate: &Gate, number: u64, socket: &TcpStream, source: SocketAddr, started: Instant) {
    let claimed = Mutex::new(None);
    let outcome = handshake(gate, number, socket, source, started, &claimed);
    let was_held = release(gate, number);
    if let Err(mut error) = outcome {
        if !was_held && error.reason == Reason::ConnectionLost {
            error.reason = Reason::Evicted;
        }
        let (station, claimed) = (&gate.station, *locked(&claimed));
        station.refused(&source.to_string(), claimed.as_ref(), &error);
    }
}

fn handshake(
    gate: &Gate,
    number: u64,
    socket: &TcpStream,
    source: SocketAddr,
    started: Instant,
    claimed: &Mutex<Option<DroneId>>,
) -> Result<(), HandshakeError> {
    let station = &gate.station;
    // Without it a small frame may wait for an acknowledgement: slower, not wrong.
    let _ = socket.set_nodelay(true);
    let note_claim = |id: &DroneId| {
        *locked(claimed) = Some(*id);
        if let Some(one) = locked(&gate.in_progress).get_mut(&number) {
            one.claimed = Some(*id);
        }
    };
    let admit_key = |key: &DroneId| {
        let now_ns = station.hub.now_ns();
        let victim = locked(&gate.limits).admit_key(number, key, now_ns)?;
        if let Some(victim) = victim {
            gate.end(victim);
        }
        Ok(())
    };
    let rekey_basis = |session: &_| station.rekey_basis(session);
    let (psks, accepted) = (station.psks(), [station.config.suite]);
    let mut machine = GcsHandshake::new(GcsSetup {
        identity: &station.identity,
        psks: &psks,
        accepted: &accepted,
        min_level: station.config.min_level,
        primitives: &*station.primitives,
        nonce: station.random()?,
        rx_index: station.free_index()?,
        note_claim: &note_claim,
        admit_key: &admit_key,
        rekey_basis: &rekey_basis,
        drone_keys: None,
    });
    converse(socket, started, &mut machine, |established, rtt| {
        station.install(established, source, rtt, started.elapsed())
    })
}
