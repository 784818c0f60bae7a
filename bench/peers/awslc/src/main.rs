//! TLS 1.3 handshakes between two long-lived processes, timed at the client: rustls on AWS-LC, with the command line,
//! the certificates and the clock of `tls_peer.c`.
//!
//! `server FOLDER ADDRESS PORT mutual|server` · `client FOLDER ADDRESS PORT mutual|server COUNT`. Group MLKEM768 alone,
//! signatures ML-DSA-65 alone, no tickets, no resumption. Each end knows the other's certificate beforehand: it is
//! compared, and the other end has to prove its key; no chain is looked at. A handshake begins with connect.
//! `finished`: the client has sent its Finished. `confirmed`: the first byte that the server sends after its own
//! handshake is done came, which is when the client knows that the server accepted it.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{verify_tls13_signature, CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::NoServerSessionStorage;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    Error, HandshakeKind, NamedGroup, ServerConfig, ServerConnection, SignatureScheme, Stream,
};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

const LIBRARY: &str = "rustls 0.23.46, aws-lc-rs 1.19.0";
const CONFIRMATION: u8 = b'k';
const PAUSE: Duration = Duration::from_millis(2);

/// AWS-LC with nothing but ML-KEM-768 and AES-256-GCM.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups: vec![kx_group::MLKEM768],
        cipher_suites: vec![cipher_suite::TLS13_AES_256_GCM_SHA384],
        ..default_provider()
    })
}

/// Takes one certificate, and ML-DSA-65 alone.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn new(folder: &Path, name: &str) -> Result<Self, Failure> {
        Ok(Self {
            certificate: certificate(folder, name)?,
            algorithms: default_provider().signature_verification_algorithms,
        })
    }

    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if *shown == self.certificate {
            return Ok(());
        }
        Err(CertificateError::UnknownIssuer.into())
    }
}

/// What both ends ask of the other's signature.
macro_rules! proofs {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("this is not TLS 1.3".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            shown: &CertificateDer<'_>,
            proof: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, shown, proof, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ML_DSA_65]
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    proofs!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    proofs!();
}

fn certificate(folder: &Path, name: &str) -> Result<CertificateDer<'static>, Failure> {
    let path = folder.join(format!("{name}.cert.pem"));
    CertificateDer::from_pem_file(&path)
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

fn key(folder: &Path, name: &str) -> Result<PrivateKeyDer<'static>, Failure> {
    let path = folder.join(format!("{name}.key.pem"));
    PrivateKeyDer::from_pem_file(&path)
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

fn server_config(folder: &Path, mutual: bool) -> Result<ServerConfig, Failure> {
    let started = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let checked = if mutual {
        started.with_client_cert_verifier(Arc::new(Pinned::new(folder, "client")?))
    } else {
        started.with_no_client_auth()
    };
    let mut config =
        checked.with_single_cert(vec![certificate(folder, "server")?], key(folder, "server")?)?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

fn client_config(folder: &Path, mutual: bool) -> Result<ClientConfig, Failure> {
    let checked = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned::new(folder, "server")?));
    let mut config = if mutual {
        checked
            .with_client_auth_cert(vec![certificate(folder, "client")?], key(folder, "client")?)?
    } else {
        checked.with_no_client_auth()
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// One connection at the server, until the client has gone: `TIME_WAIT` belongs to it, as in the tunnel's handshake.
fn answer(socket: &mut TcpStream, config: &Arc<ServerConfig>) -> Result<(), Failure> {
    socket.set_nodelay(true)?;
    let mut tls = ServerConnection::new(config.clone())?;
    while tls.is_handshaking() {
        tls.complete_io(socket)?;
    }
    let mut stream = Stream::new(&mut tls, socket);
    stream.write_all(&[CONFIRMATION])?;
    let _ = stream.read(&mut [0]); // the end of it, or a reset: both say that the client has gone
    Ok(())
}

fn serve(folder: &Path, address: &str, mutual: bool) -> Result<(), Failure> {
    let config = Arc::new(server_config(folder, mutual)?);
    let listener = TcpListener::bind(address)?;
    println!("ready");
    for socket in listener.incoming() {
        if let Err(error) = answer(&mut socket?, &config) {
            eprintln!("awslc: a handshake failed: {error}");
        }
    }
    Ok(())
}

/// (finished, confirmed) of one handshake, ms from before connect.
fn handshake(config: &Arc<ClientConfig>, address: &str) -> Result<(f64, f64), Failure> {
    let name = ServerName::try_from("bench-server")?;
    let start = Instant::now();
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let mut tls = ClientConnection::new(config.clone(), name)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)?;
    }
    let finished = start.elapsed();
    let mut byte = [0];
    Stream::new(&mut tls, &mut socket).read_exact(&mut byte)?;
    let confirmed = start.elapsed();
    let group = tls
        .negotiated_key_exchange_group()
        .map(rustls::crypto::SupportedKxGroup::name);
    if byte != [CONFIRMATION]
        || group != Some(NamedGroup::MLKEM768)
        || tls.handshake_kind() != Some(HandshakeKind::Full)
    {
        return Err("this is not the handshake that was asked for".into());
    }
    tls.send_close_notify();
    tls.write_tls(&mut socket)?;
    Ok((finished.as_secs_f64() * 1e3, confirmed.as_secs_f64() * 1e3))
}

fn dial(folder: &Path, address: &str, mutual: bool, count: usize) -> Result<(), Failure> {
    let config = Arc::new(client_config(folder, mutual)?);
    let mut rows = String::new();
    for number in 0..count {
        let (finished, confirmed) = handshake(&config, address)?;
        let comma = if number > 0 { ", " } else { "" };
        write!(
            rows,
            "{comma}{{\"finished_ms\": {finished:.6}, \"confirmed_ms\": {confirmed:.6}}}"
        )?;
        std::thread::sleep(PAUSE);
    }
    println!("{{\"library\": \"{LIBRARY}\", \"handshakes\": [{rows}]}}");
    Ok(())
}

fn main() -> Result<(), Failure> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        ["server", folder, host, port, kind] => serve(
            Path::new(folder),
            &format!("{host}:{port}"),
            kind == "mutual",
        ),
        ["client", folder, host, port, kind, count] => {
            let address = format!("{host}:{port}");
            dial(
                Path::new(folder),
                &address,
                kind == "mutual",
                count.parse()?,
            )
        }
        _ => Err("usage: server|client FOLDER ADDRESS PORT mutual|server [COUNT]".into()),
    }
}
