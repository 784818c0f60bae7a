//! Rosenpass handshakes over UDP between two long-lived processes, timed at the initiator.
//!
//! `keygen FOLDER` · `respond FOLDER LISTEN` · `initiate FOLDER LISTEN PEER COUNT`. A handshake lasts from making the
//! first message to having checked the responder's last one (`EmptyData`), which proves that it holds the key.

use anyhow::{bail, Context, Result};
use rosenpass::pqkem::{StaticKEM, KEM};
use rosenpass::protocol::{CryptoServer, MsgBuf, PeerPtr, SPk, SSk, SymKey};
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

fn keygen(folder: &Path) -> Result<()> {
    for name in ["initiator", "responder"] {
        let (mut secret, mut public) = (SSk::zero(), SPk::zero());
        StaticKEM::keygen(secret.secret_mut(), public.secret_mut())?;
        std::fs::write(folder.join(format!("{name}.secret")), secret.secret())?;
        std::fs::write(folder.join(format!("{name}.public")), public.secret())?;
    }
    Ok(())
}

fn server(folder: &Path, mine: &str, theirs: &str) -> Result<CryptoServer> {
    let read = |name: String| std::fs::read(folder.join(&name)).context(name);
    let secret = SSk::from_slice(&read(format!("{mine}.secret"))?);
    let public = SPk::from_slice(&read(format!("{mine}.public"))?);
    let mut server = CryptoServer::new(secret, public);
    server.add_peer(
        Some(SymKey::zero()),
        SPk::from_slice(&read(format!("{theirs}.public"))?),
    )?;
    Ok(server)
}

fn respond(folder: &Path, listen: &str) -> Result<()> {
    let mut server = server(folder, "responder", "initiator")?;
    let socket = UdpSocket::bind(listen)?;
    println!("ready");
    let (mut incoming, mut answer) = ([0; 65_536], MsgBuf::zero());
    loop {
        let (length, source) = socket.recv_from(&mut incoming)?;
        if let Some(size) = server.handle_msg(&incoming[..length], &mut *answer)?.resp {
            socket.send_to(&answer[..size], source)?;
        }
    }
}

fn initiate(folder: &Path, listen: &str, peer: &str, count: usize) -> Result<()> {
    let mut server = server(folder, "initiator", "responder")?;
    let socket = UdpSocket::bind(listen)?;
    socket.connect(peer)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut incoming, mut message) = ([0; 65_536], MsgBuf::zero());
    let mut taken_ms = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let mut size = Some(server.initiate_handshake(PeerPtr(0), &mut *message)?);
        while let Some(length) = size {
            socket.send(&message[..length])?;
            let length = socket.recv(&mut incoming).context("no answer")?;
            size = server.handle_msg(&incoming[..length], &mut *message)?.resp;
        }
        taken_ms.push(format!("{:.6}", start.elapsed().as_secs_f64() * 1e3));
    }
    println!("{{\"wall_ms\": [{}]}}", taken_ms.join(", "));
    Ok(())
}

fn main() -> Result<()> {
    rosenpass::sodium::sodium_init()?;
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        ["keygen", folder] => keygen(Path::new(folder)),
        ["respond", folder, listen] => respond(Path::new(folder), listen),
        ["initiate", folder, listen, peer, count] => {
            initiate(Path::new(folder), listen, peer, count.parse()?)
        }
        _ => bail!(
            "usage: keygen FOLDER | respond FOLDER LISTEN | initiate FOLDER LISTEN PEER COUNT"
        ),
    }
}
