//! The two senders: at a fixed rate, and as fast as the sink acknowledges.

use crate::args::Args;
use crate::stamp::{self, STAMP_BYTES};
use crate::Outcome;
use pq_core::udp::{self, Sender};
use std::io::{ErrorKind, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A window that is not acknowledged for so long is given up as lost.
const GIVE_UP: Duration = Duration::from_millis(50);

/// Sends stamped datagrams in groups.
struct Source {
    socket: UdpSocket,
    target: SocketAddr,
    payloads: Vec<Vec<u8>>,
    /// Equal lengths leave as one train (UDP GSO); otherwise one system call a datagram.
    as_train: bool,
    sender: Sender,
    sent: u64,
}

impl Source {
    fn new(args: &Args) -> Result<Self, Box<dyn std::error::Error>> {
        let size: usize = args.get("size")?;
        if size < STAMP_BYTES {
            return Err(
                format!("--size {size} cannot hold the stamp of {STAMP_BYTES} bytes").into(),
            );
        }
        let burst: usize = args.get("burst")?;
        Ok(Self {
            socket: udp::bind(args.get("source")?)?,
            target: args.get("target")?,
            payloads: vec![vec![0; size]; burst.max(1)],
            as_train: args.optional("train")?.unwrap_or(0) != 0,
            sender: Sender::default(),
            sent: 0,
        })
    }

    fn group(&mut self) -> std::io::Result<()> {
        for payload in &mut self.payloads {
            stamp::write(payload, self.sent);
            self.sent += 1;
            if !self.as_train {
                self.socket.send_to(payload, self.target)?;
            }
        }
        if self.as_train {
            let slices: Vec<_> = self.payloads.iter().map(|p| IoSlice::new(p)).collect();
            let mut next = 0;
            while next < slices.len() {
                let sent = self
                    .sender
                    .send(&self.socket, self.target, &slices[next..])?;
                next += sent.accepted.max(1);
            }
        }
        Ok(())
    }
}

/// `send`: `--burst` datagrams, `--groups-hz` times a second, for `--seconds`.
pub fn open_loop(args: &Args) -> Outcome {
    let mut source = Source::new(args)?;
    let (rate_hz, seconds): (f64, f64) = (args.get("groups-hz")?, args.get("seconds")?);
    let groups = (rate_hz * seconds).round() as u32;
    let start = Instant::now();
    let mut late = 0;
    for number in 0..groups {
        let due = Duration::from_secs_f64(f64::from(number) / rate_hz);
        let now = start.elapsed();
        match due.checked_sub(now) {
            Some(left) => sleep(left),
            None if now > due + Duration::from_millis(1) => late += 1,
            None => {}
        }
        source.group()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{{\"sent_count\": {}, \"seconds\": {seconds:.6}, \"late_groups_count\": {late}}}",
        source.sent
    );
    Ok(())
}

/// `closed`: at most `--window` datagrams on their way, for `--seconds`; the sink acknowledges to `--ack`.
pub fn closed_loop(args: &Args) -> Outcome {
    let mut source = Source::new(args)?;
    let (window, seconds): (u64, f64) = (args.get("window")?, args.get("seconds")?);
    let acks = udp::bind(args.get("ack")?)?;
    acks.set_read_timeout(Some(GIVE_UP))?;
    let burst = source.payloads.len() as u64;
    let (mut acknowledged, mut given_up) = (0_u64, 0_u64);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        while source.sent + burst <= acknowledged + given_up + window {
            source.group()?;
        }
        let mut word = [0; 8];
        match acks.recv(&mut word) {
            // The sink counts what came at all, so a datagram given up that comes late is not counted twice.
            Ok(8) => {
                acknowledged = acknowledged.max(u64::from_be_bytes(word));
                given_up = given_up.min(source.sent.saturating_sub(acknowledged));
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                given_up = source.sent - acknowledged;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{{\"sent_count\": {}, \"seconds\": {seconds:.6}}}",
        source.sent
    );
    Ok(())
}
