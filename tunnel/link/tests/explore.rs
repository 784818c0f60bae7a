//! Every state that two drones, their station and an attacker can reach, within bounds that are printed: the real machines
//! and sessions (`kit/world.rs` says what is not), searched breadth first by stateright. In each state nothing that must not
//! be has happened, and once the attacker is gone everybody's data passes again.
//!
//! A state is the list of what has happened; it is made again from the beginning whenever it is looked at, because keys
//! have no copies. States that differ in nothing that counts are one.
//!
//! `PQ_EXPLORE=wide cargo test --release --test explore -- --nocapture` searches the wider bounds.

mod kit;

use kit::world::{Action, Budget, Bug, World};
use stateright::{Checker as _, Model, Property};
use std::hash::{Hash, Hasher};
use std::time::Instant;

#[derive(Clone, Debug)]
struct Found {
    trace: Vec<Action>,
    print: u64,
    next: Vec<Action>,
    fault: Option<String>,
}

impl Hash for Found {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

#[derive(Clone)]
struct Search {
    budget: Budget,
    bug: Bug,
    /// Steps at most; beyond, nothing is looked at.
    depth: usize,
}

impl Search {
    fn found(&self, trace: Vec<Action>) -> Found {
        let mut world = World::new(self.budget, self.bug);
        for action in &trace {
            world.act(*action);
        }
        let print = world.print();
        let next = if trace.len() < self.depth {
            world.actions()
        } else {
            Vec::new()
        };
        if world.fault.is_none() && world.way_back().is_none() {
            world.fault = Some("no way back".to_owned());
        }
        Found {
            trace,
            print,
            next,
            fault: world.fault,
        }
    }
}

impl Model for Search {
    type State = Found;
    type Action = Action;

    fn init_states(&self) -> Vec<Found> {
        vec![self.found(Vec::new())]
    }

    fn actions(&self, state: &Found, actions: &mut Vec<Action>) {
        actions.extend(&state.next);
    }

    fn next_state(&self, state: &Found, action: Action) -> Option<Found> {
        let mut trace = state.trace.clone();
        trace.push(action);
        Some(self.found(trace))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(
            "nothing that must not be",
            |_, state: &Found| state.fault.is_none(),
        )]
    }
}

/// States, steps of the longest way, and what was found wrong with the way to it.
fn search(name: &str, search: Search) -> Option<(String, Vec<Action>)> {
    let (begun, threads) = (Instant::now(), std::thread::available_parallelism());
    let budget = search.budget;
    let checker = search
        .checker()
        .threads(threads.map_or(1, std::num::NonZero::get))
        .spawn_bfs()
        .join();
    let found = checker.discoveries().into_values().next();
    let wrong = found.map(|path| {
        let last = path.last_state();
        (last.fault.clone().unwrap_or_default(), last.trace.clone())
    });
    println!(
        "{name}: {} states, {} transitions, at most {} steps deep, {:.1} s; {budget:?}{}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth() - 1,
        begun.elapsed().as_secs_f64(),
        wrong
            .as_ref()
            .map_or(String::new(), |(what, trace)| format!(
                "\n  {what}: {trace:?}"
            )),
    );
    wrong
}

const NONE: Budget = Budget {
    drones: 1,
    dials: 0,
    injects: 0,
    cuts: 0,
    sends: 0,
    restarts: 0,
    station_restarts: 0,
    ages: 0,
    waits: 0,
};

/// To `depth`, and deeper where the wide search is asked for.
fn nothing_wrong(name: &str, budget: Budget, depth: usize) {
    let is_wide = std::env::var("PQ_EXPLORE").is_ok_and(|word| word == "wide");
    let depth = if is_wide { 20 } else { depth };
    let bug = Bug::None;
    assert_eq!(search(name, Search { budget, bug, depth }), None);
}

#[test]
fn one_drone_restarts_rekeys_and_replays() {
    let budget = Budget {
        dials: 3,
        injects: 1,
        restarts: 1,
        ages: 1,
        sends: 1,
        waits: 1,
        ..NONE
    };
    nothing_wrong("one drone", budget, 10);
}

#[test]
fn two_drones_that_one_station_keeps_apart() {
    let budget = Budget {
        drones: 2,
        dials: 2,
        injects: 1,
        sends: 1,
        cuts: 1,
        ..NONE
    };
    nothing_wrong("two drones", budget, 12);
}

#[test]
fn a_station_that_restarts_and_a_drone_that_is_cut_off() {
    let budget = Budget {
        dials: 3,
        cuts: 1,
        station_restarts: 1,
        ages: 1,
        waits: 2,
        ..NONE
    };
    nothing_wrong("a station that restarts", budget, 12);
}

/// The search is worth what it finds: each fault that is planted, by the name of what it breaks.
#[test]
fn planted_faults_are_found() {
    let rekeys = Budget {
        dials: 3,
        restarts: 1,
        ages: 1,
        ..NONE
    };
    let replays = Budget {
        dials: 2,
        injects: 1,
        restarts: 1,
        ..NONE
    };
    let old = Budget {
        dials: 2,
        ages: 1,
        sends: 1,
        waits: 1,
        ..NONE
    };
    let one = Budget {
        dials: 1,
        sends: 1,
        ..NONE
    };
    let reset = Budget {
        dials: 1,
        station_restarts: 1,
        ..NONE
    };
    let mut missed = Vec::new();
    for (bug, budget, depth, expected) in [
        (Bug::OneNonce, replays, 12, "a recorded frame was taken"),
        (
            Bug::ClockStandsStill,
            old,
            20,
            "a retired key opened a datagram",
        ),
        (
            Bug::CopiesDelivered,
            one,
            10,
            "a datagram was delivered twice",
        ),
        (Bug::NeverDialsAgain, reset, 10, "no way back"),
        (Bug::KeysNotTaken, one, 10, "no way back"),
        (
            Bug::BookByEpoch,
            rekeys,
            26,
            "a rekey of a replaced session completed",
        ),
        (
            Bug::NoSecondLook,
            rekeys,
            26,
            "a rekey of a replaced session completed",
        ),
    ] {
        let search_of = Search { budget, bug, depth };
        let found = search(&format!("{bug:?}"), search_of);
        if found.map(|(what, _)| what).as_deref() != Some(expected) {
            missed.push(bug);
        }
    }
    assert_eq!(missed, [], "planted and not found");
}
