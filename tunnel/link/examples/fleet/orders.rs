//! Orders from standard input, one at a time.

use crate::farm::Farm;
use crate::packets::{written, Probe, LOAD, PROBE, PROBE_BYTES};
use crate::rows::{drawn, or_empty};
use pq_link::raw::clock::monotonic_ns;
use pq_link::status;
use std::io::{BufRead as _, Write as _};
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const MS: i64 = 1_000_000;
const LOOK: Duration = Duration::from_millis(2);
/// Before the first drone of a stage: the farm itself must be ready.
const AHEAD_NS: i64 = 50 * MS;
/// A datagram that has not come back by then is lost; only a station in trouble takes so long.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// Of one drone, under way at once: a slow machine must not make them lost.
const OUTSTANDING: usize = 4;
/// After a load: what was sent has come or is lost.
const DRAIN: Duration = Duration::from_millis(500);
/// Rekeys draw their moments from another sequence than arrivals.
const REKEY_SEED: u64 = 0x5245_4B45_5900_0000;
const WAKES: usize = 500;

pub fn obey(farm: &Arc<Farm>) -> Result<(), String> {
    say("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("standard input: {error}"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["await", limit] => farm.await_station(number(limit)?)?,
            ["join", spread, limit] => farm.join(number(spread)?, number(limit)?),
            ["stage", name] => farm.enter_now(name),
            ["mark"] => farm.forget_who_is_back(),
            ["back", limit] => farm.wait_back(number(limit)?),
            ["exchange", name, count] => farm.exchange(name, number(count)?),
            ["window", name, for_ms, rate_hz, rekeys, limit] => {
                farm.watch(
                    name,
                    number(for_ms)?,
                    number(rate_hz)?,
                    number(rekeys)?,
                    number(limit)?,
                );
            }
            ["load", name, drones, rate_hz, for_ms, size] => {
                farm.load(
                    name,
                    number(drones)?,
                    number(rate_hz)?,
                    number(for_ms)?,
                    number(size)?,
                );
            }
            ["status", name] => farm.ask(name)?,
            ["wake"] => farm.wake(),
            ["end"] => {
                farm.sample();
                farm.finish();
                let (crossed, dropped) = (&farm.exchanges.crossed, &farm.dropped);
                let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
                farm.rows
                    .add(format!("farm,{},{}", read(crossed), read(dropped)));
                farm.rows.tell();
                say("done");
                return Ok(());
            }
            _ => return Err(format!("no order reads `{line}`")),
        }
        say("done");
    }
    Ok(()) // who gave the orders is gone, and so are the drones
}

fn say(word: &str) {
    println!("{word}");
    let _ = std::io::stdout().flush(); // nobody listens any more: standard input ends as well
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("`{word}` is no number that fits here"))
}

/// Microseconds, and nanoseconds of some minutes, fit.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Farm {
    fn await_station(&self, limit_ms: u64) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if let Ok(told) = status::ask(&self.config.status, "json") {
                let process = told.split("\"pid\":").nth(1);
                let process = process.and_then(|rest| rest.split(',').next());
                let process: u32 = process.and_then(|word| word.parse().ok()).unwrap_or(0);
                self.station.store(process, Ordering::Relaxed);
                self.rows
                    .add(format!("listening,{},{process}", monotonic_ns()));
                self.sample();
                return Ok(());
            }
            if begun.elapsed() > ms(limit_ms) {
                return Err(format!(
                    "the station does not answer on its status socket within {limit_ms} ms"
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn enter_now(&self, name: &str) {
        self.enter(name);
        self.rows.add(format!("stage,{name},{}", monotonic_ns()));
        self.sample();
    }

    fn join(&self, spread_us: u64, limit_ms: u64) {
        self.enter_now("join");
        let begin_ns = monotonic_ns() + AHEAD_NS;
        self.rows.add(format!("arrivals,{begin_ns},{spread_us}"));
        let mut state = self.seed;
        for drone in &self.drones {
            let after_us = drawn(&mut state) % spread_us.max(1);
            drone.join_at(begin_ns + whole(after_us) * 1000);
        }
        self.wait_back(limit_ms);
    }

    fn wait_back(&self, limit_ms: u64) {
        let begun = Instant::now();
        let waits = || {
            let mut drones = self.drones.iter();
            drones.any(|drone| drone.flight().back_ns.is_none())
        };
        while waits() && begun.elapsed() < ms(limit_ms) {
            std::thread::sleep(LOOK);
        }
        let stage = self.stage_name();
        for drone in &self.drones {
            let back_ns = or_empty(drone.flight().back_ns);
            self.rows
                .add(format!("back,{stage},{},{back_ns}", drone.number));
        }
        self.rows.add(format!("waited,{stage},{}", monotonic_ns()));
        self.sample();
    }

    /// Every drone's datagrams up and back, a few at a time.
    fn exchange(&self, name: &str, count: usize) {
        let number = self.exchanges.open();
        let total = count * self.drones.len();
        {
            let window = &mut *self.exchanges.window();
            window.1.reserve(total);
            for place in 0..total {
                window.1.push(Probe {
                    drone: place % self.drones.len(),
                    sent_ns: None,
                    returned_ns: None,
                });
            }
        }
        let most = OUTSTANDING * self.drones.len();
        let (mut next, mut last, mut seen) = (0, Instant::now(), 0);
        loop {
            let back = self.exchanges.returned.load(Ordering::Relaxed) as usize;
            if back > seen {
                (seen, last) = (back, Instant::now());
            }
            if back >= total || last.elapsed() > LOST_AFTER {
                break;
            }
            if next < total && next - back < most {
                let place = next;
                self.probe(number, place);
                next += 1;
            } else {
                std::thread::sleep(LOOK);
            }
        }
        self.tell_probes(name);
    }

    fn probe(&self, window: u8, place: usize) {
        let drone = &self.drones[place % self.drones.len()];
        let payload = written(PROBE, window, drone.number, place, PROBE_BYTES);
        // The time first: what comes back may come before this thread goes on.
        self.exchanges.window().1[place].sent_ns = Some(monotonic_ns());
        if !drone.flight().data(self, &payload) {
            self.exchanges.window().1[place].sent_ns = None;
        }
    }

    fn tell_probes(&self, name: &str) {
        for probe in &self.exchanges.window().1 {
            self.rows.add(format!(
                "probe,{name},{},{},{}",
                probe.drone,
                or_empty(probe.sent_ns),
                or_empty(probe.returned_ns)
            ));
        }
        self.sample();
    }

    /// Probes at set times, whatever comes back; meanwhile so many drones rekey, each at its own moment.
    fn watch(&self, name: &str, for_ms: u64, rate_hz: u64, rekeys: usize, limit_ms: u64) {
        self.enter_now(name);
        let window = self.exchanges.open();
        let begin_ns = monotonic_ns() + AHEAD_NS;
        let span_us = for_ms * 1000;
        let total = (for_ms * rate_hz / 1000) as usize;
        self.exchanges
            .window()
            .1
            .extend((0..total).map(|place| Probe {
                drone: place % self.drones.len(),
                sent_ns: None,
                returned_ns: None,
            }));
        self.rows.add(format!(
            "arrivals,{begin_ns},{}",
            if rekeys == 0 { 0 } else { span_us }
        ));
        let mut state = self.seed ^ REKEY_SEED;
        let rekeying = &self.drones[..rekeys.min(self.drones.len())];
        let before: Vec<u32> = rekeying
            .iter()
            .map(|drone| drone.flight().rekeys_done)
            .collect();
        for drone in rekeying {
            let after_us = drawn(&mut state) % span_us.max(1);
            drone.rekey_at(begin_ns + whole(after_us) * 1000);
        }
        for place in 0..total {
            let due_ns = begin_ns + whole(place as u64 * 1_000_000_000 / rate_hz.max(1));
            sleep_until(due_ns);
            self.probe(window, place);
        }
        let begun = Instant::now();
        let waits = || {
            let mut both = rekeying.iter().zip(&before);
            both.any(|(drone, before)| drone.flight().rekeys_done == *before)
        };
        while waits() && begun.elapsed() < ms(limit_ms) {
            std::thread::sleep(LOOK);
        }
        let last = Instant::now();
        let comes = || (self.exchanges.returned.load(Ordering::Relaxed) as usize) < total;
        while comes() && last.elapsed() < LOST_AFTER {
            std::thread::sleep(LOOK);
        }
        self.rows.add(format!("waited,{name},{}", monotonic_ns()));
        self.tell_probes(name);
    }

    /// So many drones send so often, one way, whatever arrives.
    fn load(&self, name: &str, drones: usize, rate_hz: u64, for_ms: u64, size: usize) {
        let window = self.exchanges.open();
        let drones = &self.drones[..drones.min(self.drones.len())];
        let total = drones.len() * (rate_hz * for_ms / 1000) as usize;
        let each_second = rate_hz * drones.len() as u64;
        self.sample();
        let begin_ns = monotonic_ns();
        let end_ns = begin_ns + whole(for_ms) * MS;
        let (mut next, mut sent) = (0, 0_u64);
        while next < total && monotonic_ns() < end_ns {
            let due_ns = begin_ns + whole(next as u64 * 1_000_000_000 / each_second.max(1));
            sleep_until(due_ns.min(end_ns));
            let payload = written(LOAD, window, next % drones.len(), next, size);
            sent += u64::from(drones[next % drones.len()].flight().data(self, &payload));
            next += 1;
        }
        let done_ns = monotonic_ns();
        self.sample();
        std::thread::sleep(DRAIN);
        let arrived = self.exchanges.arrived.load(Ordering::Relaxed);
        self.rows.add(format!(
            "load,{name},{},{rate_hz},{size},{begin_ns},{done_ns},{total},{sent},{arrived}",
            drones.len(),
        ));
        // For whoever decides whether more is worth trying.
        println!("load {total} {sent} {arrived}");
    }

    fn ask(&self, name: &str) -> Result<(), String> {
        let now_ns = monotonic_ns();
        let told = status::ask(&self.config.status, "json")?;
        self.rows
            .add(format!("status,{name},{now_ns},{}", told.trim()));
        self.sample();
        Ok(())
    }

    /// How long a thread that waits takes to run after it was woken: what every handshake pays at each message.
    fn wake(&self) {
        let shared = (Mutex::new(false), Condvar::new());
        let (asked_ns, mut found) = (AtomicI64::new(0), Vec::new());
        let lock = || {
            shared
                .0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let mut took = Vec::new();
                for _ in 0..WAKES {
                    let mut is_asked = lock();
                    while !*is_asked {
                        let woken = shared.1.wait(is_asked);
                        is_asked = woken.unwrap_or_else(std::sync::PoisonError::into_inner);
                    }
                    took.push(monotonic_ns() - asked_ns.load(Ordering::Relaxed));
                    *is_asked = false;
                }
                took
            });
            for _ in 0..WAKES {
                std::thread::sleep(ms(1));
                asked_ns.store(monotonic_ns(), Ordering::Relaxed);
                *lock() = true;
                shared.1.notify_one();
                while *lock() && !sleeper.is_finished() {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            found = sleeper.join().unwrap_or_default();
        });
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        self.rows.add(format!("wake,{}", told.join(" ")));
    }
}

fn sleep_until(due_ns: i64) {
    let left_ns = due_ns - monotonic_ns();
    // Shorter than the system can sleep: what is late by less goes at once.
    if left_ns > 50_000 {
        std::thread::sleep(Duration::from_nanos(left_ns.unsigned_abs()));
    }
}
