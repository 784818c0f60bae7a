//! The configuration of `pqlink`: TOML of one table, with strings and whole numbers.
//!
//! An error names file and line, what is wrong, and the nearest key or suite.

use crate::place::{anywhere, Place, EXAMPLES};
#[cfg(unix)]
use crate::serial::SerialPort;
use crate::suite::Suite;
use pq_core::session::Role;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a file cannot be used; its text is for the person who wrote the file.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From 1.
    pub line: usize,
    /// As written.
    pub key: String,
    /// Without its quotes.
    pub value: Value,
}

/// What may stand right of `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// In double quotes, without escapes.
    Text(String),
    /// Not negative.
    Number(u64),
}

/// The entries of a file, each key once.
///
/// # Errors
/// File and line of what is no `key = value`, or comes twice.
pub fn entries(file: &Path, text: &str) -> Result<Vec<Entry>, ConfigError> {
    let mut found: Vec<Entry> = Vec::new();
    for (place, written) in text.lines().enumerate() {
        let line = place + 1;
        let at = |what: &str| ConfigError(format!("{}:{line}: {what}", file.display()));
        let trimmed = written.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if trimmed.starts_with('[') {
            return Err(at("there are no tables here: every key stands at the top"));
        }
        let (key, rest) = trimmed
            .split_once('=')
            .ok_or_else(|| at("this is no `key = value`"))?;
        let value = value(rest.trim()).map_err(|what| at(&what))?;
        let key = key.trim().to_owned();
        if let Some(first) = found.iter().find(|entry| entry.key == key) {
            let what = format!("{key} stands in line {} already", first.line);
            return Err(at(&what));
        }
        found.push(Entry { line, key, value });
    }
    Ok(found)
}

fn value(written: &str) -> Result<Value, String> {
    let (value, rest) = if let Some(open) = written.strip_prefix('"') {
        let (text, rest) = open
            .split_once('"')
            .ok_or("the text has no closing quote")?;
        if text.contains('\\') {
            return Err("there are no escapes in a text here".to_owned());
        }
        (Value::Text(text.to_owned()), rest)
    } else {
        let end = written.find([' ', '#']).unwrap_or(written.len());
        let number = written[..end].replace('_', "").parse();
        let number = number
            .map_err(|_| format!("{written:?} is neither a text in quotes nor a whole number"))?;
        (Value::Number(number), &written[end..])
    };
    let rest = rest.trim();
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(value);
    }
    Err(format!("{rest:?} follows the value"))
}

/// The candidate closest to `word` by edits, where one is close.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let ranked = candidates.map(|candidate| (edits(word, candidate), candidate));
    let (distance, found) = ranked.min_by_key(|(distance, _)| *distance)?;
    (distance <= word.len().max(found.len()) / 2).then_some(found)
}

/// Levenshtein's distance.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (place, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

/// Everything that `pqlink up` is told.
#[derive(Debug, PartialEq, Eq)]
pub struct Config {
    /// Which end.
    pub role: Role,
    /// What the drone offers, and the one suite that the GCS accepts.
    pub suite: Suite,
    /// The policy floor.
    pub min_level: u8,
    /// Drone: where to dial. GCS: where to listen.
    pub handshake: Place,
    /// Local address of sealed packets.
    pub sealed: SocketAddr,
    /// Port of sealed packets at the peer.
    pub peer_port: u16,
    /// Local address where plaintext comes in.
    pub plaintext: SocketAddr,
    /// Drone: the serial port that plaintext comes from and goes to, instead of the two addresses around this.
    #[cfg(unix)]
    pub serial: Option<SerialPort>,
    /// The application: the only source of plaintext, and where opened plaintext goes.
    pub application: SocketAddr,
    /// Drone: the GCS's public keys. GCS: its secret ones.
    pub gcs_key: PathBuf,
    /// The drone's id and PSK, at both ends.
    pub drone_key: PathBuf,
    /// GCS: the folder of its drones. Where it is given, `drone_key`, `plaintext` and `application` mean nothing.
    pub drones: Option<PathBuf>,
    /// Age at which an epoch is replaced, s.
    pub rekey_s: u64,
    /// The socket that `pqlink status` asks.
    pub status: PathBuf,
    /// The liboqs to load, where one is named; not for a program that has it inside.
    pub liboqs: Option<PathBuf>,
    /// Its SHA-256, where it is pinned.
    pub liboqs_sha256: Option<String>,
}

const KEYS: &[&str] = &[
    "role",
    "suite",
    "min_level",
    "handshake",
    "sealed",
    "peer_port",
    "plaintext",
    "application",
    "gcs_key",
    "drone_key",
    "drones",
    "rekey_s",
    "status",
    "liboqs",
    "liboqs_sha256",
];
const DEFAULT_SUITE: &str = "cs-mlkem768-aesgcm-mldsa65";
/// Ten minutes: the protocol's own limit (docs/PROTOCOL.md, section 7).
const MAX_REKEY_S: u64 = 600;
/// Ports of the protocol: handshakes, sealed packets at the GCS, at the drone.
const PORTS: (u16, u16, u16) = (46_000, 46_011, 46_012);

/// The entries of a file, asked for one by one.
pub(crate) struct Reader<'a> {
    pub file: &'a Path,
    pub entries: Vec<Entry>,
}

impl Reader<'_> {
    pub fn at(&self, line: usize, what: &str) -> ConfigError {
        ConfigError(format!("{}:{line}: {what}", self.file.display()))
    }

    fn missing(&self, key: &str, example: &str) -> ConfigError {
        let file = self.file.display();
        ConfigError(format!("{file}: {key} is missing; add: {key} = {example}"))
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub fn text(&self, key: &str) -> Result<Option<(usize, &str)>, ConfigError> {
        match self.entry(key) {
            None => Ok(None),
            Some(Entry {
                line,
                value: Value::Text(text),
                ..
            }) => Ok(Some((*line, text))),
            Some(Entry { line, .. }) => Err(self.at(*line, &format!("{key} is a text in quotes"))),
        }
    }

    pub fn number(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, ConfigError> {
        match self.entry(key) {
            None => Ok(default),
            Some(Entry {
                value: Value::Number(number),
                ..
            }) if range.contains(number) => Ok(*number),
            Some(Entry { line, .. }) => {
                let (least, most) = (range.start(), range.end());
                let what = format!("{key} is a whole number from {least} to {most}");
                Err(self.at(*line, &what))
            }
        }
    }

    pub fn address(
        &self,
        key: &str,
        default: Option<SocketAddr>,
        example: &str,
    ) -> Result<SocketAddr, ConfigError> {
        let place = self.place(key, default, example)?;
        // Of this host or beside it: such a name does not change while an end runs.
        let addresses = place.resolve().map_err(|error| {
            let line = self.entry(key).map_or(0, |entry| entry.line);
            self.at(
                line,
                &format!("{key} = \"{place}\" has no address: {error}"),
            )
        })?;
        // `localhost` is both: an application that is not told otherwise speaks IPv4.
        let four = addresses.iter().find(|address| address.is_ipv4());
        Ok(*four.unwrap_or(&addresses[0]))
    }

    /// The serial port that stands as plaintext, if one does.
    #[cfg(unix)]
    fn serial(&self, role: Role) -> Result<Option<SerialPort>, ConfigError> {
        let Some((line, text)) = self.text("plaintext")? else {
            return Ok(None);
        };
        let Some(port) = text.strip_prefix("serial:") else {
            return Ok(None);
        };
        if role == Role::Gcs {
            return Err(self.at(line, "a serial port is for the drone; give an address"));
        }
        if let Some(entry) = self.entry("application") {
            let what =
                "plaintext is a serial port, which is the application, too; take this line out";
            return Err(self.at(entry.line, what));
        }
        SerialPort::read(port)
            .map(Some)
            .map_err(|what| self.at(line, &what))
    }

    /// Where plaintext comes in, and the application; with a serial port, two ports of loopback that the system chooses.
    fn plain_side(&self, is_serial: bool) -> Result<(SocketAddr, SocketAddr), ConfigError> {
        if is_serial {
            let chosen = SocketAddr::from(([127, 0, 0, 1], 0));
            return Ok((chosen, chosen));
        }
        let plaintext = self.address("plaintext", None, "\"127.0.0.1:14550\"")?;
        let application = self.address("application", None, "\"127.0.0.1:14551\"")?;
        Ok((plaintext, application))
    }

    /// A host and a port.
    fn place(
        &self,
        key: &str,
        default: Option<SocketAddr>,
        example: &str,
    ) -> Result<Place, ConfigError> {
        match (self.text(key)?, default) {
            (Some((line, text)), _) => Place::read(text).ok_or_else(|| {
                let what = format!("{key} is an address or a name with a port, such as {EXAMPLES}");
                self.at(line, &what)
            }),
            (None, Some(default)) => Ok(Place::Address(default)),
            (None, None) => Err(self.missing(key, example)),
        }
    }

    /// Relative to the configuration's folder.
    pub fn path(&self, key: &str, default: &str) -> Result<PathBuf, ConfigError> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        Ok(folder.join(self.text(key)?.map_or(default, |(_, text)| text)))
    }

    pub fn refuse_unknown(&self, known: &[&str]) -> Result<(), ConfigError> {
        for entry in &self.entries {
            if !known.contains(&&entry.key[..]) {
                let hint = match nearest(&entry.key, known.iter().copied()) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("known are {}", known.join(", ")),
                };
                let what = format!("unknown key {:?}; {hint}", entry.key);
                return Err(self.at(entry.line, &what));
            }
        }
        Ok(())
    }

    /// The folder of drones, and nothing beside it that is said of each drone there.
    fn drones(&self, role: Role) -> Result<Option<PathBuf>, ConfigError> {
        let Some((line, _)) = self.text("drones")? else {
            return Ok(None);
        };
        if role != Role::Gcs {
            return Err(self.at(line, "drones is for a ground station: a drone is one"));
        }
        for key in ["plaintext", "application", "drone_key"] {
            if let Some(entry) = self.entry(key) {
                let what = format!(
                    "{key} is one drone's; with drones = … it stands in the files of that folder"
                );
                return Err(self.at(entry.line, &what));
            }
        }
        self.path("drones", "").map(Some)
    }

    fn suite(&self) -> Result<Suite, ConfigError> {
        let (line, id) = self.text("suite")?.unwrap_or((0, DEFAULT_SUITE));
        Suite::by_id(id).ok_or_else(|| {
            let ids: Vec<String> = Suite::all().iter().map(Suite::id).collect();
            let near = nearest(id, ids.iter().map(|id| &id[..]));
            let hint = near.map_or_else(
                || "list them with: pqlink suites".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            self.at(line, &format!("unknown suite {id:?}; {hint}"))
        })
    }
}

/// Read a configuration.
///
/// # Errors
/// Text with file, line and what to write instead.
pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
    let reader = Reader {
        file,
        entries: entries(file, text)?,
    };
    reader.refuse_unknown(KEYS)?;
    let role = match reader.text("role")? {
        None => return Err(reader.missing("role", "\"drone\" (or \"gcs\")")),
        Some((line, name)) => {
            Role::by_name(name).ok_or_else(|| reader.at(line, "role is \"drone\" or \"gcs\""))?
        }
    };
    let is_gcs = role == Role::Gcs;
    let (own, other) = if is_gcs {
        (PORTS.1, PORTS.2)
    } else {
        (PORTS.2, PORTS.1)
    };
    let listen = is_gcs.then(|| anywhere(PORTS.0));
    let suite = reader.suite()?;
    let min_level = reader.number("min_level", 1..=5, 1)? as u8;
    if suite.level() < min_level {
        let line = reader.entry("min_level").map_or(0, |entry| entry.line);
        let what = format!(
            "{} is level {}, below this floor",
            suite.id(),
            suite.level()
        );
        return Err(reader.at(line, &what));
    }
    let (gcs_key, status) = if is_gcs {
        ("gcs.key", "gcs.sock")
    } else {
        ("gcs.pub", "drone.sock")
    };
    let drones = reader.drones(role)?;
    let example = "\"192.0.2.1:46000\"";
    let handshake = if is_gcs {
        Place::Address(reader.address("handshake", listen, example)?)
    } else {
        reader.place("handshake", None, example)?
    };
    let sealed = reader.address("sealed", Some(anywhere(own)), "\"[::]:46011\"")?;
    if let (true, Place::Address(SocketAddr::V6(_)), true) = (is_gcs, &handshake, sealed.is_ipv4())
    {
        let line = reader.entry("sealed").map_or(0, |entry| entry.line);
        let port = sealed.port();
        let what = format!(
            "handshake = \"{handshake}\" is IPv6, and sealed takes IPv4 alone; write sealed = \"[::]:{port}\""
        );
        return Err(reader.at(line, &what));
    }
    #[cfg(unix)]
    let serial = reader.serial(role)?;
    #[cfg(unix)]
    let is_serial = serial.is_some();
    #[cfg(not(unix))]
    let is_serial = false;
    let (plaintext, application) = reader.plain_side(is_serial || drones.is_some())?;
    Ok(Config {
        #[cfg(unix)]
        serial,
        role,
        suite,
        min_level,
        handshake,
        sealed,
        peer_port: reader.number("peer_port", 1..=65_535, other.into())? as u16,
        plaintext,
        application,
        gcs_key: reader.path("gcs_key", gcs_key)?,
        drone_key: reader.path("drone_key", "drone.key")?,
        drones,
        rekey_s: reader.number("rekey_s", 1..=MAX_REKEY_S, MAX_REKEY_S)?,
        status: reader.path("status", status)?,
        liboqs: match reader.text("liboqs")? {
            Some((_, path)) => Some(reader.path("liboqs", path)?),
            None => None,
        },
        liboqs_sha256: reader
            .text("liboqs_sha256")?
            .map(|(_, digest)| digest.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str =
        "role = \"drone\"\nhandshake = \"192.0.2.1:46000\"\nplaintext = \"127.0.0.1:14550\"\n\
                         application = \"127.0.0.1:14551\"";

    fn refusal(extra: &str) -> String {
        let text = format!("{LEAST}\n{extra}");
        let refused = parse(Path::new("/etc/link.toml"), &text);
        refused.expect_err("refused").0
    }

    #[test]
    fn least_and_defaults() {
        let config = parse(Path::new("/etc/link.toml"), LEAST).expect("reads");
        assert_eq!(config.suite.id(), DEFAULT_SUITE);
        assert_eq!((config.sealed.port(), config.peer_port), (46_012, 46_011));
        assert_eq!(config.gcs_key, Path::new("/etc/gcs.pub"));
        assert_eq!(config.rekey_s, 600);
    }

    #[test]
    fn the_ground_station_of_a_drone_may_have_a_name() {
        for place in ["station.local:46000", "[2001:db8::1]:46000"] {
            let text = LEAST.replace("192.0.2.1:46000", place);
            let config = parse(Path::new("a.toml"), &text).expect("reads");
            assert_eq!(config.handshake.to_string(), place);
        }
        let text = LEAST.replace("127.0.0.1:14551", "localhost:14551");
        let config = parse(Path::new("a.toml"), &text).expect("reads");
        assert_eq!(
            config.application,
            SocketAddr::from(([127, 0, 0, 1], 14_551))
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_serial_port_is_the_drones_application() {
        let least = "role = \"drone\"\nhandshake = \"192.0.2.1:46000\"\nplaintext = \"serial:/dev/ttyAMA0:921600\"";
        let config = parse(Path::new("a.toml"), least).expect("reads");
        let port = config.serial.expect("a port");
        assert_eq!(
            (port.path, port.baud),
            (PathBuf::from("/dev/ttyAMA0"), 921_600)
        );
        for (text, told) in [
            (least.replace("921600", "9"), ":3: no speed of 9 baud"),
            (
                least.replace(":921600", ""),
                ":3: a serial port is serial:DEVICE:BAUD",
            ),
            (
                least.replace("drone", "gcs"),
                ":3: a serial port is for the drone",
            ),
            (
                format!("{least}\napplication = \"127.0.0.1:1\""),
                ":4: plaintext is a serial port",
            ),
        ] {
            let refused = parse(Path::new("a.toml"), &text).expect_err("refused").0;
            assert!(refused.contains(told), "{refused}");
        }
    }

    #[test]
    fn errors_say_where_and_what_is_near() {
        assert_eq!(
            refusal("plaintxt = \"x\""),
            "/etc/link.toml:5: unknown key \"plaintxt\"; did you mean plaintext?"
        );
        assert_eq!(
            refusal("suite = \"cs-mlkem768-aesgm-mldsa65\""),
            "/etc/link.toml:5: unknown suite \"cs-mlkem768-aesgm-mldsa65\"; did you mean cs-mlkem768-aesgcm-mldsa65?"
        );
        assert_eq!(
            refusal("suite = \"cs-hqc128v5-aesgcm-mldsa44\""),
            "/etc/link.toml:5: unknown suite \"cs-hqc128v5-aesgcm-mldsa44\"; did you mean xs-hqc128v5-aesgcm-mldsa44?"
        );
        for (extra, told) in [
            ("rekey_s = 0", ":5: rekey_s is a whole number from 1 to 600"),
            ("rekey_s = \"10\"", ":5: rekey_s is a whole number"),
            (
                "sealed = \"here\"",
                ":5: sealed is an address or a name with a port, such as 192.0.2.1:46000",
            ),
            ("sealed = 46012", ":5: sealed is a text in quotes"),
            ("role = \"gcs\"", ":5: role stands in line 1 already"),
            ("[link]", ":5: there are no tables here"),
            ("suite", ":5: this is no `key = value`"),
            ("suite = cs", ":5: \"cs\" is neither"),
            ("suite = \"cs", ":5: the text has no closing quote"),
            ("rekey_s = 5 6", ":5: \"6\" follows the value"),
            ("drones = \"d\"", ":5: drones is for a ground station"),
            ("min_level = 5", ":5: cs-mlkem768-aesgcm-mldsa65 is level 3"),
        ] {
            let refused = refusal(extra);
            assert!(refused.contains(told), "{refused}");
        }
        let gcs = "role = \"gcs\"\nplaintext = \"127.0.0.1:1\"\napplication = \"127.0.0.1:2\"\n\
                   handshake = \"[::1]:46000\"\nsealed = \"0.0.0.0:46011\"";
        let refused = parse(Path::new("a.toml"), gcs).expect_err("refused");
        assert!(
            refused
                .0
                .contains("a.toml:5: handshake = \"[::1]:46000\" is IPv6"),
            "{refused}"
        );
        let refused = parse(Path::new("a.toml"), "role = \"gcs\"").expect_err("refused");
        assert!(refused.0.contains("plaintext is missing"), "{refused}");
        let many = "role = \"gcs\"\ndrones = \"d\"";
        let config = parse(Path::new("/etc/a.toml"), many).expect("reads");
        assert_eq!(config.drones.as_deref(), Some(Path::new("/etc/d")));
        let both = format!("{many}\nplaintext = \"127.0.0.1:1\"");
        let refused = parse(Path::new("a.toml"), &both).expect_err("refused");
        assert!(
            refused.0.contains("a.toml:3: plaintext is one drone's"),
            "{refused}"
        );
    }
}
