//! Key files of `pqlink`, in the text form of its configuration, with values in hexadecimal:
//!
//! ```text
//! gcs.key     <scheme>_public = "…"  <scheme>_secret = "…"   for each signature scheme; secret
//! gcs.pub     <scheme>_public = "…"
//! drone.key   id = "…"  psk = "…"                            at both ends; secret
//! ```
//!
//! A secret file that its group or others may read is refused.

use crate::config::{entries, ConfigError, Entry, Value};
use crate::hex;
use crate::identity::{DroneId, GcsIdentity, GcsPublic};
use crate::primitives::{PrimitiveError, Primitives};
use crate::private;
use crate::registry::{sig_by_token, Sig, MATRIX_SIGS, SIGS};
use crate::schedule::PskKeys;
use crate::secret::Secret;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use zeroize::{Zeroize as _, Zeroizing};

fn cannot(path: &Path, what: &str, error: &io::Error) -> ConfigError {
    ConfigError(format!("{}: cannot {what}: {error}", path.display()))
}

/// The whole file; a secret one only where nobody but its owner may read or write it.
fn read(path: &Path, is_secret: bool) -> Result<Zeroizing<String>, ConfigError> {
    let mut file = File::open(path).map_err(|error| cannot(path, "read", &error))?;
    let facts = file.metadata();
    let facts = facts.map_err(|error| cannot(path, "read", &error))?;
    if let (true, Some(why)) = (is_secret, private::looseness(path, &facts)) {
        return Err(ConfigError(format!("{}: {why}", path.display())));
    }
    // Room for all of it: a string that grows leaves copies of its beginning behind.
    let mut text = Zeroizing::new(String::with_capacity(facts.len() as usize + 1));
    let got = file.read_to_string(&mut text);
    got.map_err(|error| cannot(path, "read", &error))?;
    Ok(text)
}

/// Entries whose texts are erased when they are dropped.
struct Erased(Vec<Entry>);

impl Drop for Erased {
    fn drop(&mut self) {
        for entry in &mut self.0 {
            if let Value::Text(text) = &mut entry.value {
                text.zeroize();
            }
        }
    }
}

/// The entries of a key file. What is wrong with its text is not quoted: it may be the secret, and errors are logged.
fn held(path: &Path, text: &str) -> Result<Erased, ConfigError> {
    entries(path, text).map(Erased).map_err(|_| {
        let path = path.display();
        ConfigError(format!(
            "{path}: this is not what pqlink keygen writes; make new keys or copy the file again"
        ))
    })
}

fn bytes(path: &Path, entry: &Entry) -> Result<Secret, ConfigError> {
    let Value::Text(text) = &entry.value else {
        return Err(malformed(path, entry));
    };
    let mut read = hex::read(text).ok_or_else(|| malformed(path, entry))?;
    let secret = Secret::copy_of(&read);
    read.zeroize();
    Ok(secret)
}

fn malformed(path: &Path, entry: &Entry) -> ConfigError {
    let (path, line, key) = (path.display(), entry.line, &entry.key);
    ConfigError(format!(
        "{path}:{line}: {key} is not what pqlink keygen writes there; make new keys or copy the file again"
    ))
}

fn signing_keys(path: &Path, held: &Erased) -> Result<GcsIdentity, ConfigError> {
    let (mut keys, mut secrets): (Vec<(&'static Sig, Vec<u8>)>, _) = (Vec::new(), Vec::new());
    for entry in &held.0 {
        let named = entry.key.rsplit_once('_');
        let found = named.and_then(|(token, kind)| Some((sig_by_token(token)?, kind)));
        let (sig, kind) = found.ok_or_else(|| malformed(path, entry))?;
        let value = bytes(path, entry)?;
        match kind {
            "public" if value.len() == sig.public_bytes => keys.push((sig, value.to_vec())),
            "secret" if value.len() == sig.secret_bytes => secrets.push((sig, value)),
            _ => return Err(malformed(path, entry)),
        }
    }
    let public = GcsPublic::new(keys).ok_or_else(|| {
        let path = path.display();
        ConfigError(format!(
            "{path}: holds no public key; make keys with: pqlink keygen FOLDER"
        ))
    })?;
    Ok(GcsIdentity { public, secrets })
}

/// A GCS's own identity.
///
/// # Errors
/// A file that is not there, loose, or not what `keygen` writes.
pub fn gcs_identity(path: &Path) -> Result<GcsIdentity, ConfigError> {
    let text = read(path, true)?;
    let held = held(path, &text)?;
    signing_keys(path, &held)
}

/// The identity that a drone pins.
///
/// # Errors
/// As above.
pub fn gcs_public(path: &Path) -> Result<GcsPublic, ConfigError> {
    let text = read(path, false)?;
    let held = held(path, &text)?;
    let identity = signing_keys(path, &held)?;
    if identity.secrets.is_empty() {
        return Ok(identity.public);
    }
    let path = path.display();
    Err(ConfigError(format!(
        "{path}: holds a GCS's secret keys, which a drone must not have; give it gcs.pub"
    )))
}

/// A drone's key as read from its file.
pub struct DroneKey {
    /// Its key id.
    pub id: DroneId,
    /// Of its PSK.
    pub psk: PskKeys,
    /// Line of the id in the file, from 1.
    pub id_line: usize,
    /// Line of the PSK.
    pub psk_line: usize,
}

/// A drone's id and what its PSK yields.
///
/// # Errors
/// As above.
pub fn drone(path: &Path) -> Result<DroneKey, ConfigError> {
    let text = read(path, true)?;
    let held = held(path, &text)?;
    let find = |key: &str| {
        let found = held.0.iter().find(|entry| entry.key == key);
        found.ok_or_else(|| ConfigError(format!("{}: {key} is missing", path.display())))
    };
    let (id, psk) = (find("id")?, find("psk")?);
    let (id_bytes, psk_bytes) = (bytes(path, id)?, bytes(path, psk)?);
    let fixed_id: &[u8; 8] = (&*id_bytes).try_into().map_err(|_| malformed(path, id))?;
    let fixed_psk: &[u8; 32] = (&*psk_bytes).try_into().map_err(|_| malformed(path, psk))?;
    Ok(DroneKey {
        id: *fixed_id,
        psk: PskKeys::derive(fixed_psk),
        id_line: id.line,
        psk_line: psk.line,
    })
}

/// Text of a fresh drone's key file.
///
/// # Errors
/// The system gives no randomness.
pub fn fresh_drone() -> Result<Zeroizing<String>, ConfigError> {
    let (mut id, mut psk) = ([0; 8], Zeroizing::new([0; 32]));
    let random = SystemRandom::new();
    let filled = random.fill(&mut id).and_then(|()| random.fill(&mut *psk));
    filled.map_err(|_| ConfigError("the system gives no randomness".to_owned()))?;
    Ok(Zeroizing::new(format!(
        "# Key of one drone. Both ends need a copy; mode 0600.\nid = \"{}\"\npsk = \"{}\"\n",
        hex::shown(&id),
        *Zeroizing::new(hex::shown(&*psk))
    )))
}

/// Write a file that is not there yet, at one stroke: after a power cut it is there whole, or not at all.
///
/// # Errors
/// It is there, or what the system said.
pub fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), ConfigError> {
    write_at_one_stroke(path, text, mode).map_err(|error| cannot(path, "write", &error))
}

fn write_at_one_stroke(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let aside = private::aside(path, ".new");
    match std::fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // a power cut had left it
    }
    let mut file = private::create(&aside, mode)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&aside, path)?;
    private::settle_names(path)
}

/// Take a secret file away: out of everybody's sight at one stroke, overwritten, removed. What the disk itself keeps of it
/// (copies of a journal, worn flash) stays.
///
/// # Errors
/// What the system said.
pub fn erase_file(path: &Path) -> Result<(), ConfigError> {
    let aside = private::aside(path, ".gone");
    let erased = std::fs::rename(path, &aside)
        .and_then(|()| private::settle_names(path))
        .and_then(|()| overwrite(&aside));
    erased.map_err(|error| cannot(path, "erase", &error))
}

fn overwrite(path: &Path) -> io::Result<()> {
    let facts = std::fs::metadata(path)?;
    let mut file = File::options().write(true).open(path)?;
    file.write_all(&vec![0; facts.len() as usize])?;
    file.sync_all()?;
    drop(file);
    std::fs::remove_file(path)
}

/// End what a power cut left of an erasure or of a file that was never whole.
///
/// # Errors
/// What the system said.
pub fn sweep(folder: &Path) -> Result<(), ConfigError> {
    let swept = std::fs::read_dir(folder).and_then(|entries| {
        for entry in entries {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|kind| kind == "gone" || kind == "new")
            {
                overwrite(&path)?;
            }
        }
        Ok(())
    });
    swept.map_err(|error| cannot(folder, "sweep", &error))
}

/// Make `gcs.key`, `gcs.pub` and `drone.key` in a folder; returns their paths. Files that are there stay, and end it.
///
/// # Errors
/// A file that is there, or cannot be written; a primitive that failed.
pub fn generate(folder: &Path, primitives: &dyn Primitives) -> Result<Vec<PathBuf>, ConfigError> {
    let failed = |error: PrimitiveError| ConfigError(error.0);
    let mut secret = Zeroizing::new(String::with_capacity(64 * 1024));
    let mut public = String::new();
    secret.push_str("# Secret keys of a ground station. Stays there; mode 0600.\n");
    public.push_str("# Public keys of a ground station. Each of its drones needs a copy.\n");
    for sig in &SIGS[..MATRIX_SIGS] {
        let (key, own) = primitives.signing_pair(sig).map_err(failed)?;
        let line = format!("{}_public = \"{}\"\n", sig.token, hex::shown(&key));
        public.push_str(&line);
        secret.push_str(&line);
        let own = Zeroizing::new(hex::shown(&own));
        secret.push_str(sig.token);
        secret.push_str("_secret = \"");
        secret.push_str(&own);
        secret.push_str("\"\n");
    }
    let drone = fresh_drone()?;
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, "make", &error))?;
    let files: [(&str, &str, u32); 3] = [
        ("gcs.key", &secret, 0o600),
        ("gcs.pub", &public, 0o644),
        ("drone.key", &drone, 0o600),
    ];
    let paths: Vec<PathBuf> = files.iter().map(|file| folder.join(file.0)).collect();
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        let path = path.display();
        return Err(ConfigError(format!(
            "{path} is there already; keys are never overwritten: name another folder, or move it away"
        )));
    }
    for (path, (_, text, mode)) in paths.iter().zip(files) {
        write_new(path, text, mode)?;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all_and_leaves_whole() {
        let folder = std::env::temp_dir().join(format!("pqlink-strokes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        let path = folder.join("a.key");
        std::fs::write(private::aside(&path, ".new"), "half of").expect("a power cut's");
        write_new(&path, "whole", 0o600).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "whole");
        assert!(
            write_new(&path, "other", 0o600).is_err(),
            "never overwritten"
        );
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "whole");
        std::fs::write(folder.join("b.key.gone"), "secret").expect("a power cut's");
        std::fs::write(folder.join("c.key.new"), "secr").expect("a power cut's");
        sweep(&folder).expect("swept");
        erase_file(&path).expect("erased");
        assert_eq!(std::fs::read_dir(&folder).expect("there").count(), 0);
        std::fs::remove_dir(&folder).expect("removed");
    }

    #[test]
    fn a_malformed_key_file_is_told_without_what_it_holds() {
        let name = format!("pqlink-malformed-{}.key", std::process::id());
        let path = std::env::temp_dir().join(name);
        write_new(&path, "id = \"00\"\npsk = 5a5a5a5a5g\n", 0o600).expect("written");
        let outcome = drone(&path).map(|key| key.id);
        std::fs::remove_file(&path).expect("removed");
        let told = outcome.expect_err("refused").0;
        assert!(told.contains("make new keys"), "{told}");
        assert!(!told.contains("5a5a"), "{told}");
    }
}
