//! The documents of a bundle: its own run's and those of earlier runs whose cells it took over.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json::{given, list_of, number_of, objects, read_object, short, text_of, texts, whole_of, Object};
use crate::survey::Entry;
use crate::tally::Found;
use crate::{json, yaml};

pub const ROLES: [&str; 2] = ["drone", "gcs"];
/// Versions of pqlab that sealed bundles; the last one is today's.
pub const VERSIONS: [&str; 3] = ["0.1.0", "0.2.0", "1.0.0"];
/// Of these, those that wrote every witness (seeds, order, fingerprints) and took figures as today.
const WITNESSED: [&str; 2] = ["0.2.0", "1.0.0"];
/// Cells that a scenario or a plan may have.
pub const MOST_CELLS: usize = 200_000;

/// Documents of one run, by their names.
#[allow(clippy::struct_field_names)]
pub struct Run {
    pub run: Object,
    pub scenario: Object,
    pub plan: Object,
    pub providers: Object,
    pub hosts: BTreeMap<String, Object>,
    /// of an earlier run: the cells that were taken over from it
    pub cells: HashSet<String>,
}

impl Run {
    fn load(folder: &Path) -> Found<Self> {
        let mut hosts = BTreeMap::new();
        if let Ok(entries) = std::fs::read_dir(folder.join("hosts")) {
            for entry in entries.flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|end| end == "json") {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    hosts.insert(name, read_object(&path)?);
                }
            }
        }
        let run = folder.join("run.json");
        Ok(Self {
            run: if run.exists() { read_object(&run)? } else { Object::new() },
            scenario: yaml::read_object(&folder.join("scenario.effective.yml"))?,
            plan: read_object(&folder.join("plan.json"))?,
            providers: read_object(&folder.join("providers.json"))?,
            hosts,
            cells: HashSet::new(),
        })
    }

    /// The condition of that name; an empty one where the scenario has none.
    pub fn condition(&self, name: &str) -> Object {
        let found = objects(&self.scenario, "conditions").find(|each| text_of(each, "name") == Ok(name));
        found.cloned().unwrap_or_default()
    }

    pub fn id(&self) -> String {
        text_of(&self.run, "run_id").unwrap_or("without an id").to_owned()
    }

    /// Did today's version make this run? Earlier ones wrote some things otherwise, or not at all.
    pub fn of_today(&self) -> bool {
        text_of(&self.run, "pqlab_version").is_ok_and(|told| Some(&told) == VERSIONS.last())
    }

    /// Is this run of a version that wrote all witnesses? 0.1.0 wrote some otherwise, or not at all.
    pub fn has_witnesses(&self) -> bool {
        text_of(&self.run, "pqlab_version").is_ok_and(|told| WITNESSED.contains(&told))
    }

    /// Do both ends read one clock?
    pub fn one_clock(&self) -> bool {
        let boot = |role: &str| {
            let host = self.hosts.get(role).and_then(|facts| facts.get("host")).and_then(Value::as_object);
            let told = host.and_then(|host| given(host, "boot_id"));
            let told = told.filter(|told| json::is_set(Some(told))).map(ToString::to_string);
            told.unwrap_or_else(|| role.to_owned())
        };
        boot("drone") == boot("gcs")
    }

    pub fn started_ns(&self) -> Found<i64> {
        whole_of(&self.run, "started_ns")
    }

    pub fn ended_ns(&self) -> Found<i64> {
        whole_of(&self.run, "ended_ns")
    }

    pub fn virtual_time(&self) -> bool {
        text_of(&self.scenario, "ring") == Ok("sim")
    }

    /// (window, seconds, datagrams a second) of the traffic and bulk windows that are due.
    pub fn sessions(&self) -> Found<Vec<(String, f64, f64)>> {
        let mut due = Vec::new();
        if let Some(traffic) = given(&self.scenario, "traffic").and_then(Value::as_object) {
            due.push(("traffic".to_owned(), number_of(traffic, "session_s")?, number_of(traffic, "rate_hz")?));
        }
        if let Some(bulk) = given(&self.scenario, "bulk").and_then(Value::as_object) {
            for rate in list_of(bulk, "rates_pps")? {
                let hz = rate.as_f64().ok_or("a rate is no number")?;
                due.push((format!("bulk-{rate}"), number_of(bulk, "step_s")?, hz));
            }
        }
        Ok(due)
    }
}

/// One row of the plan.
#[derive(Clone)]
pub struct Row {
    pub cell_id: String,
    pub suite_id: String,
    pub condition: String,
    pub repetition: i64,
    pub position: i64,
    pub block: i64,
    pub seed: Value,
}

impl Row {
    pub fn read(row: &Value) -> Found<Self> {
        let row = row.as_object().ok_or("a row of the plan is no object")?;
        Ok(Self {
            cell_id: text_of(row, "cell_id")?.to_owned(),
            suite_id: text_of(row, "suite_id")?.to_owned(),
            condition: text_of(row, "condition")?.to_owned(),
            repetition: whole_of(row, "repetition")?,
            position: whole_of(row, "position")?,
            block: whole_of(row, "block")?,
            seed: json::member(row, "seed")?.clone(),
        })
    }

    pub fn place(&self) -> (&str, &str, i64) {
        (&self.suite_id, &self.condition, self.repetition)
    }

    pub fn label(&self) -> String {
        format!("{} under {} #{}", self.suite_id, self.condition, self.repetition)
    }
}

/// Rows of a plan in the order of their positions.
pub fn rows_of(plan: &Object) -> Found<Vec<Row>> {
    let rows = list_of(plan, "cells")?;
    if rows.len() > MOST_CELLS {
        return Err(format!("the plan has {} cells, {MOST_CELLS} are the most", rows.len()));
    }
    let mut found = rows.iter().map(Row::read).collect::<Found<Vec<_>>>()?;
    found.sort_by_key(|row| row.position);
    Ok(found)
}

pub struct Bundle {
    pub root: PathBuf,
    pub data: PathBuf,
    /// every file below the root, tag files included, sorted by name
    pub files: Vec<Entry>,
    /// earlier runs, oldest first, then the bundle's own
    pub runs: Found<Vec<Run>>,
    pub plan: Found<Object>,
    pub rows: Found<Vec<Row>>,
    run_of: HashMap<String, usize>,
}

impl Bundle {
    pub fn open(root: &Path, files: Vec<Entry>) -> Self {
        let data = root.join("data");
        let plan = read_object(&data.join("plan.json"));
        let rows = plan.as_ref().map_err(Clone::clone).and_then(rows_of);
        let runs = runs_of(&data);
        let mut run_of = HashMap::new();
        for (at, run) in runs.iter().flatten().enumerate() {
            for cell in &run.cells {
                run_of.entry(cell.clone()).or_insert(at);
            }
        }
        Self { root: root.to_owned(), data, files, runs, plan, rows, run_of }
    }

    /// Files of the payload, named from data/.
    pub fn payload(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().filter_map(|file| Some((file.name.strip_prefix("data/")?, file.size)))
    }

    /// Names of the files below a folder of data/, from there.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        let first = format!("data/{folder}/");
        let from = self.files.partition_point(|file| file.name < first);
        let cut = first.len();
        let inside = self.files[from..].iter().take_while(move |file| file.name.starts_with(&first));
        inside.map(move |file| (&file.name[cut..], file.size))
    }

    pub fn has(&self, name: &str) -> bool {
        let name = format!("data/{name}");
        self.files.binary_search_by(|file| file.name.cmp(&name)).is_ok()
    }

    /// The bundle's own run.
    pub fn own(&self) -> Found<&Run> {
        let runs = self.runs.as_ref().map_err(Clone::clone)?;
        runs.last().ok_or_else(|| "no run".to_owned())
    }

    /// Number of the run that a cell was measured in.
    pub fn run_of(&self, cell_id: &str) -> Found<usize> {
        let runs = self.runs.as_ref().map_err(Clone::clone)?;
        Ok(self.run_of.get(cell_id).copied().unwrap_or(runs.len() - 1))
    }

    /// Cells whose result a correction takes back.
    pub fn withdrawn(&self) -> Found<HashSet<String>> {
        let mut found = HashSet::new();
        for (name, _) in self.below("corrections").filter(|(name, _)| name.strip_suffix(".json").is_some()) {
            let layer = read_object(&self.data.join("corrections").join(name))?;
            if text_of(&layer, "action")? == "withdraw" {
                found.extend(texts(&layer, "cells").unwrap_or_default().into_iter().map(str::to_owned));
            }
        }
        Ok(found)
    }
}

fn runs_of(data: &Path) -> Found<Vec<Run>> {
    let own = Run::load(data)?;
    let mut runs = Vec::new();
    for entry in objects(&own.run, "lineage") {
        let run_id = text_of(entry, "run_id")?;
        let plain = run_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !plain {
            return Err("lineage of a run that has no name of one".to_owned());
        }
        let folder = data.join("lineage").join(run_id);
        let mut run = Run::load(&folder).map_err(|why| format!("{}: {why}", short(&folder)))?;
        run.cells = texts(entry, "cells").ok_or("lineage without cells")?.into_iter().map(str::to_owned).collect();
        runs.push(run);
    }
    runs.push(own);
    Ok(runs)
}

/// Events of a condition that reach its link: (kind, the attack's path).
fn link_events(condition: &Object) -> bool {
    objects(condition, "events").any(|event| {
        let kind = text_of(event, "kind").unwrap_or("");
        let path = event.get("attack").and_then(|attack| attack.get("path")).and_then(Value::as_str);
        kind == "link" || kind == "partition" || (kind == "attack" && path == Some("link"))
    })
}

/// May datagrams be lost by the scenario's own will?
pub fn impaired(condition: &Object) -> bool {
    let link = condition.get("link").and_then(Value::as_object);
    let set = link.is_some_and(|link| {
        ["up", "down"].iter().filter_map(|way| link.get(*way)?.as_object()).any(|side| {
            side.iter().any(|(key, value)| key != "distribution" && key != "queue_ms" && json::is_set(Some(value)))
        })
    });
    let attack = condition.get("attack").and_then(Value::as_object);
    let flooded = attack.is_some_and(|attack| text_of(attack, "path") == Ok("link"));
    set || flooded || link_events(condition)
}

/// Do both ends keep a row a datagram?
pub fn keeps_ledger(scenario: &Object, condition: &Object) -> bool {
    let on = scenario.get("ledger").is_none_or(|told| json::is_set(Some(told)));
    on && !texts(condition, "without").unwrap_or_default().contains(&"ledger")
}
