//! DTLS 1.3 (RFC 9147) with TLS_AES_256_GCM_SHA384 as a forwarder of datagrams, by the crate dimpl on AWS-LC.
//!
//! ```text
//! peer-dtls13 keys FOLDER                               a certificate and key for each side
//! peer-dtls13 gcs FOLDER NETWORK TARGET                 opens what comes to NETWORK and sends it to TARGET
//! peer-dtls13 drone FOLDER NETWORK GCS LISTEN           seals what comes to LISTEN and sends it to GCS from NETWORK
//! ```
//!
//! Each side signs and checks the other's certificate, byte for byte: nothing else is trusted. A datagram is a record, a
//! system call to read it and one to send it. `ready` is said by the drone when the session of version 1.3 stands, by the
//! gcs when it listens. Either ends when its session does.

use dimpl::crypto::Dtls13CipherSuite;
use dimpl::{certificate, Config, Dtls, DtlsCertificate, Output, ProtocolVersion};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const MTU_BYTES: usize = 1_400;
const BUFFER_BYTES: usize = 65_536;
/// How long nothing comes before the session is asked whether it has to send something again.
const TICK: Duration = Duration::from_millis(20);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// One end's session and the socket to the other.
struct Session {
    dtls: Dtls,
    network: UdpSocket,
    /// Where records go; the gcs learns it from what comes.
    peer: Option<SocketAddr>,
    peer_certificate: Vec<u8>,
    known: bool,
    stands: bool,
    buffer: Vec<u8>,
}

impl Session {
    fn new(folder: &Path, role: &str, network: UdpSocket) -> Outcome<Self> {
        let other = if role == "drone" { "gcs" } else { "drone" };
        let own = DtlsCertificate {
            certificate: std::fs::read(folder.join(format!("{role}.crt")))?,
            private_key: std::fs::read(folder.join(format!("{role}.key")))?,
        };
        let config = Config::builder()
            .mtu(MTU_BYTES)
            .require_client_certificate(true)
            .dtls12_cipher_suites(&[])
            .dtls13_cipher_suites(&[Dtls13CipherSuite::AES_256_GCM_SHA384])
            .build()?;
        let mut dtls = Dtls::new_13(Arc::new(config), own, Instant::now());
        dtls.set_active(role == "drone");
        Ok(Self {
            dtls,
            network,
            peer: None,
            peer_certificate: std::fs::read(folder.join(format!("{other}.crt")))?,
            known: false,
            stands: false,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Sends what is to be sent; what was opened goes to `deliver`.
    fn drain(&mut self, mut deliver: impl FnMut(&[u8]) -> Outcome) -> Outcome {
        loop {
            match self.dtls.poll_output(&mut self.buffer) {
                Output::Packet(record) => {
                    let peer = self.peer.ok_or("a record before anybody wrote")?;
                    self.network.send_to(record, peer)?;
                }
                Output::PeerCert(told) if told == self.peer_certificate => self.known = true,
                Output::PeerCert(_) => return Err("the other side has another certificate".into()),
                Output::Connected => self.stands = true,
                Output::ApplicationData(_) if !(self.known && self.stands) => {
                    return Err("data before the other side was known".into());
                }
                Output::ApplicationData(data) => deliver(data)?,
                Output::BufferTooSmall { needed } => {
                    return Err(format!("a record of {needed} bytes").into())
                }
                Output::CloseNotify => return Err("the other side closed the session".into()),
                Output::Timeout(_) => return Ok(()),
                _ => {}
            }
        }
    }

    fn seal(&mut self, data: &[u8]) -> Outcome {
        if self.dtls.send_application_data(data)? != data.len() {
            return Err("not all of a datagram was taken".into());
        }
        self.drain(|_| Ok(()))
    }

    fn is_up(&self) -> bool {
        self.known && self.stands && self.dtls.protocol_version() == Some(ProtocolVersion::DTLS1_3)
    }
}

/// Bytes that came within a tick, and from whom.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Outcome<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn keys(folder: &Path) -> Outcome {
    for role in ["drone", "gcs"] {
        let made = certificate::generate_self_signed_certificate()?;
        std::fs::write(folder.join(format!("{role}.crt")), made.certificate)?;
        std::fs::write(folder.join(format!("{role}.key")), made.private_key)?;
    }
    Ok(())
}

fn gcs(folder: &Path, network: &str, target: SocketAddr) -> Outcome {
    let network = UdpSocket::bind(network)?;
    network.set_read_timeout(Some(TICK))?;
    let out = UdpSocket::bind((network.local_addr()?.ip(), 0))?;
    let mut session = Session::new(folder, "gcs", network.try_clone()?)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    println!("ready");
    loop {
        match received(&network, &mut buffer)? {
            Some((length, from)) => {
                session.peer.get_or_insert(from);
                session.dtls.handle_packet(&buffer[..length])?;
            }
            None => session.dtls.handle_timeout(Instant::now())?,
        }
        session.drain(|data| out.send_to(data, target).map(|_| ()).map_err(Into::into))?;
    }
}

fn drone(folder: &Path, network: &str, peer: SocketAddr, listen: &str) -> Outcome {
    let network = UdpSocket::bind(network)?;
    network.set_read_timeout(Some(TICK))?;
    let plain = UdpSocket::bind(listen)?;
    let mut session = Session::new(folder, "drone", network.try_clone()?)?;
    session.peer = Some(peer);
    let mut buffer = vec![0; BUFFER_BYTES];
    let begun = Instant::now();
    while !session.is_up() {
        if begun.elapsed() > CONNECT_LIMIT {
            return Err("no session of DTLS 1.3 within 5 s".into());
        }
        session.dtls.handle_timeout(Instant::now())?;
        session.drain(|_| Ok(()))?;
        if let Some((length, _)) = received(&network, &mut buffer)? {
            session.dtls.handle_packet(&buffer[..length])?;
            session.drain(|_| Ok(()))?;
        }
    }
    println!("ready");
    let session = Arc::new(Mutex::new(session));
    let answers = Arc::clone(&session);
    std::thread::spawn(move || {
        if let Err(error) = hear(&answers, &network) {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    });
    loop {
        let (length, _) = plain.recv_from(&mut buffer)?;
        session
            .lock()
            .map_err(|_| "the other thread ended")?
            .seal(&buffer[..length])?;
    }
}

/// What the gcs says to the drone: acknowledgements and new keys.
fn hear(session: &Mutex<Session>, network: &UdpSocket) -> Outcome {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let found = received(network, &mut buffer)?;
        let mut session = session.lock().map_err(|_| "the other thread ended")?;
        match found {
            Some((length, _)) => session.dtls.handle_packet(&buffer[..length])?,
            None => session.dtls.handle_timeout(Instant::now())?,
        }
        session.drain(|_| Ok(()))?;
    }
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(|word| &word[..]).collect();
    match words[..] {
        ["keys", folder] => keys(Path::new(folder)),
        ["gcs", folder, network, target] => gcs(Path::new(folder), network, target.parse()?),
        ["drone", folder, network, peer, listen] => drone(Path::new(folder), network, peer.parse()?, listen),
        _ => Err("usage: peer-dtls13 keys FOLDER | gcs FOLDER NETWORK TARGET | drone FOLDER NETWORK GCS LISTEN".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("dtls13-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        keys(&path).unwrap();
        path
    }

    /// Runs a gcs that hands over to port 46083 until it fails; what it says then comes by the channel.
    fn served(folder: PathBuf, port: u16) -> std::sync::mpsc::Receiver<String> {
        let (told, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let ended = gcs(
                &folder,
                &format!("127.0.0.1:{port}"),
                ([127, 0, 0, 1], 46_083).into(),
            );
            let _ = told.send(ended.unwrap_err().to_string());
        });
        std::thread::sleep(Duration::from_millis(100));
        hears
    }

    #[test]
    fn another_certificate_is_refused_by_either_side() {
        let (right, wrong) = (folder("right"), folder("wrong"));
        std::fs::copy(right.join("gcs.crt"), wrong.join("gcs.crt")).unwrap();
        let hears = served(right.clone(), 46_080);
        let other = wrong.clone();
        // a client of 1.3 is done before the server looks at its certificate: it may stand and go on alone
        std::thread::spawn(move || {
            let _ = drone(
                &other,
                "127.0.0.1:0",
                ([127, 0, 0, 1], 46_080).into(),
                "127.0.0.1:0",
            );
        });
        let said = hears.recv_timeout(CONNECT_LIMIT).unwrap();
        assert_eq!(said, "the other side has another certificate");

        std::fs::copy(right.join("drone.crt"), wrong.join("drone.crt")).unwrap();
        std::fs::copy(right.join("drone.key"), wrong.join("drone.key")).unwrap();
        std::fs::copy(right.join("drone.crt"), wrong.join("gcs.crt")).unwrap();
        let _hears = served(right, 46_081);
        let dialled = drone(
            &wrong,
            "127.0.0.1:0",
            ([127, 0, 0, 1], 46_081).into(),
            "127.0.0.1:0",
        );
        assert_eq!(
            dialled.unwrap_err().to_string(),
            "the other side has another certificate"
        );
    }

    #[test]
    fn what_is_sealed_comes_out_again() {
        let sink = UdpSocket::bind("127.0.0.1:46083").unwrap();
        sink.set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let folder = folder("good");
        let _hears = served(folder.clone(), 46_084);
        std::thread::spawn(move || {
            let _ = drone(
                &folder,
                "127.0.0.1:0",
                ([127, 0, 0, 1], 46_084).into(),
                "127.0.0.1:46085",
            );
        });
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buffer = vec![0; BUFFER_BYTES];
        for length in [1_usize, 64, 1200] {
            let data: Vec<u8> = (0..length).map(|place| place as u8).collect();
            // one that comes before the other side is done may be lost
            let got = (0..50).find_map(|_| {
                let _ = source.send_to(&data, "127.0.0.1:46085");
                sink.recv_from(&mut buffer).ok()
            });
            let (got, _) = got.expect("within 5 s");
            assert_eq!(buffer[..got], data);
        }
    }

    #[test]
    fn version_1_2_makes_no_session() {
        let folder = folder("old");
        // a client that nothing but its version speaks against
        let own = DtlsCertificate {
            certificate: std::fs::read(folder.join("drone.crt")).unwrap(),
            private_key: std::fs::read(folder.join("drone.key")).unwrap(),
        };
        let _hears = served(folder, 46_082);
        let taken = UdpSocket::bind("127.0.0.1:46082").is_err();
        assert!(taken, "the gcs listens");
        let config = Config::builder().dtls13_cipher_suites(&[]).build().unwrap();
        let mut old = Dtls::new_12(Arc::new(config), own, Instant::now());
        old.set_active(true);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TICK)).unwrap();
        let mut buffer = vec![0; BUFFER_BYTES];
        for _ in 0..20 {
            old.handle_timeout(Instant::now()).unwrap();
            loop {
                match old.poll_output(&mut buffer) {
                    Output::Packet(record) => {
                        socket.send_to(record, ("127.0.0.1", 46_082)).unwrap();
                    }
                    Output::Connected => panic!("a session of version 1.2"),
                    Output::Timeout(_) => break,
                    _ => {}
                }
            }
            if let Ok(Some((length, _))) = received(&socket, &mut buffer) {
                if old.handle_packet(&buffer[..length]).is_err() {
                    return;
                }
            }
        }
    }
}
