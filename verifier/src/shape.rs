//! Nothing that does not belong there: known files, known versions.

use serde_json::Value;

use crate::bundle::{Bundle, Run, ROLES, VERSIONS};
use crate::cell::{Cell, Span};
use crate::json::{given, objects, text_of, Object};
use crate::registry::{Brief, Seen};
use crate::tally::{Found, Tally};

const PROTOCOL: i64 = 1;
const FIRST: &str = "0.1.0";
const BEFORE_1_0: [&str; 2] = [FIRST, "0.2.0"];
/// Tables that 0.1.0 did not make yet.
const LATER_TABLES: [&str; 13] = [
    "fingerprints",
    "aead",
    "drift",
    "explorer",
    "latency_shares",
    "pareto",
    "timeline",
    "timeline_bands",
    "rekeys",
    "rekey_sweep",
    "commands",
    "fleet_stages",
    "fleet_capacity",
];
const DOCUMENTS: [&str; 7] = [
    "run.json",
    "plan.json",
    "providers.json",
    "scenario.effective.yml",
    "hosts/drone.json",
    "hosts/gcs.json",
    "hosts/controller.json",
];
const OF_THE_RUN: [&str; 11] = [
    "ro-crate-metadata.json",
    "report.html",
    "report.md",
    "datapackage.json",
    "attribution.json",
    "CITATION.cff",
    "format/fields.json",
    "format/record.schema.json",
    "format/scenario.schema.json",
    "format/plan.schema.json",
    "format/correction.schema.json",
];
const OF_A_CELL: [&str; 30] = [
    "record.json",
    "counters.json",
    "traffic.json",
    "link.json",
    "link.ledger.csv",
    "mavlink.gcs.tlog",
    "detectors.json",
    "observers.json",
    "spans.ndjson",
    "events.ndjson",
    "attack.ndjson",
    "fleet.json",
    "fleet.attempts.csv",
    "fleet.back.csv",
    "fleet.probes.csv",
    "fleet.samples.csv",
    "fleet.loads.csv",
    "fleet.station.ndjson",
    "bins.ndjson",
    "bins.gcs.ndjson",
    "detector.ndjson",
    "ledger.drone.csv",
    "ledger.gcs.csv",
    "telemetry.drone.lp",
    "telemetry.gcs.lp",
    "power.drone.csv",
    "power.gcs.csv",
    "logs/drone.log",
    "logs/gcs.log",
    "logs/controller.log",
];
const OF_A_CANARY: [&str; 2] = ["canary/attack.ndjson", "canary/link.json"];

fn hex(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn counted(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `20260301T120000Z-ab12cd`
pub fn is_run_id(text: &str) -> bool {
    let parts = (text.get(..8), text.get(8..9), text.get(9..15), text.get(15..17), text.get(17..));
    let (Some(day), Some("T"), Some(time), Some("Z-"), Some(tail)) = parts else {
        return false;
    };
    day.bytes().chain(time.bytes()).all(|byte| byte.is_ascii_digit()) && hex(tail, 6)
}

/// What an end swore to, and its signature: `attestation/drone-1.ndjson`, `attestation/drone-1.dsse.json`
fn is_attestation(name: &str) -> bool {
    let rest = name.strip_prefix("attestation/").and_then(|file| file.split_once('-'));
    rest.is_some_and(|(role, file)| {
        let number = file.strip_suffix(".ndjson").or_else(|| file.strip_suffix(".dsse.json"));
        ROLES.contains(&role) && number.is_some_and(counted)
    })
}

/// May a file of that name lie below data/?
fn is_known(name: &str) -> bool {
    if DOCUMENTS.contains(&name) || OF_THE_RUN.contains(&name) || is_attestation(name) {
        return true;
    }
    let Some((folder, rest)) = name.split_once('/') else {
        return false;
    };
    match folder {
        "analysis" => rest.strip_suffix(".csv").is_some_and(|table| {
            !table.is_empty() && table.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        }),
        "traces" => rest.strip_suffix(".csv").is_some_and(|digest| hex(digest, 64)),
        "corrections" => rest.strip_suffix(".json").is_some_and(counted),
        "lineage" => rest.split_once('/').is_some_and(|(run_id, file)| {
            is_run_id(run_id) && (DOCUMENTS.contains(&file) || file == "manifest-sha512.txt" || is_attestation(file))
        }),
        "cells" => rest.split_once('/').is_some_and(|(cell, file)| {
            let attempt = file.strip_prefix("attempt-").and_then(|rest| rest.split_once('/'));
            let file = attempt.filter(|(number, _)| counted(number)).map_or(file, |(_, file)| file);
            hex(cell, 16) && (OF_A_CELL.contains(&file) || OF_A_CANARY.contains(&file))
        }),
        _ => false,
    }
}

pub fn files(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    for (name, _) in bundle.payload() {
        tally.see();
        tally.require(is_known(name), || format!("{name} is no file of a run"));
    }
    Ok(())
}

/// A file below data/ that 0.1.0 did not write yet.
fn is_later(name: &str) -> bool {
    let table = name.strip_prefix("analysis/").and_then(|table| table.strip_suffix(".csv"));
    let of_format = name.starts_with("format/") && is_known(name);
    let of_run = ["datapackage.json", "attribution.json", "CITATION.cff"].contains(&name);
    of_format || of_run || is_attestation(name) || table.is_some_and(|table| LATER_TABLES.contains(&table))
}

/// What the documents of a run hold that its version did not know yet.
fn later(run: &Run, made_by: &str) -> Vec<String> {
    let mut found = Vec::new();
    if BEFORE_1_0.contains(&made_by) {
        found.extend(["campaign", "share", "pair"].iter().filter(|name| run.plan.contains_key(**name)));
        let traffic = given(&run.scenario, "traffic").and_then(Value::as_object);
        if traffic.is_some_and(|traffic| given(traffic, "workload").is_some()) {
            found.push(&"a workload");
        }
        if objects(&run.scenario, "conditions").any(|condition| given(condition, "fleet").is_some()) {
            found.push(&"a fleet");
        }
    }
    if made_by == FIRST {
        let told = |name: &str| objects(&run.run, "sessions").any(|session| session.contains_key(name));
        found.extend(["settle", "warm_up"].iter().filter(|name| told(name)));
        found.extend(["attestation"].iter().filter(|name| run.plan.contains_key(**name)));
        for host in run.hosts.values() {
            found.extend(["dataplane_asked", "clock_costs"].iter().filter(|name| host.contains_key(**name)));
        }
    }
    found.into_iter().map(|name| (*name).to_owned()).collect()
}

/// Raw files of a cell hold nothing that its run's version did not write yet.
pub fn kept(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let raw = cell.raw()?;
    let made_by = text_of(&cell.run.run, "pqlab_version").unwrap_or("");
    let mut found = Vec::new();
    if BEFORE_1_0.contains(&made_by) {
        let asked = |window: &Value| {
            let report = window.get("gcs").and_then(|end| end.get("source_report"));
            report.is_some_and(|report| report.get("workload").is_some())
        };
        if raw.traffic.iter().flat_map(serde_json::Map::values).any(asked) {
            found.push("a workload");
        }
    }
    if made_by == FIRST {
        let named = |event: &Object, name: &str| text_of(event, "event") == Ok(name);
        if raw.events.iter().any(|event| named(event, "processors")) {
            found.push("events `processors`");
        }
        if raw.events.iter().any(|event| named(event, "prepare") && event.contains_key("dataplane")) {
            found.push("a data plane in `prepare`");
        }
        let scheduled = |span: &Span| span.cpu_ns.is_some() || span.runqueue_ns.is_some() || span.involuntary.is_some();
        if raw.spans.iter().flatten().any(scheduled) {
            found.push("what the scheduler did");
        }
    }
    for what in found {
        tally.fail(|| format!("{} is of pqlab {made_by} and holds {what}, which came later", cell.label));
    }
    Ok(())
}

pub fn versions(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let runs = bundle.runs.as_ref().map_err(Clone::clone)?;
    for (at, run) in runs.iter().enumerate() {
        tally.see();
        let made_by = text_of(&run.run, "pqlab_version").unwrap_or("no version");
        if VERSIONS.contains(&made_by) {
            let mut found = later(run, made_by);
            if made_by == FIRST && at + 1 == runs.len() {
                found.extend(bundle.payload().map(|(name, _)| name).filter(|name| is_later(name)).map(str::to_owned));
            }
            for what in found {
                tally.fail(|| format!("run {} is of pqlab {made_by} and holds {what}, which came later", run.id()));
            }
        } else {
            tally.fail(|| format!("run {} is of pqlab {made_by}, known are {}", run.id(), VERSIONS.join(", ")));
        }
        for role in ROLES {
            let told = run.hosts.get(role).and_then(|facts| facts.get("protocol_version"));
            let known = told.and_then(Value::as_i64) == Some(PROTOCOL);
            tally.require(known, || format!("the {role} of run {} spoke another protocol than {PROTOCOL}", run.id()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_known;

    #[test]
    fn the_files_of_a_run_and_no_other() {
        for name in [
            "plan.json",
            "cells/00112233445566aa/attempt-2/logs/gcs.log",
            "cells/00112233445566aa/canary/link.json",
            "cells/00112233445566aa/fleet.station.ndjson",
            "lineage/20260301T120000Z-ab12cd/hosts/gcs.json",
            "corrections/10.json",
            "CITATION.cff",
            "format/fields.json",
            "attestation/gcs-12.dsse.json",
            "lineage/20260301T120000Z-ab12cd/attestation/drone-1.ndjson",
        ] {
            assert!(is_known(name), "{name}");
        }
        for name in [
            "plan.json.bak",
            "cells/00112233445566AA/record.json",
            "cells/00112233445566aa/attempt-0/record.json",
            "cells/00112233445566aa/notes.txt",
            "lineage/yesterday/plan.json",
            "corrections/01.json",
            "analysis/.csv",
            "hosts/relay.json",
            "fields.json",
            "format/report.schema.json",
            "attestation/controller-1.ndjson",
            "attestation/drone-0.ndjson",
            "attestation/drone-1.json",
            "cells/00112233445566aa/attestation/drone-1.ndjson",
        ] {
            assert!(!is_known(name), "{name}");
        }
    }
}
