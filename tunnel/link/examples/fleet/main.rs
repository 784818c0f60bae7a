//! `pqfarm`: a fleet of drones in one process, for the lab's `fleet` measure (docs/FLEET.md).
//!
//! ```text
//! pqfarm FOLDER DRONES SUITE STATION_IP FARM_IP SEED
//! ```
//!
//! It makes the keys of a ground station and of every drone in `FOLDER` (empty, in memory) and the station's
//! configuration, says `ready`, then takes orders, a line each, from standard input, and ends with it:
//!
//! | order | done when |
//! |---|---|
//! | `await LIMIT_MS` | the station answers on its status socket |
//! | `join SPREAD_US LIMIT_MS` | every drone has dialled at its own seeded moment and was answered |
//! | `stage NAME` | at once: who is answered from now on is back |
//! | `mark` | at once: nobody is back yet, whatever came late |
//! | `back LIMIT_MS` | every drone is back |
//! | `exchange NAME COUNT` | every drone's datagrams came back through the station, or are lost |
//! | `window NAME FOR_MS RATE_HZ REKEYS LIMIT_MS` | probes at that rate came back; so many drones have rekeyed |
//! | `load NAME DRONES RATE_HZ FOR_MS SIZE` | so many drones have sent so often, open-loop, one way |
//! | `status NAME` | the station's own account was asked |
//! | `wake` | this machine's wake-ups were measured |
//! | `end` | all rows are told |
//!
//! Each order is answered with `done`, or with `error: …`, which ends the farm. Times are monotonic nanoseconds of the
//! machine. A drone behaves as `pqlink` does: the same handshake, silence, back-off and tries of a rekey.

mod drone;
mod farm;
mod orders;
mod packets;
mod prepare;
mod rows;
mod samples;

use std::process::ExitCode;

/// More drones than a station has places for handshakes.
const MOST_DRONES: usize = 1000;

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, drones, suite, station, own, seed] = &words[..] else {
        return Err("usage: pqfarm FOLDER DRONES SUITE STATION_IP FARM_IP SEED".to_owned());
    };
    let count: usize = drones.parse().unwrap_or(0);
    if !(1..=MOST_DRONES).contains(&count) {
        return Err(format!(
            "{drones} drones: a farm has 1 to {MOST_DRONES} of them"
        ));
    }
    let setup = prepare::Setup {
        folder: folder.into(),
        count,
        suite: suite.clone(),
        station: address("STATION_IP", station)?,
        own: address("FARM_IP", own)?,
        seed: seed
            .parse()
            .map_err(|_| format!("SEED is a whole number, not {seed}"))?,
    };
    orders::obey(&farm::Farm::of(&setup)?)
}

fn address(name: &str, text: &str) -> Result<std::net::IpAddr, String> {
    text.parse()
        .map_err(|_| format!("{name} is an address, not {text}"))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("error: {text}");
            ExitCode::FAILURE
        }
    }
}
