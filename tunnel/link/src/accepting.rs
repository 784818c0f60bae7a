//! The GCS: listens, lets `door` find who has a right Hello, converses. One thread a handshake, bounded by `limits`.

use crate::door::{Door, Guest, House, MAX_OF_A_FLEET};
use crate::error::{HandshakeError, Reason};
use crate::gcs::{GcsHandshake, GcsSetup};
use crate::identity::DroneId;
use crate::limits::{Limits, MAX_IN_PROGRESS};
use crate::link::{log, TICK};
use crate::place::{listen, Place};
use crate::raw::signals;
use crate::secret::scrub_stack;
use crate::station::{Reloaded, Station};
use crate::status::{self, StatusSocket};
use crate::stream::converse;
use pq_core::cell::locked;
use pq_core::tcp;
use std::collections::{HashMap, HashSet};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

/// A handshake in progress.
struct InProgress {
    socket: Arc<TcpStream>,
    id: DroneId,
}

/// What handshake threads share.
struct Gate {
    station: Station,
    limits: Mutex<Limits>,
    /// To end the one that gives way, and those of drones that are served no more.
    in_progress: Mutex<HashMap<u64, InProgress>>,
}

impl Gate {
    /// Room for every drone at once.
    fn size(&self) {
        let places = (MAX_IN_PROGRESS + self.station.drones()).min(MAX_OF_A_FLEET);
        locked(&self.limits).set_most(places);
    }

    /// This handshake gives way.
    fn end(&self, victim: u64) {
        if let Some(victim) = locked(&self.in_progress).remove(&victim) {
            let _ = victim.socket.shutdown(Shutdown::Both); // wakes the thread that waits there
        }
    }

    fn release(&self, number: u64) -> bool {
        locked(&self.in_progress).remove(&number);
        locked(&self.limits).release(number)
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
        if gone.contains(&one.id) {
            let _ = one.socket.shutdown(Shutdown::Both); // wakes the thread that waits there
        }
    }
}

impl House for Arc<Gate> {
    fn station(&self) -> &Station {
        &self.station
    }

    fn admit(&self, number: u64, id: &DroneId) -> Result<(), HandshakeError> {
        let now_ns = self.station.hub.now_ns();
        let victim = locked(&self.limits).admit(number, id, now_ns)?;
        if let Some(victim) = victim {
            self.end(victim);
        }
        Ok(())
    }

    fn receive(&self, guest: Guest) {
        let (own, number) = (Arc::clone(self), guest.number);
        let one = InProgress {
            socket: Arc::clone(&guest.socket),
            id: guest.id,
        };
        locked(&self.in_progress).insert(number, one);
        let work = move || {
            serve(&own, guest);
            scrub_stack();
        };
        let spawned = std::thread::Builder::new()
            .name("handshake".to_owned())
            .spawn(work);
        if let Err(error) = spawned {
            log(&format!("no thread for a handshake: {error}"));
            self.release(number);
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
    let mut door = Door::new(Arc::clone(&gate), listener)
        .map_err(|error| format!("handshake = \"{address}\": {error}"))?;
    let keeping = std::thread::Builder::new().name("door".to_owned());
    let keeping = keeping.spawn(move || {
        if let Err(error) = door.keep() {
            // Without it nobody comes in any more: ended, it is started again by who watches it.
            log(&format!("the door is broken: {error}"));
            std::process::exit(1);
        }
    });
    keeping.map_err(|error| format!("no thread to accept on: {error}"))?;
    while !signals::stopping() {
        gate.station.tick();
        status.answer(|request| gate.answer(request));
        std::thread::sleep(TICK);
    }
    gate.station.erase();
    log("stopped");
    Ok(())
}

fn serve(gate: &Gate, guest: Guest) {
    let (number, source, id) = (guest.number, guest.source.to_string(), guest.id);
    let outcome = handshake(gate, guest);
    let was_held = gate.release(number);
    if let Err(mut error) = outcome {
        if !was_held && error.reason == Reason::ConnectionLost {
            error.reason = Reason::Evicted;
        }
        gate.station.refused(&source, Some(&id), &error);
    }
}

fn handshake(gate: &Gate, guest: Guest) -> Result<(), HandshakeError> {
    let station = &gate.station;
    let Guest {
        socket,
        source,
        started,
        id,
        nonce,
        passed,
        number,
    } = guest;
    let waits = socket.set_nonblocking(false);
    waits.map_err(|error| HandshakeError::new(Reason::ConnectionLost, error.to_string()))?;
    // Of this drone alone: whoever is revoked meanwhile has no keys here.
    let psks = station.psks().only(&id);
    let rekey_basis = |session: &_| station.rekey_basis(session);
    let redeem = |answered: &[u8; 32]| {
        if *answered == nonce {
            return Ok(());
        }
        let detail = "another Challenge than the one that was found right";
        Err(HandshakeError::new(Reason::StaleCookie, detail))
    };
    let accepted = [station.config.suite];
    let mut machine = GcsHandshake::new(GcsSetup {
        identity: &station.identity,
        psks: &psks,
        accepted: &accepted,
        min_level: station.config.min_level,
        primitives: &*station.primitives,
        nonce,
        rx_index: station.free_index()?,
        note_claim: &|_| (),
        admit_key: &|_| Ok(()),
        rekey_basis: &rekey_basis,
        drone_keys: None,
        redeem: Some(&redeem),
    });
    converse(
        &socket,
        started,
        passed,
        &mut machine,
        |established, rtt| station.install(established, number, source, rtt, started.elapsed()),
    )
}
