//! A ground station that is open to its drones, until a stop is asked for.

use crate::accepting::{Bounds, Gate};
use crate::door::Door;
use crate::link::{log, TICK};
use crate::place::{listen, Place};
use crate::raw::signals;
use crate::station::Station;
use crate::status::StatusSocket;
use pq_core::tcp;
use std::sync::Arc;

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
