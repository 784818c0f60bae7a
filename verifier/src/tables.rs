//! Two tables once more: `handshakes.csv` from the spans of each cell, `by_suite.csv` from its medians.

use std::collections::BTreeMap;

use crate::bundle::Bundle;
use crate::cell::Cell;
use crate::csv::{Row, Table};
use crate::handshakes::wall_of;
use crate::json::text_of;
use crate::numbers::{greatest, least, mean, median, quantile};
use crate::registry::Brief;
use crate::tally::{Found, Tally};

/// Tables hold nine significant digits.
const ROUNDING: f64 = 2e-8;
/// A tail of 5 % needs so many values.
const LEAST_P95: usize = 20;
/// Below that a group has no statistics but its median and range.
const LEAST_CELLS: usize = 3;

/// Figures of a cell's cold handshakes that both ends timed; a column that does not count is None.
pub struct Walls {
    n: usize,
    columns: [(&'static str, Option<f64>); 12],
}

impl Walls {
    pub fn of(cell: &Cell) -> Found<Self> {
        let raw = cell.raw()?;
        let invalid = |name: &str| cell.field("D", name).is_ok_and(|field| text_of(field, "validity") == Ok("invalid"));
        let mut drone = Vec::new();
        let mut ground = Vec::new();
        let mut crypto = Vec::new();
        let mut ratios = Vec::new();
        let mut covered = [Vec::new(), Vec::new()];
        for hosts in cell.handshakes("cold")?.values() {
            let wall = |host: &str| wall_of(raw, hosts.get(host)?).map(|wall| wall.length_ns() as f64 / 1e6);
            let (Some(ours), Some(theirs)) = (wall("drone"), wall("gcs")) else {
                continue;
            };
            drone.push(ours);
            ground.push(theirs);
            let mut spent = 0.0;
            for (at, host, length) in [(0, "drone", ours), (1, "gcs", theirs)] {
                let steps = hosts[host].iter().filter(|span| raw.words.text(span.step) != "handshake");
                let mut sum = 0.0;
                for span in steps {
                    let took = span.length_ns() as f64 / 1e6;
                    sum += took;
                    spent += if raw.words.text(span.kind) == "crypto" { took } else { 0.0 };
                }
                if length > 0.0 {
                    covered[at].push(100.0 * sum / length);
                }
            }
            crypto.push(spent);
            if spent > 0.0 {
                ratios.push(ours / spent);
            }
        }
        let n = drone.len();
        if invalid("handshake_total_duration_ms") {
            return Ok(Self { n, columns: NAMES.map(|name| (name, None)) });
        }
        let p95 = |values: &[f64]| {
            (values.len() >= LEAST_P95 && !invalid("handshake_p95_ms")).then(|| quantile(values, 0.95))?
        };
        let most = |values: &[f64]| (!invalid("handshake_max_ms")).then(|| greatest(values))?;
        let values = [
            median(&drone),
            p95(&drone),
            least(&drone),
            most(&drone),
            median(&ground),
            p95(&ground),
            least(&ground),
            most(&ground),
            median(&crypto),
            median(&ratios),
            least(&covered[0]),
            least(&covered[1]),
        ];
        let mut columns = NAMES.map(|name| (name, None));
        for (column, value) in columns.iter_mut().zip(values) {
            column.1 = value;
        }
        Ok(Self { n, columns })
    }

    fn median(&self) -> Option<f64> {
        self.columns[0].1
    }
}

const NAMES: [&str; 12] = [
    "drone_wall_median_ms",
    "drone_wall_p95_ms",
    "drone_wall_min_ms",
    "drone_wall_max_ms",
    "gcs_wall_median_ms",
    "gcs_wall_p95_ms",
    "gcs_wall_min_ms",
    "gcs_wall_max_ms",
    "crypto_sum_median_ms",
    "wall_over_crypto_ratio",
    "coverage_drone_min_pct",
    "coverage_gcs_min_pct",
];

pub fn core(bundle: &Bundle, briefs: &[Brief], tally: &mut Tally) -> Found<()> {
    if !bundle.own()?.has_witnesses() {
        "not asked of another version".clone_into(&mut tally.note);
        return Ok(());
    }
    let withdrawn = bundle.withdrawn()?;
    let verdict = |brief: &Brief| {
        if withdrawn.contains(&brief.row.cell_id) {
            "invalid".to_owned()
        } else {
            brief.verdict.clone()
        }
    };
    let mut cells: BTreeMap<&str, &Brief> = briefs.iter().map(|brief| (brief.row.cell_id.as_str(), brief)).collect();
    let mut groups: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for row in Table::read(&bundle.data.join("analysis").join("handshakes.csv"))?.rows() {
        tally.see();
        let id = row.text("cell_id")?;
        let Some(brief) = cells.remove(id) else {
            tally.fail(|| format!("handshakes.csv: a row of {id}, which is no cell or has one already"));
            continue;
        };
        let at =
            |column: &str| format!("handshakes.csv, {}: {column} is not what the cell's files give", brief.row.label());
        let due = [
            ("suite_id", brief.row.suite_id.clone()),
            ("condition", brief.row.condition.clone()),
            ("repetition", brief.row.repetition.to_string()),
            ("position", brief.row.position.to_string()),
            ("verdict", verdict(brief)),
        ];
        for (column, value) in due {
            tally.require(row.text(column)? == value, || at(column));
        }
        let walls = brief.walls.as_ref().map_err(Clone::clone)?;
        tally.require(row.text("n")? == walls.n.to_string(), || at("n"));
        for (column, value) in walls.columns {
            tally.require(near(row.number(column)?, value), || at(column));
        }
        if let (Some(median), "pass") = (walls.median(), verdict(brief).as_str()) {
            groups.entry((brief.row.suite_id.clone(), brief.row.condition.clone())).or_default().push(median);
        }
    }
    for brief in cells.values() {
        tally.fail(|| format!("handshakes.csv has no row of {}", brief.row.label()));
    }
    for row in Table::read(&bundle.data.join("analysis").join("by_suite.csv"))?.rows() {
        tally.see();
        let place = (row.text("suite_id")?.to_owned(), row.text("condition")?.to_owned());
        let Some(values) = groups.remove(&place) else {
            tally.fail(|| format!("by_suite.csv: a row of {} under {} without cells that passed", place.0, place.1));
            continue;
        };
        for (column, value) in group(&values) {
            same_number(&row, column, value, &place, tally)?;
        }
    }
    for (suite, condition) in groups.keys() {
        tally.fail(|| format!("by_suite.csv has no row of {suite} under {condition}"));
    }
    Ok(())
}

fn group(values: &[f64]) -> [(&'static str, Option<f64>); 7] {
    let enough = |value: Option<f64>| value.filter(|_| values.len() >= LEAST_CELLS);
    [
        ("n_cells", Some(values.len() as f64)),
        ("median_ms", median(values)),
        ("q1_ms", enough(quantile(values, 0.25))),
        ("q3_ms", enough(quantile(values, 0.75))),
        ("mean_ms", enough(mean(values))),
        ("min_ms", least(values)),
        ("max_ms", greatest(values)),
    ]
}

fn same_number(row: &Row, column: &str, due: Option<f64>, place: &(String, String), tally: &mut Tally) -> Found<()> {
    let told = row.number(column)?;
    let (suite, condition) = place;
    tally.require(near(told, due), || {
        format!("by_suite.csv, {suite} under {condition}: {column} {told:?}, the cells give {due:?}")
    });
    Ok(())
}

fn near(told: Option<f64>, due: Option<f64>) -> bool {
    match (told, due) {
        (Some(told), Some(due)) => (told - due).abs() <= ROUNDING * (told.abs() + due.abs()) / 2.0 + 1e-12,
        _ => told.is_none() && due.is_none(),
    }
}
