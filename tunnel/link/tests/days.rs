//! Long flights in virtual time, with the real machines and sessions of `kit/world.rs`: a day of one link, and an hour of
//! two drones of which each is killed again and again beside the other.

mod kit;

use kit::world::{Budget, Bug, World, SECOND_NS};

const TICK_NS: i64 = SECOND_NS / 4;
const QUIET: Budget = Budget {
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

/// splitmix64: kills that a seed repeats.
fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A day of one link: rekeys by age, the drone killed about each hour, the station about each two.
#[test]
fn a_day_of_one_link_with_kills_of_either_end() {
    let mut world = World::new(QUIET, Bug::None);
    let (mut seed, mut kills, mut station_kills) = (1, 0, 0);
    let (mut lost, mut passed, mut outage, mut longest) = (0_u64, 0_u64, 0_i64, 0_i64);
    while world.now_ns < 86_400 * SECOND_NS {
        world.tick(TICK_NS);
        if world.exchange(0) {
            passed += 1;
            outage = 0;
        } else {
            lost += 1;
            outage += TICK_NS;
            longest = longest.max(outage);
        }
        // Of 14,400 ticks in an hour about one, and half of one.
        match drawn(&mut seed) % 28_800 {
            0 | 1 => {
                world.restart(0);
                kills += 1;
            }
            2 => {
                world.restart_station();
                station_kills += 1;
            }
            _ => {}
        }
        assert_eq!(world.fault, None, "at {} s", world.now_ns / SECOND_NS);
    }
    let completed = world.completed;
    println!(
        "a day: {completed} handshakes, {kills} kills of the drone, {station_kills} of the station, {passed} exchanges passed, \
         {lost} while an end was away, longest gap {} ms",
        longest / (SECOND_NS / 1000)
    );
    assert!(kills >= 10 && station_kills >= 4, "{kills} {station_kills}");
    // A rekey in ten minutes, and a new session for each kill.
    let rekeys = completed - kills - station_kills - 1;
    assert!((110..=144).contains(&rekeys), "{rekeys}");
    assert!(longest <= 4 * SECOND_NS, "{longest}");
}

/// An hour of two drones with a rekey each half minute; each is killed about once a minute. The other one never loses
/// anything by it, nor by anybody's rekeys.
#[test]
fn an_hour_of_two_drones_each_unharmed_by_the_others_kills() {
    let mut budget = QUIET;
    budget.drones = 2;
    let mut world = World::new(budget, Bug::None);
    for _ in 0..8 {
        world.tick(TICK_NS);
    }
    let (mut seed, mut kills) = (2, [0, 0]);
    let (mut lost, mut passed) = ([0, 0], [0_u64, 0]);
    let mut away = [0, 0];
    let mut ticks = 0;
    while world.now_ns < 3600 * SECOND_NS {
        ticks += 1;
        for drone in 0..2 {
            if (ticks + 60 * drone) % 120 == 0 {
                world.ask(drone);
            }
        }
        world.tick(TICK_NS);
        for drone in 0..2 {
            if world.exchange(drone) {
                passed[drone] += 1;
                away[drone] = 0;
            } else {
                assert!(
                    away[drone] > 0,
                    "drone {drone} lost something, and was not killed"
                );
                lost[drone] += 1;
                away[drone] -= 1;
            }
        }
        let draw = drawn(&mut seed) % 480;
        if draw < 2 {
            let victim = draw as usize;
            world.restart(victim);
            kills[victim] += 1;
            away[victim] = 4; // a second to be back
        }
        assert_eq!(world.fault, None, "at {} s", world.now_ns / SECOND_NS);
    }
    let completed = world.completed;
    println!("an hour: {completed} handshakes, kills {kills:?}, exchanges {passed:?}, lost by the killed {lost:?}");
    assert!(kills.iter().all(|count| *count >= 20));
    assert!(completed >= 2 * 100 + (kills[0] + kills[1]));
}
