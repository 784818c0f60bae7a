//! `pqlink`: a link between drones and a ground station, without a lab (docs/LINK-PRODUCT.md).

use pq_core::session::Role;
use pq_link::config::{self, Config};
use pq_link::dialling::{self, Drone};
use pq_link::link::log;
use pq_link::primitives::{HostPrimitives, Primitives as _};
use pq_link::raw::signals;
use pq_link::reception;
use pq_link::station::Station;
use pq_link::suite::Suite;
use pq_link::{ending, keys, peer_command, status};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage:
  pqlink keygen FOLDER     make gcs.key, gcs.pub and drone.key there
  pqlink up CONFIG         run this end until SIGTERM or Ctrl-C
  pqlink up CONFIG --stop-with-stdin    … or until standard input ends, as under a service host
  pqlink status CONFIG     ask the end that runs with this configuration; --json: for programs
  pqlink peer list CONFIG                              the drones of a ground station
  pqlink peer reload CONFIG                            after their files were edited by hand
  pqlink peer add CONFIG NAME PLAINTEXT APPLICATION    make a key for one more
  pqlink peer rotate CONFIG NAME                       make its next key; both are good
  pqlink peer retire CONFIG NAME                       its next key alone is good
  pqlink peer revoke CONFIG NAME                       end its session, erase its key, refuse it by name
  pqlink suites            list the suites, and who provides the KEM of each
The configuration is described in docs/LINK-PRODUCT.md.";
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(|word| &word[..]).collect();
    let outcome = match words[..] {
        ["keygen", folder] => keygen(Path::new(folder)),
        ["up", file] => up(Path::new(file)),
        ["up", file, "--stop-with-stdin"] => {
            let watched = ending::stop_with_input();
            let watched = watched.map_err(|error| format!("standard input: {error}"));
            watched.and_then(|()| up(Path::new(file)))
        }
        ["status", file] => show_status(Path::new(file), "status"),
        ["status", file, "--json"] | ["status", "--json", file] => {
            show_status(Path::new(file), "json")
        }
        ["peer", verb, file, ref rest @ ..] if peer_command::is_call(verb, rest) => {
            read_config(Path::new(file))
                .and_then(|config| peer_command::run(&config, verb, rest).map_err(|e| e.0))
                .map(|text| print!("{text}"))
        }
        ["suites"] => {
            for suite in Suite::all() {
                println!("{:54} {}", suite.id(), suite.kem.provider());
            }
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn read_config(file: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{}: cannot read: {error}", file.display()))?;
    config::parse(file, &text).map_err(|error| error.0)
}

/// The liboqs in this program; a configuration that names another one shall not seem to be heeded.
#[cfg(feature = "static-oqs")]
fn load(library: Option<&Path>, pinned: Option<&str>) -> Result<HostPrimitives, String> {
    if library.is_some() || pinned.is_some() {
        return Err(
            "liboqs is inside this pqlink: take liboqs and liboqs_sha256 out of the configuration"
                .to_owned(),
        );
    }
    HostPrimitives::load(Path::new("")).map_err(|error| error.0)
}

/// Load liboqs; where its digest is pinned, only the file that has it.
#[cfg(not(feature = "static-oqs"))]
fn load(library: Option<&Path>, pinned: Option<&str>) -> Result<HostPrimitives, String> {
    let root = std::env::var("OQS_INSTALL_PATH").unwrap_or_else(|_| "/opt/liboqs".to_owned());
    let library = library.map_or_else(|| Path::new(&root).join("lib/liboqs.so"), Path::to_owned);
    if let Some(pinned) = pinned {
        let shown = library.display();
        let bytes = std::fs::read(&library).map_err(|error| format!("{shown}: {error}"))?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        let found = pq_link::hex::shown(digest.as_ref());
        if found != pinned {
            return Err(format!(
                "{shown}: its SHA-256 is {found}, not liboqs_sha256; install the library that was pinned"
            ));
        }
    }
    HostPrimitives::load(&library).map_err(|error| {
        let error = error.0;
        format!("{error}; name liboqs 0.13 in OQS_INSTALL_PATH, or as liboqs in the configuration")
    })
}

fn keygen(folder: &Path) -> Result<(), String> {
    let primitives = load(None, None)?;
    let made = keys::generate(folder, &primitives).map_err(|error| error.0)?;
    for path in made {
        println!("{}", path.display());
    }
    println!("ground station: gcs.key and drone.key; drone: gcs.pub and drone.key");
    Ok(())
}

fn show_status(file: &Path, request: &str) -> Result<(), String> {
    print!("{}", status::ask(&read_config(file)?.status, request)?);
    Ok(())
}

fn up(file: &Path) -> Result<(), String> {
    let config = read_config(file)?;
    let primitives = load(config.liboqs.as_deref(), config.liboqs_sha256.as_deref())?;
    if !primitives.supports(config.suite) {
        let (id, provider) = (config.suite.id(), primitives.provider());
        return Err(format!(
            "{provider} cannot carry out {id}; choose another suite"
        ));
    }
    signals::catch().map_err(|error| format!("signals: {error}"))?;
    let (role, suite) = (config.role.name(), config.suite.id());
    log(&format!("{role}, {suite}, process {}", std::process::id()));
    match config.role {
        Role::Drone => {
            let key = keys::drone(&config.drone_key).map_err(|error| error.0)?;
            let trusted = keys::gcs_public(&config.gcs_key).map_err(|error| error.0)?;
            if trusted.key(config.suite.sig).is_none() {
                let (file, sig) = (config.gcs_key.display(), config.suite.sig.token);
                return Err(format!("{file} holds no {sig} key; choose another suite"));
            }
            dialling::run(Drone {
                config,
                id: key.id,
                psk: key.psk,
                trusted: vec![trusted],
                primitives: Box::new(primitives),
            })
        }
        Role::Gcs => {
            let identity = keys::gcs_identity(&config.gcs_key).map_err(|error| error.0)?;
            if identity.secret(config.suite.sig).is_none() {
                let (file, sig) = (config.gcs_key.display(), config.suite.sig.token);
                return Err(format!("{file} holds no {sig} key; choose another suite"));
            }
            reception::run(Station::open(config, identity, Box::new(primitives))?)
        }
    }
}
