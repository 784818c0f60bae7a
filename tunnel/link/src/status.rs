//! The socket in the file system, for its owner alone, over which a running end is asked: `status` and `json` for what
//! it does, at a ground station `reload` for its drones' files. One line goes there, one answer comes back.

use crate::book::LastHandshake;
use crate::config::Config;
use crate::fleet;
use crate::hex;
use crate::link::Link;
use crate::local;
use crate::primitives::Primitives;
use crate::report::Report;
use crate::station::{Peer, Station};
use crate::turns::Figures;
use pq_core::cell::{locked, Cell};
use pq_core::counters::{Counter, Counters};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const REQUEST_BYTES: u64 = 64;
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
        // On Windows the port that a killed end left in its file may be another program's by now: ask who answers.
        if ask(path, "status").is_ok_and(|text| text.starts_with("role = ")) {
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
    pub fn answer(&self, answer: impl Fn(&str) -> String) {
        while let Ok(mut asker) = self.listener.accept() {
            let _ = asker.set_read_timeout(Some(ANSWER_LIMIT));
            let _ = asker.set_write_timeout(Some(ANSWER_LIMIT));
            let mut request = String::new();
            // Who asks nothing in time gets what there always was: the status.
            let _ = BufReader::new(&asker)
                .take(REQUEST_BYTES)
                .read_line(&mut request);
            let text = answer(request.trim());
            let _ = asker.write_all(text.as_bytes()); // who went away does not want it
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Does an end run there?
#[must_use]
pub fn runs(path: &Path) -> bool {
    local::connect(path).is_ok()
}

/// Ask a running end.
///
/// # Errors
/// Text: nobody answers there.
pub fn ask(path: &Path, request: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| {
        let path = path.display();
        format!("{path} does not answer ({error}); start this end with: pqlink up CONFIG")
    };
    let mut socket = local::connect(path).map_err(failed)?;
    let mut text = String::new();
    let limited = socket.set_read_timeout(Some(Duration::from_secs(30)));
    limited.map_err(failed)?;
    socket
        .write_all(format!("{request}\n").as_bytes())
        .map_err(failed)?;
    socket.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// What stands at the top at either end.
fn head(
    role: &str,
    config: &Config,
    primitives: &dyn Primitives,
    uptime: Duration,
    hs: &BTreeMap<&'static str, u64>,
) -> (Report, Report) {
    let mut report = Report::default();
    report.text_of("role", role);
    report.number("pid", u64::from(std::process::id()));
    report.text_of("version", env!("CARGO_PKG_VERSION"));
    report.text_of("suite", &config.suite.id());
    report.text_of("liboqs", &primitives.provider());
    report.text_of("kem_provider", config.suite.kem.provider());
    report.number("uptime_s", uptime.as_secs());
    let mut counts = Report::default();
    for (name, count) in hs {
        counts.number(name, *count);
    }
    (report, counts)
}

/// Where a session stands, and who is at its other end.
fn session(report: &mut Report, cell: &Cell, now_ns: i64) {
    let session = &cell.session;
    let state = match session.epoch() {
        None => "no session",
        Some(_) if session.silent(now_ns) => "silent",
        Some(_) => "up",
    };
    report.text_of("state", state);
    if let Some(epoch) = session.epoch() {
        report.number("epoch", epoch.into());
    }
    if let Some(peer) = cell.path.peer() {
        report.text_of("peer", &pq_core::udp::canonical(peer).to_string());
    }
}

fn handshake(report: &mut Report, last: Option<&LastHandshake>) {
    if let Some(last) = last {
        report.text_of("handshake_id", &hex::shown(&last.handshake_id));
        report.number("handshake_ago_s", last.at.elapsed().as_secs());
        let wall_us = u64::try_from(last.wall.as_micros()).unwrap_or(u64::MAX);
        report.number("handshake_wall_us", wall_us);
        report.truth("handshake_was_rekey", last.is_rekey);
    }
}

/// Every counter of the data plane that is not zero.
fn packets(report: &mut Report, counters: &Counters) {
    for (name, count) in counters.named() {
        let is_ns = name.ends_with("_ns_total") || name.starts_with("digest_");
        if count > 0 && !is_ns {
            report.number(name, count);
        }
    }
}

/// Of a drone's own end.
#[must_use]
pub fn of_drone(link: &Link, config: &Config, primitives: &dyn Primitives) -> Report {
    let counts = locked(&link.counters).clone();
    let uptime = link.started.elapsed();
    let (mut report, counts) = head("drone", config, primitives, uptime, &counts);
    let now_ns = link.now_ns();
    let counters = {
        let cell = &*locked(&link.cell);
        session(&mut report, cell, now_ns);
        cell.counters.clone()
    };
    handshake(&mut report, locked(&link.last).as_ref());
    report.append(counts);
    packets(&mut report, &counters);
    report
}

/// Of a ground station: of all, then of each drone. Where the configuration names one drone, what is said of it stands
/// at the top.
#[must_use]
pub fn of_station(station: &Station, queue: Figures) -> Report {
    let (config, uptime) = (&station.config, station.started.elapsed());
    let all = station.counts.all();
    let (mut report, mut counts) = head("gcs", config, &*station.primitives, uptime, &all);
    for (name, count) in [
        ("queue", queue.waiting),
        ("queue_most", queue.most_waiting),
        ("at_work_most", queue.most_at_work),
    ] {
        counts.number(name, count as u64);
    }
    let peers = station.peers();
    let only = peers.iter().find(|peer| peer.name == fleet::ONLY);
    if let (Some(peer), None) = (only, &config.drones) {
        let (own, counters) = of_peer(station, peer);
        report.append(own);
        report.append(counts);
        let mut sum = station.hub.strays();
        sum.merge(&counters);
        packets(&mut report, &sum);
        return report;
    }
    report.number("drones", peers.len() as u64);
    report.append(counts);
    packets(&mut report, &station.hub.strays());
    for peer in peers {
        let mut one = Report::default();
        one.text_of("name", &peer.name);
        let (own, counters) = of_peer(station, &peer);
        one.append(own);
        let hs = peer.counts.all();
        // What is no refusal, or stands beside one.
        let fine = |name: &str| {
            let names = [
                "hs_started",
                "hs_begun",
                "hs_completed",
                "hs_deferred",
                "hs_abandoned",
            ];
            names.contains(&name)
        };
        let refusals = hs.iter().filter(|(name, _)| !fine(name));
        one.number("refusals", refusals.map(|(_, count)| count).sum());
        for name in [
            Counter::RxOk,
            Counter::RxOkBytes,
            Counter::TxData,
            Counter::TxDataBytes,
        ] {
            one.number(name.name(), counters.get(name));
        }
        one.number("rx_missing", peer.hub.missing());
        for (name, count) in &hs {
            one.number(name, *count);
        }
        packets(&mut one, &counters);
        report.items("drone", one);
    }
    for (id, name, refusals) in station.revoked() {
        let mut one = Report::default();
        one.text_of("name", &name);
        one.text_of("id", &hex::shown(&id));
        one.number("refusals", refusals);
        report.items("revoked", one);
    }
    report
}

fn of_peer(station: &Station, peer: &Peer) -> (Report, Counters) {
    let mut report = Report::default();
    let counters = {
        let cell = &*locked(&peer.hub.cell);
        session(&mut report, cell, station.hub.now_ns());
        cell.counters.clone()
    };
    let last = locked(&peer.last);
    if let (Some(last), true) = (&*last, station.config.drones.is_some()) {
        report.text_of("suite", &last.suite);
    }
    handshake(&mut report, last.as_ref());
    (report, counters)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn whoever_answers_and_is_no_end_keeps_none_from_starting() {
        let path = std::env::temp_dir().join(format!("pqlink-status-{}", std::process::id()));
        let other = UnixListener::bind(&path).expect("binds");
        let stranger = std::thread::spawn(move || drop(other.accept()));
        let socket = StatusSocket::open(&path).expect("its place is free");
        stranger.join().expect("it was asked");
        drop(socket);
        assert!(!path.exists());
    }
}
