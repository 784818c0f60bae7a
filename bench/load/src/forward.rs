//! The plainest forwarder: receive one, send one. What receive and send offload add at low rates is seen against it.

use crate::args::Args;
use crate::Outcome;
use pq_core::udp;
use std::net::SocketAddr;

/// `forward`: from `--listen` to `--target`, until killed.
pub fn run(args: &Args) -> Outcome {
    let socket = udp::bind(args.get("listen")?)?;
    let target: SocketAddr = args.get("target")?;
    let mut buffer = vec![0; 65_536];
    println!("ready");
    loop {
        let (length, _) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..length], target)?;
    }
}
