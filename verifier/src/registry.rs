//! The checks in the order of docs/CORE-CHECKS.md, and how they are run: cells one after another, each read once.

use std::path::Path;

use crate::bundle::{Bundle, Row};
use crate::cell::Cell;
use crate::json::{self, given, object_of, read_object, text_of, Object};
use crate::survey::survey;
use crate::tables::Walls;
use crate::tally::{Found, Tally};
use crate::{bag, handshakes, plan, plane, record, report, shape, tables, times};

/// What checks of the whole bundle need of a cell once its files are dropped.
pub struct Brief {
    pub row: Row,
    pub run: usize,
    pub verdict: String,
    /// start and end by its record; None where it was not carried out
    pub wall: Found<Option<(i64, i64)>>,
    pub walls: Found<Walls>,
}

type Whole = fn(&Bundle, &[Brief], &mut Tally) -> Found<()>;
type Each = fn(&Cell, &mut Seen, &mut Tally) -> Found<()>;

enum Look {
    Bundle(Whole),
    /// once a cell that has a record
    All(Each),
    /// once a cell that was carried out
    Run(Each),
    /// once a cell that claims a result, and had no end killed
    Pass(Each),
}
use Look::{All, Pass, Run};

/// What cells saw that later cells are compared with.
#[derive(Default)]
pub struct Seen {
    pub times: std::collections::HashMap<[u8; 16], u32>,
    pub cells: Vec<String>,
}

struct Check {
    name: &'static str,
    expected: &'static str,
    unit: &'static str,
    look: Look,
    /// looks at the bundle whatever its plan is
    free: bool,
}

const fn whole(name: &'static str, look: Whole, unit: &'static str, expected: &'static str) -> Check {
    Check { name, expected, unit, look: Look::Bundle(look), free: false }
}

const fn free(name: &'static str, look: Whole, unit: &'static str, expected: &'static str) -> Check {
    Check { name, expected, unit, look: Look::Bundle(look), free: true }
}

const fn each(name: &'static str, look: Look, expected: &'static str) -> Check {
    Check { name, expected, unit: "cells", look, free: false }
}

static CHECKS: [Check; 40] = [
    free("bagit_structure", bag::structure, "tag files", "a BagIt 1.0 bag of sha-512"),
    free("tagmanifest_fixity", bag::tag_fixity, "tag files", "every tag file as sealed, none added"),
    free("manifest_fixity", bag::payload_fixity, "files", "every file as sealed, none added or dropped"),
    free("ro_crate", bag::crate_lists, "files", "metadata that lists every file"),
    free("files_known", shape::files, "files", "files that a run writes, and no other"),
    whole("versions_known", shape::versions, "runs", "versions that there were, nothing later"),
    each("version_kept", All(shape::kept), "raw files of the version that is named"),
    free("scenario_hash", plan::scenario_hash, "scenario", "the scenario that the plan was made from"),
    free("plan_schema", plan::schema, "planned cells", "a complete plan"),
    whole("cells_accounted", plan::accounted, "planned cells", "every planned cell exactly once"),
    whole("cell_ids", plan::ids, "planned cells", "ids that follow from scenario and builds"),
    whole("verdict_counts", plan::verdicts, "planned cells", "verdicts that sum to the plan"),
    each("seeds_drawn", All(plan::seeds), "seeds that follow from the campaign's"),
    whole("order_drawn", plan::order, "planned cells", "the order that the seed gives"),
    each("attempts_kept", All(record::attempts), "at most two repeats, each kept"),
    each("raw_files", Pass(record::raw_files), "all raw files of a result"),
    whole("wall_clock", times::run_wall, "cells", "Σ cells ≤ run, one after another"),
    whole("order_kept", times::order_kept, "planned cells", "cells in the order of the plan"),
    each("times_once", Run(times::once), "no times that repeat to the nanosecond"),
    whole("twins", plan::twins, "conditions", "A/A twins that differ in nothing but their name"),
    each("window_sum", Run(times::window_sum), "Σ windows ≤ cell wall, one after another"),
    each("session_duration", Pass(times::session_duration), "as long as the scenario says"),
    each("rate_time_packets", Pass(plane::rate_time_packets), "rate × time = packets"),
    each("ledger_counters", Pass(plane::ledger_counters), "one ledger row a counted datagram"),
    each("ledger_join", Pass(plane::ledger_join), "tx = rx on (epoch, sequence), no duplicate"),
    each("sequence_gaps", Pass(plane::sequence_gaps), "no gap that control packets do not explain"),
    each("counters_agree", Pass(plane::counters_agree), "what one end sent the other received"),
    each("counter_sums", Pass(plane::counter_sums), "totals = Σ windows"),
    each("byte_identity", Pass(plane::byte_identity), "equal digests at both ends"),
    each("seal_overhead", Pass(plane::seal_overhead), "plaintext + header and tag"),
    each("span_coverage", Pass(handshakes::coverage), "Σ spans 95–101 % of each wall"),
    each("span_order", Pass(handshakes::order), "spans one after another inside their wall"),
    each("span_window", Pass(handshakes::window), "handshakes inside their labelled window"),
    each("network_wait", Pass(handshakes::network_wait), "drone's network time ≥ ground's work, same handshake"),
    each("handshake_count", Pass(handshakes::count), "handshakes counted = traced, as many as asked for"),
    each("record_medians", Pass(record::medians), "medians as recomputed from spans and ledgers"),
    free("report_present", report::present, "files", "report.html and report.md"),
    free("report_numbers", report::numbers, "files", "a report of these numbers"),
    whole(
        "raw_fingerprints",
        report::fingerprints,
        "hashes",
        "every raw file, logs included, as the tables were made from",
    ),
    whole("tables_core", tables::core, "rows", "handshakes.csv and by_suite.csv as the spans give them"),
];

/// Every check of one bundle, in order. What must not be opened gives one failed line.
pub fn verify(path: &Path) -> Vec<Tally> {
    let refused = |why: String| {
        let mut tally = Tally::new(CHECKS[0].name, CHECKS[0].expected, CHECKS[0].unit);
        tally.fail(|| format!("{why}; nothing was read"));
        vec![tally]
    };
    let root = match path.canonicalize() {
        Ok(root) if root.join("data").is_dir() => root,
        Ok(_) => return refused("there is no data/ in it".to_owned()),
        Err(why) => return refused(why.to_string()),
    };
    match survey(&root) {
        Ok(files) => look(&Bundle::open(&root, files)),
        Err(why) => refused(why),
    }
}

fn look(bundle: &Bundle) -> Vec<Tally> {
    let mut tallies: Vec<Tally> =
        CHECKS.iter().map(|check| Tally::new(check.name, check.expected, check.unit)).collect();
    // the plan says how much there is to look at
    let barred = match &bundle.plan {
        Ok(plan) if plan::problem(plan).is_some() => Some("the plan is not valid"),
        _ => None,
    };
    let mut briefs = Vec::new();
    if let Some(why) = barred {
        for (check, tally) in CHECKS.iter().zip(&mut tallies) {
            if !check.free {
                tally.fail(|| format!("not looked at: {why}"));
            }
        }
    } else {
        match &bundle.rows {
            Ok(rows) => {
                let mut seen = Seen::default();
                for row in rows {
                    briefs.extend(cell_of(bundle, row, &mut seen, &mut tallies));
                }
            }
            Err(why) => {
                for (check, tally) in CHECKS.iter().zip(&mut tallies) {
                    if !matches!(check.look, Look::Bundle(_)) {
                        tally.fail(|| format!("the plan cannot be read: {why}"));
                    }
                }
            }
        }
    }
    for (check, tally) in CHECKS.iter().zip(&mut tallies) {
        if let Look::Bundle(function) = check.look {
            if check.free || barred.is_none() {
                if let Err(why) = function(bundle, &briefs, tally) {
                    tally.fail(|| why);
                }
            }
        }
    }
    tallies
}

/// The checks of one cell; None where it left no record.
fn cell_of(bundle: &Bundle, row: &Row, seen: &mut Seen, tallies: &mut [Tally]) -> Option<Brief> {
    let path = bundle.data.join("cells").join(&row.cell_id).join("record.json");
    if !bundle.has(&format!("cells/{}/record.json", row.cell_id)) {
        return None;
    }
    let damaged = |why: &str, verdict: &str, tallies: &mut [Tally]| {
        for (check, tally) in CHECKS.iter().zip(tallies) {
            if applies(&check.look, verdict) {
                tally.fail(|| format!("{}: {why}", row.label()));
            }
        }
        let verdict = verdict.to_owned();
        Some(Brief { row: row.clone(), run: 0, verdict, wall: Err(why.to_owned()), walls: Err(why.to_owned()) })
    };
    let record = match read_object(&path) {
        Ok(record) => record,
        Err(why) => return damaged(&why, "", tallies),
    };
    let verdict = text_of(&record, "verdict").unwrap_or("").to_owned();
    let (Ok(number), Ok(runs)) = (bundle.run_of(&row.cell_id), &bundle.runs) else {
        let why = bundle.own().err().unwrap_or_default();
        return damaged(&why, &verdict, tallies);
    };
    let cell = Cell::open(&bundle.data, row, &runs[number], &record);
    seen.cells.push(cell.label.clone());
    let torn = cell.torn();
    for (check, tally) in CHECKS.iter().zip(tallies) {
        let (All(function) | Run(function) | Pass(function)) = check.look else {
            continue;
        };
        if applies(&check.look, &verdict) && !(torn && matches!(check.look, Look::Pass(_))) {
            if let Err(why) = function(&cell, seen, tally) {
                tally.fail(|| format!("{}: {why}", cell.label));
            }
        }
    }
    let walls = Walls::of(&cell);
    Some(Brief { row: row.clone(), run: number, verdict, wall: wall_of(&record), walls })
}

fn applies(look: &Look, verdict: &str) -> bool {
    match look {
        Look::Bundle(_) => false,
        Look::All(_) => true,
        Look::Run(_) => matches!(verdict, "pass" | "fail" | "invalid"),
        Look::Pass(_) => verdict == "pass",
    }
}

fn wall_of(record: &Object) -> Found<Option<(i64, i64)>> {
    let wall = object_of(record, "wall")?;
    let end = |name: &str| given(wall, name).map(json::whole).transpose();
    Ok(end("start_ns")?.zip(end("end_ns")?))
}
