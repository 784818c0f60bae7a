//! Forged datagrams at a fixed rate: a header the receiver takes for its own, everything behind it random.

use crate::args::Args;
use crate::Outcome;
use pq_core::udp;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Groups a second: pacing finer than the scheduler's ticks would be a busy loop on a core the tunnel needs.
const GROUPS_HZ: u32 = 1_000;

/// A small generator (xorshift64*): the bytes need to be many and different, not secret.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_be_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// `flood`: `--rate-hz` datagrams of `--size` bytes to `--target` for `--seconds`, each beginning with the 32-bit `--word`.
pub fn run(args: &Args) -> Outcome {
    let (rate_hz, seconds): (u32, f64) = (args.get("rate-hz")?, args.get("seconds")?);
    let (size, word): (usize, u32) = (args.get("size")?, args.get("word")?);
    if size < 24 {
        return Err(format!("--size {size}: a sealed datagram has at least 24 bytes").into());
    }
    let socket = udp::bind(args.get("source")?)?;
    let target: SocketAddr = args.get("target")?;
    let mut noise = Noise(args.get::<u64>("seed")? | 1);
    let mut datagram = vec![0; size];
    datagram[..4].copy_from_slice(&word.to_be_bytes());
    let (each, groups) = (rate_hz / GROUPS_HZ, (seconds * f64::from(GROUPS_HZ)) as u32);
    let start = Instant::now();
    for number in 0..groups {
        let due = Duration::from_secs_f64(f64::from(number) / f64::from(GROUPS_HZ));
        if let Some(left) = due.checked_sub(start.elapsed()) {
            sleep(left);
        }
        for _ in 0..each {
            noise.fill(&mut datagram[4..]);
            socket.send_to(&datagram, target)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{{\"sent_count\": {}, \"seconds\": {seconds:.6}}}",
        u64::from(each) * u64::from(groups)
    );
    Ok(())
}
