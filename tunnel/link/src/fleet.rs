//! The drones of a ground station as its files name them.
//!
//! A folder holds `NAME.toml` (addresses) and `NAME.key` (id and PSK) for each drone, `NAME.next.key` while its key is
//! being rotated, and `ID.revoked` for each key that is never to be served again. Without a folder there is one drone,
//! named `drone`, whose addresses and key the configuration itself names.

use crate::config::{entries, Config, ConfigError, Reader};
use crate::hex;
use crate::identity::DroneId;
use crate::keys::{self, DroneKey};
use pq_core::hub::Address;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Name of the one drone of a configuration without a folder.
pub const ONLY: &str = "drone";
const SETTINGS: &[&str] = &["plaintext", "application", "peer_port"];
const REVOKED: &[&str] = &["name"];
const NAME_CHARACTERS: usize = 32;

/// What a drone's plaintext side is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Local address where plaintext for it comes in.
    pub plaintext: Address,
    /// The only host from which that is taken, and where its plaintext goes.
    pub application: Address,
    /// Port of sealed packets at the drone.
    pub peer_port: u16,
}

/// One drone.
pub struct Member {
    /// Unique.
    pub name: String,
    /// As its file says.
    pub settings: Settings,
    /// Its key, and the next one while it is being rotated, each with its file.
    pub keys: Vec<(DroneKey, PathBuf)>,
}

/// All that a ground station may serve, and what it must not.
pub struct Fleet {
    /// By name.
    pub members: Vec<Member>,
    /// Ids that are refused by name.
    pub revoked: BTreeMap<DroneId, String>,
}

/// May a drone be called so?
#[must_use]
pub fn is_name(word: &str) -> bool {
    let fits = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || b"-_".contains(&one);
    (1..=NAME_CHARACTERS).contains(&word.len()) && word.bytes().all(fits)
}

/// Paths of one drone's files.
pub struct Files {
    /// Its addresses.
    pub settings: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The key that will follow it.
    pub next: PathBuf,
}

impl Files {
    /// In this folder.
    #[must_use]
    pub fn of(folder: &Path, name: &str) -> Self {
        Self {
            settings: folder.join(format!("{name}.toml")),
            key: folder.join(format!("{name}.key")),
            next: folder.join(format!("{name}.next.key")),
        }
    }
}

/// Where the revocation of a key stands.
#[must_use]
pub fn revocation(folder: &Path, id: &DroneId) -> PathBuf {
    folder.join(format!("{}.revoked", hex::shown(id)))
}

/// Read every drone's files.
///
/// # Errors
/// Text with file and line: a file that is loose, missing or malformed; a key, or a plaintext address, of two drones; a
/// key that was revoked.
pub fn load(config: &Config) -> Result<Fleet, ConfigError> {
    let Some(folder) = &config.drones else {
        let member = Member {
            name: ONLY.to_owned(),
            settings: Settings {
                plaintext: config.plaintext,
                application: config.application,
                peer_port: config.peer_port,
            },
            keys: vec![(keys::drone(&config.drone_key)?, config.drone_key.clone())],
        };
        return Ok(Fleet {
            members: vec![member],
            revoked: BTreeMap::new(),
        });
    };
    let mut fleet = Fleet {
        members: Vec::new(),
        revoked: BTreeMap::new(),
    };
    let mut seen = Seen::default();
    let mut paths = listed(folder)?;
    paths.sort();
    for path in &paths {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let (stem, kind) = (stem.unwrap_or(""), path.extension());
        if kind.is_some_and(|kind| kind == "revoked") {
            let (id, name) = revoked(path, stem)?;
            fleet.revoked.insert(id, name);
        }
    }
    for path in &paths {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let stem = stem.unwrap_or("");
        if path.extension().is_some_and(|kind| kind == "toml") {
            if let Some(member) = member(config, folder, path, stem, &fleet.revoked)? {
                seen.enter(folder, &member, &fleet.revoked)?;
                fleet.members.push(member);
            }
        }
    }
    Ok(fleet)
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let failed = |error: std::io::Error| {
        let shown = folder.display();
        ConfigError(format!(
            "{shown}: cannot list the drones: {error}; make the folder, or add one with: pqlink peer add"
        ))
    };
    let found = std::fs::read_dir(folder).map_err(failed)?;
    let paths = found.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<Result<_, _>>().map_err(failed)
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|error| ConfigError(format!("{}: cannot read: {error}", path.display())))
}

fn revoked(path: &Path, stem: &str) -> Result<(DroneId, String), ConfigError> {
    let text = text_of(path)?;
    let reader = Reader {
        file: path,
        entries: entries(path, &text)?,
    };
    reader.refuse_unknown(REVOKED)?;
    let id = hex::read(stem).and_then(|id| DroneId::try_from(&id[..]).ok());
    let id = id.ok_or_else(|| {
        let what = "the file is named after the 16 digits of the key id that it revokes";
        reader.at(1, what)
    })?;
    let name = reader.text("name")?;
    Ok((id, name.map_or("?", |(_, name)| name).to_owned()))
}

/// `None`: every key of it was revoked under this very name, and its files are about to go.
fn member(
    config: &Config,
    folder: &Path,
    path: &Path,
    name: &str,
    revoked: &BTreeMap<DroneId, String>,
) -> Result<Option<Member>, ConfigError> {
    if !is_name(name) {
        let path = path.display();
        return Err(ConfigError(format!(
            "{path}: a drone is named with a-z, 0-9, - and _, at most {NAME_CHARACTERS} of them; rename the file"
        )));
    }
    let text = text_of(path)?;
    let reader = Reader {
        file: path,
        entries: entries(path, &text)?,
    };
    reader.refuse_unknown(SETTINGS)?;
    let files = Files::of(folder, name);
    let mut held = Vec::new();
    for path in [files.key, files.next.clone()] {
        // A rotation that was cut short has left the next key alone.
        let may_lack = path == files.next || files.next.exists();
        if may_lack && !path.exists() {
            continue;
        }
        held.push((keys::drone(&path)?, path));
    }
    held.retain(|(key, _)| revoked.get(&key.id).is_none_or(|whose| whose != name));
    if held.is_empty() {
        return Ok(None);
    }
    let peer_port = reader.number("peer_port", 1..=65_535, config.peer_port.into())? as u16;
    Ok(Some(Member {
        name: name.to_owned(),
        settings: Settings {
            plaintext: reader.address("plaintext", None, "\"127.0.0.1:14560\"")?,
            application: reader.address("application", None, "\"127.0.0.1:14550\"")?,
            peer_port,
        },
        keys: held,
    }))
}

/// What was read so far, to find what is there twice: where it stands, and whose it is.
#[derive(Default)]
struct Seen {
    ids: HashMap<DroneId, String>,
    psks: HashMap<Vec<u8>, String>,
    plaintexts: HashMap<Address, String>,
}

impl Seen {
    fn enter(
        &mut self,
        folder: &Path,
        member: &Member,
        revoked: &BTreeMap<DroneId, String>,
    ) -> Result<(), ConfigError> {
        let name = &member.name;
        for (key, path) in &member.keys {
            let (id_at, psk_at) = (
                format!("{}:{}", path.display(), key.id_line),
                format!("{}:{}", path.display(), key.psk_line),
            );
            if let Some(whose) = revoked.get(&key.id) {
                return Err(ConfigError(format!(
                    "{id_at}: this id was revoked (of {whose}); remove {name}'s files and run: pqlink peer add"
                )));
            }
            let twice = "one key is one drone's: remove this one and run: pqlink peer add";
            if let Some(first) = self.ids.insert(key.id, format!("{name}, {id_at}")) {
                return Err(ConfigError(format!(
                    "{id_at}: {name} has the id of {first}; {twice}"
                )));
            }
            // Compared by the first key derived from it: the PSK itself is erased already.
            let derived = key.psk.hello[..16].to_vec();
            if let Some(first) = self.psks.insert(derived, format!("{name}, {psk_at}")) {
                return Err(ConfigError(format!(
                    "{psk_at}: {name} has the PSK of {first}; {twice}"
                )));
            }
        }
        let plaintext = member.settings.plaintext;
        if plaintext.port() != 0 {
            if let Some(first) = self.plaintexts.insert(plaintext, name.clone()) {
                let settings = Files::of(folder, name).settings;
                let settings = settings.display();
                return Err(ConfigError(format!(
                    "{settings}: plaintext = \"{plaintext}\" is {first}'s; name a free port"
                )));
            }
        }
        Ok(())
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        for (mut derived, _) in self.psks.drain() {
            zeroize::Zeroize::zeroize(&mut derived);
        }
    }
}
