//! What `pqlink status` shows: lines of `name = value` over a socket in the file system, for its owner alone.

use crate::config::Config;
use crate::hex;
use crate::link::Link;
use crate::local;
use crate::primitives::Primitives;
use pq_core::cell::locked;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ANSWER_LIMIT: Duration = Duration::from_millis(200);

/// The socket, removed with this value.
pub struct StatusSocket {
    listener: local::Listener,
    path: PathBuf,
}

impl StatusSocket {
    /// Bind it; a socket that a killed end left behind is replaced, one that answers is not.
    ///
    /// # Errors
    /// Text: it answers, or what the system said.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        if local::connect(path).is_ok() {
            return Err(format!(
                "status = \"{shown}\" answers: this end runs already; stop it first"
            ));
        }
        let failed = |error| format!("status = \"{shown}\" cannot be bound: {error}");
        let listener = local::Listener::bind(path).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Answer whoever has asked since the last call.
    pub fn answer(&self, link: &Link, config: &Config, primitives: &dyn Primitives) {
        while let Ok(mut asker) = self.listener.accept() {
            let text = described(link, config, primitives);
            let _ = asker.set_write_timeout(Some(ANSWER_LIMIT));
            let _ = asker.write_all(text.as_bytes()); // who went away does not want it
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Ask a running end.
///
/// # Errors
/// Text: nobody answers there.
pub fn ask(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| {
        let path = path.display();
        format!("{path} does not answer ({error}); start this end with: pqlink up CONFIG")
    };
    let mut socket = local::connect(path).map_err(failed)?;
    let mut text = String::new();
    let limited = socket.set_read_timeout(Some(Duration::from_secs(5)));
    limited.map_err(failed)?;
    socket.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

fn described(link: &Link, config: &Config, primitives: &dyn Primitives) -> String {
    let mut text = String::new();
    let mut tell = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{name} = {value}"); // writing to a String cannot fail
    };
    let quoted = |value: &str| format!("\"{value}\"");
    tell("role", &quoted(config.role.name()));
    tell("pid", &std::process::id());
    tell("version", &quoted(env!("CARGO_PKG_VERSION")));
    tell("suite", &quoted(&config.suite.id()));
    tell("liboqs", &quoted(&primitives.provider()));
    tell("uptime_s", &link.started.elapsed().as_secs());
    let now_ns = link.now_ns();
    let (epoch, state, counters) = {
        let cell = locked(&link.cell);
        let session = &cell.session;
        let state = match session.epoch() {
            None => "no session",
            Some(_) if session.silent(now_ns) => "silent",
            Some(_) => "up",
        };
        (session.epoch(), state, cell.counters.clone())
    };
    tell("state", &quoted(state));
    if let Some(epoch) = epoch {
        tell("epoch", &epoch);
    }
    if let Some(peer) = link.plane.peer() {
        tell("peer", &quoted(&peer.to_string()));
    }
    if let Some(last) = &*locked(&link.last) {
        tell("handshake_id", &quoted(&hex::shown(&last.handshake_id)));
        tell("handshake_ago_s", &last.at.elapsed().as_secs());
        tell("handshake_wall_us", &last.wall.as_micros());
        tell("handshake_was_rekey", &last.is_rekey);
    }
    for (name, count) in &*locked(&link.counters) {
        tell(name, count);
    }
    for (name, count) in counters.named() {
        let is_ns = name.ends_with("_ns_total") || name.starts_with("digest_");
        if count > 0 && !is_ns {
            tell(name, &count);
        }
    }
    text
}
