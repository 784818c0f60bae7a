//! A ground station that is open to its drones, until a stop is asked for.

use crate::accepting::{Bounds, Gate};
use crate::door::Door;
use crate::link::{log, TICK};
use crate::place::{listen, Place};
use crate::raw::signals;
use crate::station::Station;
use crate::status::StatusSocket;
use pq_core::cell::locked;
use pq_core::tcp;
use std::sync::{Arc, Mutex};

/// A ground station that is open to its drones.
pub struct Reception {
    gate: Arc<Gate>,
    status: StatusSocket,
}

impl Reception {
    /// Bind what is to be bound and let drones in.
    ///
    /// # Errors
    /// Text: what cannot be bound.
    pub fn open(station: Station, bounds: Bounds) -> Result<Self, String> {
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
        let gate = Gate::open(station, bounds);
        let door = Door::new(Arc::clone(&gate), listener)
            .map_err(|error| format!("handshake = \"{address}\": {error}"))?;
        let own = Arc::clone(&gate);
        let keeping = gate.workers.give(Box::new(move || keep(&own, door)));
        keeping.map_err(|error| format!("no thread to accept on: {error}"))?;
        Ok(Self { gate, status })
    }

    /// What is due; to be called each [`TICK`].
    pub fn tick(&self) {
        self.gate.station.tick();
        self.gate.look_after_the_queue();
        self.status.answer(|request| self.gate.answer(request));
    }

    /// What `pqlink status` tells: `status`, or `json`.
    #[must_use]
    pub fn told(&self, request: &str) -> String {
        self.gate.answer(request)
    }
}

/// Keep the door until a handshake begins there. Then another thread keeps it, and this one works for that handshake: waking
/// who works would stand in its way, waking who keeps the door does not.
fn keep(gate: &Arc<Gate>, mut door: Door<Arc<Gate>>) {
    loop {
        if let Err(error) = door.turn() {
            // Without it nobody comes in any more: ended, it is started again by who watches it.
            log(&format!("the door is broken: {error}"));
            std::process::exit(1);
        }
        let Some(begun) = gate.begun_at_the_door() else {
            continue;
        };
        let (held, own) = (Arc::new(Mutex::new(Some(door))), Arc::clone(gate));
        let for_another = Arc::clone(&held);
        let next = move || {
            if let Some(door) = locked(&for_another).take() {
                keep(&own, door);
            }
        };
        match gate.workers.give(Box::new(next)) {
            Ok(()) => return (begun.work)(),
            Err(error) => gate.unheard(begun.number, &error),
        }
        let Some(still) = locked(&held).take() else {
            return; // somebody keeps it
        };
        door = still;
    }
}

/// Run until a stop is asked for.
///
/// # Errors
/// Text: what cannot be bound.
pub fn run(station: Station) -> Result<(), String> {
    let reception = Reception::open(station, Bounds::of_this_machine())?;
    while !signals::stopping() {
        reception.tick();
        std::thread::sleep(TICK);
    }
    reception.gate.station.erase();
    log("stopped");
    Ok(())
}
