//! `pqlink peer`: keys of single drones made, replaced and revoked in the folder of a ground station, and the running
//! station told to read it again. A change that it refuses is taken back, where keys were made.

use crate::config::{Config, ConfigError};
use crate::fleet::{self, Files, Fleet};
use crate::hex;
use crate::keys;
use crate::private;
use crate::status;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// Does this verb take so many words?
#[must_use]
pub fn is_call(verb: &str, words: &[&str]) -> bool {
    match verb {
        "list" | "reload" => words.is_empty(),
        "add" => words.len() == 3,
        "rotate" | "retire" | "revoke" => words.len() == 1,
        _ => false,
    }
}

/// Carry it out; what to print.
///
/// # Errors
/// Text: what is wrong with the name, the folder or its files, or what the running station said.
pub fn run(config: &Config, verb: &str, words: &[&str]) -> Result<String, ConfigError> {
    let Some(folder) = &config.drones else {
        return Err(ConfigError(
            "this configuration names one drone by drone_key; for more: a folder, with drones = \"drones\"".to_owned(),
        ));
    };
    let _holder = match verb {
        "list" | "reload" => None,
        _ => Some(held(folder)?),
    };
    match (verb, words) {
        ("add", [name, plaintext, application]) => {
            add(config, folder, name, plaintext, application)
        }
        ("rotate", [name]) => rotate(config, folder, name),
        ("retire", [name]) => retire(config, folder, name),
        ("revoke", [name]) => revoke(config, folder, name),
        ("reload", _) => reload(config),
        _ => Ok(list(&fleet::load(config)?)),
    }
}

/// Nobody else changes keys meanwhile; what a power cut left half done is ended first.
fn held(folder: &Path) -> Result<private::Holder, ConfigError> {
    let shown = folder.display();
    let made = std::fs::create_dir_all(folder);
    made.map_err(|error| ConfigError(format!("{shown}: {error}")))?;
    let holder = private::hold(folder).map_err(|error| {
        if error.kind() == std::io::ErrorKind::WouldBlock {
            ConfigError(format!(
                "{shown}: another pqlink peer changes keys there just now; run this again when it has ended"
            ))
        } else {
            ConfigError(format!("{shown}: cannot be locked: {error}"))
        }
    })?;
    keys::sweep(folder)?;
    Ok(holder)
}

fn list(fleet: &Fleet) -> String {
    let mut text = String::new();
    for member in &fleet.members {
        let ids: Vec<String> = member
            .keys
            .iter()
            .map(|(key, _)| hex::shown(&key.id))
            .collect();
        let settings = &member.settings;
        let _ = writeln!(
            text,
            "{} id {} plaintext {} application {}",
            member.name,
            ids.join(" next "),
            settings.plaintext,
            settings.application
        ); // writing to a String cannot fail
    }
    for (id, name) in &fleet.revoked {
        let _ = writeln!(text, "revoked: {name} id {}", hex::shown(id));
    }
    text
}

/// The running station reads its drones again; one that does not run will when it starts.
fn reload(config: &Config) -> Result<String, ConfigError> {
    if !status::runs(&config.status) {
        return Ok("the station does not run: this counts when it starts\n".to_owned());
    }
    understood(status::ask(&config.status, "reload").map_err(ConfigError)?)
}

/// No success is believed that the station did not tell: a key would seem to be refused while it is served.
fn understood(answer: String) -> Result<String, ConfigError> {
    if let Some(why) = answer.strip_prefix("refused: ") {
        return Err(ConfigError(why.trim_end().to_owned()));
    }
    if answer.starts_with("done: ") {
        return Ok(answer);
    }
    Err(ConfigError(
        "the running station did not say that it read its drones again; run: pqlink peer reload CONFIG".to_owned(),
    ))
}

/// After a key has left the files: until the station has read them, it goes on as before, and that is said.
fn reload_without(config: &Config, name: &str) -> Result<String, ConfigError> {
    reload(config).map_err(|error| {
        ConfigError(format!(
            "{}\nthe files are changed, but the running station may still serve {name} by its old key; once this is \
             mended, run: pqlink peer reload CONFIG",
            error.0
        ))
    })
}

/// After a change of files: all of them are right, and the station has taken them in. Else `undo`.
fn settle(config: &Config, made: &[&PathBuf]) -> Result<String, ConfigError> {
    let outcome = fleet::load(config).and_then(|_| reload(config));
    if outcome.is_err() {
        for path in made {
            keys::erase_file(path)?;
        }
        if fleet::load(config).is_ok() && status::runs(&config.status) {
            // The refusal is what is told; that the station goes on with the files as they were, its log says.
            let _ = status::ask(&config.status, "reload");
        }
    }
    outcome
}

fn known(folder: &Path, name: &str) -> Result<Files, ConfigError> {
    let files = Files::of(folder, name);
    let is_there = [&files.settings, &files.key, &files.next]
        .iter()
        .any(|path| path.exists());
    if fleet::is_name(name) && is_there {
        return Ok(files);
    }
    let folder = folder.display();
    Err(ConfigError(format!(
        "there is no drone {name:?} in {folder}; see: pqlink peer list CONFIG"
    )))
}

fn add(
    config: &Config,
    folder: &Path,
    name: &str,
    plaintext: &str,
    application: &str,
) -> Result<String, ConfigError> {
    if !fleet::is_name(name) {
        return Err(ConfigError(format!(
            "{name:?} is no name for a drone: a-z, 0-9, - and _, at most 32 of them"
        )));
    }
    if [plaintext, application]
        .iter()
        .any(|one| one.contains(['"', '\\']))
    {
        return Err(ConfigError("an address holds no quotes".to_owned()));
    }
    let files = Files::of(folder, name);
    let settings = format!("plaintext = \"{plaintext}\"\napplication = \"{application}\"\n");
    keys::write_new(&files.key, &keys::fresh_drone()?, SECRET)?;
    if let Err(error) = keys::write_new(&files.settings, &settings, PUBLIC) {
        keys::erase_file(&files.key)?;
        return Err(error);
    }
    let told = settle(config, &[&files.settings, &files.key])?;
    let key = files.key.display();
    Ok(format!(
        "{told}{key}: copy it to the drone as drone.key, with gcs.pub\n"
    ))
}

fn rotate(config: &Config, folder: &Path, name: &str) -> Result<String, ConfigError> {
    let files = known(folder, name)?;
    keys::write_new(&files.next, &keys::fresh_drone()?, SECRET)?;
    let told = settle(config, &[&files.next])?;
    let next = files.next.display();
    Ok(format!(
        "{told}{next}: copy it to the drone as drone.key and restart it; then run: pqlink peer retire CONFIG {name}\n"
    ))
}

fn retire(config: &Config, folder: &Path, name: &str) -> Result<String, ConfigError> {
    let files = known(folder, name)?;
    if !files.next.exists() {
        return Err(ConfigError(format!(
            "{name} has no next key; make one with: pqlink peer rotate CONFIG {name}"
        )));
    }
    refuse_keys(folder, name, &[&files.key])?;
    erase(&[&files.key])?;
    std::fs::rename(&files.next, &files.key)
        .and_then(|()| private::settle_names(&files.key))
        .map_err(|error| ConfigError(format!("{}: {error}", files.next.display())))?;
    reload_without(config, name)
}

/// Each step leaves files that the station can read, and called again it ends what was cut short.
fn revoke(config: &Config, folder: &Path, name: &str) -> Result<String, ConfigError> {
    let files = known(folder, name)?;
    refuse_keys(folder, name, &[&files.key, &files.next])?;
    erase(&[&files.settings, &files.key, &files.next])?;
    reload_without(config, name)
}

fn refuse_keys(folder: &Path, name: &str, keys: &[&PathBuf]) -> Result<(), ConfigError> {
    for key in keys.iter().filter(|key| key.exists()) {
        let note = fleet::revocation(folder, &keys::drone(key)?.id);
        if !note.exists() {
            keys::write_new(&note, &format!("name = \"{name}\"\n"), PUBLIC)?;
        }
    }
    Ok(())
}

fn erase(paths: &[&PathBuf]) -> Result<(), ConfigError> {
    let mut there = paths.iter().filter(|path| path.exists());
    there.try_for_each(|path| keys::erase_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_station_that_says_so_has_read_its_drones_again() {
        let done = understood("done: alpha is served\n".to_owned());
        assert_eq!(done, Ok("done: alpha is served\n".to_owned()));
        let refused = understood("refused: a fault\n".to_owned());
        assert_eq!(refused, Err(ConfigError("a fault".to_owned())));
        for other in ["", "role = \"gcs\"\n"] {
            assert!(understood(other.to_owned()).is_err(), "{other:?}");
        }
    }
}
