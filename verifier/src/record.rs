//! The record: attempts and raw files that are there, and figures as the raw files give them.

use std::collections::BTreeMap;

use crate::bundle::{keeps_ledger, ROLES};
use crate::cell::Cell;
use crate::handshakes::wall_of;
use crate::json::{given, is_set, objects, whole, whole_of};
use crate::numbers::{greatest, least, mean, median};
use crate::registry::Seen;
use crate::tally::{Found, Tally};

const MAX_ATTEMPTS: usize = 3;
const ROUNDING: f64 = 1e-6;
/// (step, host) of a primitive → its field in category E.
const PRIMITIVES: [((&str, &str), &str); 7] = [
    (("keygen", "gcs"), "kem_keygen_ms"),
    (("encaps", "drone"), "kem_encaps_ms"),
    (("decaps", "gcs"), "kem_decaps_ms"),
    (("sign", "gcs"), "sig_sign_ms"),
    (("verify", "drone"), "sig_verify_ms"),
    (("sign", "drone"), "drone_sign_ms"),
    (("verify", "gcs"), "drone_sig_verify_ms"),
];

pub fn attempts(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(&cell.folder).map_err(|why| why.to_string())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("attempt-") && entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    let told = usize::try_from(whole_of(cell.record, "attempts")?).unwrap_or(usize::MAX);
    let carried_out = !matches!(crate::json::text_of(cell.record, "verdict"), Ok("unsupported" | "not-run"));
    let due = if carried_out { folders.len() + 1 } else { 0 };
    tally.require(told == due, || format!("{}: {told} attempts, {due} are there", cell.label));
    let again = objects(&cell.run.run, "sessions").filter(|session| is_set(session.get("rerun_failed"))).count();
    let most = MAX_ATTEMPTS * (1 + again);
    tally.require(told <= most, || format!("{}: {told} attempts, {most} are allowed", cell.label));
    for folder in folders {
        let whole = folder.join("events.ndjson").is_file();
        tally.require(whole, || format!("{}: {} is empty", cell.label, crate::json::short(&folder)));
    }
    Ok(())
}

pub fn raw_files(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let scenario = &cell.run.scenario;
    let carried = is_set(scenario.get("traffic")) || is_set(scenario.get("bulk"));
    let ledgers = carried && keeps_ledger(scenario, &cell.condition);
    for name in &cell.raw()?.missing {
        let due = if name.starts_with("ledger.") { ledgers } else { carried || name != "traffic.json" };
        tally.require(!due, || format!("{}: {name} is missing", cell.label));
    }
    Ok(())
}

/// What the spans of cold handshakes give, ms; a handshake counts when the drone's wall is there.
#[derive(Default)]
struct Figures {
    drone: Vec<f64>,
    ground: Vec<f64>,
    crypto: Vec<f64>,
    ratios: Vec<f64>,
    steps: BTreeMap<(&'static str, &'static str), Vec<f64>>,
}

fn ms(ns: i128) -> f64 {
    ns as f64 / 1e6
}

fn figures(cell: &Cell) -> Found<Figures> {
    let raw = cell.raw()?;
    let mut found = Figures::default();
    for hosts in cell.handshakes("cold")?.values() {
        let Some(wall) = hosts.get("drone").and_then(|spans| wall_of(raw, spans)) else {
            continue;
        };
        found.drone.push(ms(wall.length_ns().into()));
        found
            .ground
            .extend(hosts.get("gcs").and_then(|spans| wall_of(raw, spans)).map(|wall| ms(wall.length_ns().into())));
        let mut spent: BTreeMap<(&str, &str), i128> = BTreeMap::new();
        for (host, spans) in hosts {
            for span in spans.iter().filter(|span| raw.words.text(span.kind) == "crypto") {
                *spent.entry((raw.words.text(span.step), host)).or_default() += i128::from(span.length_ns());
            }
        }
        for (place, _) in PRIMITIVES {
            if let Some(ns) = spent.get(&place).filter(|ns| **ns != 0) {
                found.steps.entry(place).or_default().push(ms(*ns));
            }
        }
        let total: i128 = spent.values().sum();
        if total != 0 {
            found.crypto.push(ms(total));
            found.ratios.push(wall.length_ns() as f64 / total as f64);
        }
    }
    Ok(found)
}

/// Walls of one host in handshakes that both ends call pooled.
fn pooled(cell: &Cell, host: &str) -> Found<Vec<f64>> {
    let raw = cell.raw()?;
    let handshakes = cell.handshakes("pooled")?;
    let both = handshakes.values().filter(|hosts| ROLES.iter().all(|role| hosts.contains_key(role)));
    Ok(both.filter_map(|hosts| wall_of(raw, hosts.get(host)?)).map(|wall| ms(wall.length_ns().into())).collect())
}

pub fn medians(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.unit = "fields";
    let raw = cell.raw()?;
    let found = figures(cell)?;
    let mut compare = |letter: &str, name: &str, due: Option<f64>, count: Option<usize>| {
        compare(cell, tally, letter, name, due, count)
    };
    compare("D", "handshake_total_duration_ms", median(&found.drone), Some(found.drone.len()))?;
    compare("D", "handshake_gcs_duration_ms", median(&found.ground), Some(found.ground.len()))?;
    compare("D", "handshake_min_ms", least(&found.drone), Some(found.drone.len()))?;
    compare("D", "handshake_max_ms", greatest(&found.drone), Some(found.drone.len()))?;
    compare("D", "handshake_over_crypto_ratio", median(&found.ratios), Some(found.ratios.len()))?;
    compare("E", "crypto_critical_path_ms", median(&found.crypto), Some(found.crypto.len()))?;
    for (place, name) in PRIMITIVES {
        let values = found.steps.get(&place).map(Vec::as_slice).unwrap_or_default();
        compare("E", name, median(values), Some(values.len()))?;
    }
    for (host, name) in [("drone", "pooled_handshake_duration_ms"), ("gcs", "pooled_handshake_gcs_duration_ms")] {
        let values = pooled(cell, host)?;
        compare("D", name, median(&values), Some(values.len()))?;
    }
    let (Some(down), Some(drone)) = (&raw.down, raw.ledgers.get("drone")) else {
        return Ok(());
    };
    let latency: Vec<f64> = down
        .windows
        .get("traffic")
        .map(|joined| joined.latency_ns.iter().map(|ns| ms((*ns).into())).collect())
        .unwrap_or_default();
    if !latency.is_empty() && cell.run.one_clock() && raw.unshifted() {
        compare("H", "one_way_latency_p50_ms", median(&latency), Some(latency.len()))?;
        compare("H", "one_way_latency_mean_ms", mean(&latency), Some(latency.len()))?;
    }
    compare("G", "packets_sent_count", Some(drone.sent.len() as f64), None)
}

fn compare(
    cell: &Cell,
    tally: &mut Tally,
    letter: &str,
    name: &str,
    due: Option<f64>,
    count: Option<usize>,
) -> Found<()> {
    let field = match cell.field(letter, name) {
        // of an earlier version: a field that came later, of something that the cell did not do
        Err(_) if due.is_none() && !cell.run.of_today() => return Ok(()),
        found => found?,
    };
    tally.see();
    let told = given(field, "value").map(|value| value.as_f64().ok_or("value is no number")).transpose()?;
    let at = |why: String| format!("{} {letter}.{name}: {why}", cell.label);
    let (Some(told), Some(due)) = (told, due) else {
        tally.require(told.is_none() && due.is_none(), || at(format!("{told:?}, the raw files give {due:?}")));
        return Ok(());
    };
    let near = (told - due).abs() <= ROUNDING * (1.0 + due.abs());
    tally.require(near, || at(format!("{told}, the raw files give {due:.6}")));
    if let Some(count) = count {
        let n = given(field, "n").and_then(|n| whole(n).ok());
        tally.require(n.and_then(|n| usize::try_from(n).ok()) == Some(count), || at(format!("n is not {count}")));
    }
    Ok(())
}
