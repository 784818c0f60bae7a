//! Ten times a second: processor time and memory of farm and station, and what the whole machine was busy with.

use crate::farm::Farm;
use pq_core::cell::locked;
use pq_link::raw::clock::{monotonic_ns, process_cpu_ns};
use std::fs::read_to_string;
use std::sync::atomic::Ordering;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);

fn resident_kib(process: u32) -> Option<u64> {
    let status = read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Ticks (10 ms) in which any processor of the machine worked.
fn busy_ticks() -> Option<u64> {
    let stat = read_to_string("/proc/stat").ok()?;
    let words = stat.lines().next()?.split_whitespace().skip(1);
    let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    // user, nice, system; interrupts, soft interrupts, stolen
    Some(
        [0, 1, 2, 5, 6, 7]
            .iter()
            .filter_map(|at| ticks.get(*at))
            .sum(),
    )
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

impl Farm {
    /// One row now.
    pub fn sample(&self) {
        // Orders take samples, too: read and written by one after another, or rows stand in another order than their times.
        let _one_at_a_time = locked(&self.sampling);
        let own = std::process::id();
        let station = self.station.load(Ordering::Relaxed);
        let of_station = (station != 0).then_some(station);
        self.rows.add(format!(
            "sample,{},{},{},{},{},{},{}",
            monotonic_ns(),
            shown(process_cpu_ns(own)),
            shown(resident_kib(own)),
            shown(of_station),
            shown(of_station.and_then(process_cpu_ns)),
            shown(of_station.and_then(resident_kib)),
            shown(busy_ticks()),
        ));
    }

    pub fn keep_sampling(&self) {
        while !self.is_over() {
            self.sample();
            std::thread::sleep(EVERY);
        }
    }
}
