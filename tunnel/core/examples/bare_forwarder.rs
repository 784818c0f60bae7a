//! A bare UDP forwarder to compare the tunnel with: the same sockets and batches, no crypto, no accounting.
//!
//! `bare_forwarder LISTEN TARGET [LISTEN TARGET …]` runs one thread a pair until its standard input ends.

use pq_core::udp::{self, Receiver, Sender};
use std::io::{IoSlice, Read};
use std::net::SocketAddr;

fn forward(listen: SocketAddr, target: SocketAddr) -> std::io::Result<()> {
    let socket = udp::bind(listen)?;
    let _ = udp::enable(&socket);
    let (mut receiver, mut sender) = (Receiver::default(), Sender::default());
    let mut arrivals = Vec::new();
    println!("ready {listen}");
    loop {
        arrivals.clear();
        receiver.receive(&socket, &mut arrivals)?;
        let buffer = &*receiver.buffer();
        let slices: Vec<_> = arrivals
            .iter()
            .flat_map(udp::Arrival::datagrams)
            .map(|(offset, length)| IoSlice::new(&buffer[offset..offset + length]))
            .collect();
        let mut next = 0;
        while next < slices.len() {
            next += sender
                .send(&socket, target, &slices[next..])?
                .accepted
                .max(1);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addresses: Vec<SocketAddr> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    if addresses.is_empty() || addresses.len() % 2 != 0 {
        return Err("usage: bare_forwarder LISTEN TARGET [LISTEN TARGET ...]".into());
    }
    for pair in addresses.chunks_exact(2) {
        let (listen, target) = (pair[0], pair[1]);
        std::thread::spawn(move || {
            if let Err(error) = forward(listen, target) {
                eprintln!("{listen} to {target}: {error}");
            }
        });
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
