//! Keys and files of the fleet, in a folder that the station reads too.

use pq_link::config::{self, Config};
use pq_link::identity::GcsPublic;
use pq_link::keys::{self, DroneKey};
use pq_link::primitives::{HostPrimitives, Primitives as _};
use pq_link::suite::Suite;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Where plaintext for the first drone comes in at the station; each other drone has the next port.
pub const FIRST_PLAINTEXT: u16 = 20_000;
/// Where the farm takes what the station has opened.
pub const APPLICATION: u16 = 47_500;
/// Of sealed packets at the station, and at the farm.
pub const STATION_SEALED: u16 = 46_011;
pub const FARM_SEALED: u16 = 46_012;
pub const HANDSHAKE: u16 = 46_000;

pub struct Setup {
    pub folder: PathBuf,
    pub count: usize,
    pub suite: String,
    pub station: IpAddr,
    pub own: IpAddr,
    pub seed: u64,
}

/// What the farm holds of it.
pub struct Prepared {
    pub suite: Suite,
    pub trusted: Vec<GcsPublic>,
    pub primitives: HostPrimitives,
    pub keys: Vec<DroneKey>,
    pub config: Config,
}

fn load() -> Result<HostPrimitives, String> {
    let root = std::env::var("OQS_INSTALL_PATH").unwrap_or_else(|_| "/opt/liboqs".to_owned());
    HostPrimitives::load(&PathBuf::from(root).join("lib/liboqs.so")).map_err(|error| error.0)
}

pub fn prepare(setup: &Setup) -> Result<Prepared, String> {
    let suite = Suite::by_id(&setup.suite);
    let suite = suite.ok_or_else(|| {
        format!(
            "no suite is named {}; `pqlink suites` lists them",
            setup.suite
        )
    })?;
    let primitives = load()?;
    if !primitives.supports(suite) {
        let provider = primitives.provider();
        return Err(format!("{provider} cannot carry out {}", setup.suite));
    }
    let drones = setup.folder.join("drones");
    keys::generate(&setup.folder, &primitives).map_err(|error| error.0)?;
    std::fs::create_dir_all(&drones).map_err(|error| format!("{}: {error}", drones.display()))?;
    let mut held = Vec::new();
    for number in 0..setup.count {
        let name = format!("d{number:04}");
        let text = keys::fresh_drone().map_err(|error| error.0)?;
        let path = drones.join(format!("{name}.key"));
        keys::write_new(&path, &text, 0o600).map_err(|error| error.0)?;
        held.push(keys::drone(&path).map_err(|error| error.0)?);
        let port = usize::from(FIRST_PLAINTEXT) + number;
        let lines = format!(
            "plaintext = \"0.0.0.0:{port}\"\napplication = \"{}:{APPLICATION}\"\n",
            setup.own
        );
        write(&drones.join(format!("{name}.toml")), &lines)?;
    }
    let file = setup.folder.join("gcs.toml");
    let lines = format!(
        "role = \"gcs\"\nsuite = \"{}\"\nhandshake = \"0.0.0.0:{HANDSHAKE}\"\nsealed = \
         \"0.0.0.0:{STATION_SEALED}\"\npeer_port = {FARM_SEALED}\ngcs_key = \"gcs.key\"\ndrones = \"drones\"\n",
        setup.suite
    );
    write(&file, &lines)?;
    Ok(Prepared {
        suite,
        trusted: vec![keys::gcs_public(&setup.folder.join("gcs.pub")).map_err(|error| error.0)?],
        primitives,
        keys: held,
        config: config::parse(&file, &lines).map_err(|error| error.0)?,
    })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
