//! The receiving end: counts, rates over 100 ms, latencies by the kernel's receive time.

use crate::args::Args;
use crate::stamp;
use crate::Outcome;
use pq_core::udp::{self, Arrival, Receiver};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BIN_NS: u64 = 100_000_000;
/// After the stop is asked for, the last datagrams have so long to come.
const QUIET: Duration = Duration::from_millis(150);

/// What came so far.
#[derive(Default)]
struct Taken {
    seen: Vec<u64>,
    received: u64,
    duplicates: u64,
    reordered: u64,
    foreign: u64,
    newest: Option<u64>,
    first_ns: u64,
    last_ns: u64,
    latencies_ns: Vec<u32>,
    bins: BTreeMap<u64, u64>,
}

impl Taken {
    fn add(&mut self, payload: &[u8], now_ns: u64) {
        let Some((number, sent_ns)) = stamp::read(payload) else {
            self.foreign += 1;
            return;
        };
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicates += 1;
            return;
        }
        self.seen[word] |= bit;
        self.received += 1;
        if self.newest.is_some_and(|newest| number < newest) {
            self.reordered += 1;
        }
        self.newest = self.newest.max(Some(number));
        if self.first_ns == 0 {
            self.first_ns = now_ns;
        }
        self.last_ns = now_ns;
        *self.bins.entry(now_ns / BIN_NS).or_default() += 1;
        let latency = now_ns.saturating_sub(sent_ns);
        self.latencies_ns
            .push(u32::try_from(latency).unwrap_or(u32::MAX));
    }

    fn json(&mut self, stamped: bool, dropped: u32) -> String {
        self.latencies_ns.sort_unstable();
        let seconds = (self.last_ns - self.first_ns) as f64 / 1e9;
        let latencies: Vec<String> = self.latencies_ns.iter().map(u32::to_string).collect();
        let bins: Vec<String> = self.bins.values().map(u64::to_string).collect();
        format!(
            "{{\"received_count\": {}, \"duplicate_count\": {}, \"reordered_count\": {}, \"foreign_count\": {}, \
             \"socket_drop_count\": {dropped}, \"seconds\": {seconds:.6}, \"kernel_stamps\": {stamped}, \
             \"per_100_ms_count\": [{}], \"latencies_ns\": [{}]}}",
            self.received,
            self.duplicates,
            self.reordered,
            self.foreign,
            bins.join(","),
            latencies.join(","),
        )
    }
}

/// `sink`: listen on `--listen` until standard input ends; with `--ack`, tell that address how many have come.
pub fn run(args: &Args) -> Outcome {
    let socket = udp::bind(args.get("listen")?)?;
    let stamped = udp::enable(&socket);
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let ack: Option<SocketAddr> = args.optional("ack")?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        asked.store(true, Ordering::Relaxed);
    });
    println!("ready");
    let (mut receiver, mut arrivals) = (Receiver::default(), Vec::<Arrival>::new());
    let (mut taken, mut dropped) = (Taken::default(), 0);
    let mut last = Instant::now();
    loop {
        arrivals.clear();
        match receiver.receive(&socket, &mut arrivals) {
            Ok(()) => last = Instant::now(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if stop.load(Ordering::Relaxed) && last.elapsed() > QUIET {
                    break;
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let buffer = &*receiver.buffer();
        for arrival in &arrivals {
            let time_ns = arrival.time_ns();
            dropped = arrival.dropped.unwrap_or(dropped);
            for (offset, length) in arrival.datagrams() {
                taken.add(&buffer[offset..offset + length], time_ns);
            }
        }
        if let Some(ack) = ack {
            socket.send_to(&taken.received.to_be_bytes(), ack)?;
        }
    }
    println!("{}", taken.json(stamped, dropped));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_strangers_are_not_counted_as_received() {
        let mut taken = Taken::default();
        let mut payload = [0; 24];
        for number in [0, 1, 3, 2, 2] {
            stamp::write(&mut payload, number);
            taken.add(&payload, udp::realtime_ns());
        }
        taken.add(b"announce", udp::realtime_ns());
        assert_eq!((taken.received, taken.duplicates), (4, 1));
        assert_eq!((taken.reordered, taken.foreign), (1, 1));
        assert_eq!(taken.latencies_ns.len(), 4);
    }
}
