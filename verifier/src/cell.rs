//! One planned cell and its raw files, read once and dropped after its checks.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bundle::{impaired, Row, Run, ROLES};
use crate::json::{each_line, given, is_set, object_of, objects, read_object, text_of, whole, whole_of, Object};
use crate::ledger::{join, Join, Ledger};
use crate::tally::Found;

/// The window after the measured ones, with a known attack: nothing of it is part of any figure.
const CANARY: &str = "canary";
/// The event that kills an end.
const KILL: &str = "peer_kill";
/// Windows that the controller labels begin so.
const LABELS: [&str; 11] = [
    "handshake_cold",
    "handshake_pooled",
    "traffic",
    "bulk-",
    "thermal_gate",
    "link_setup",
    "link_probe",
    "key_pool",
    "canary",
    "heal",
    "fleet",
];

/// One step of one handshake on one host; texts are numbers of `Raw::words`.
#[derive(Clone)]
pub struct Span {
    pub host: u32,
    pub handshake: u32,
    pub mode: u32,
    pub step: u32,
    pub kind: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    pub cpu_ns: Option<i64>,
    pub runqueue_ns: Option<i64>,
    pub involuntary: Option<i64>,
}

impl Span {
    pub fn length_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

#[derive(Default)]
pub struct Words {
    known: HashMap<String, u32>,
    told: Vec<String>,
}

impl Words {
    fn number(&mut self, word: &str) -> u32 {
        if let Some(at) = self.known.get(word) {
            return *at;
        }
        let at = u32::try_from(self.told.len()).unwrap_or(u32::MAX);
        self.known.insert(word.to_owned(), at);
        self.told.push(word.to_owned());
        at
    }

    pub fn text(&self, at: u32) -> &str {
        &self.told[at as usize]
    }
}

/// Raw files of a cell; None where a file is absent, which `missing` lists.
pub struct Raw {
    pub events: Vec<Object>,
    pub words: Words,
    pub spans: Option<Vec<Span>>,
    pub ledgers: BTreeMap<&'static str, Ledger>,
    pub counters: Option<Object>,
    pub traffic: Option<Object>,
    pub missing: Vec<String>,
    pub down: Option<Join>,
    pub up: Option<Join>,
}

impl Raw {
    fn read(folder: &Path) -> Found<Self> {
        let mut missing = Vec::new();
        let mut there = |name: &str| -> Option<PathBuf> {
            let path = folder.join(name);
            let found = path.is_file().then_some(path);
            if found.is_none() {
                missing.push(name.to_owned());
            }
            found
        };
        let mut events = Vec::new();
        if let Some(path) = there("events.ndjson") {
            each_line(&path, |row| {
                events.push(row);
                Ok(())
            })?;
        }
        let mut words = Words::default();
        let spans = there("spans.ndjson").map(|path| read_spans(&path, &mut words)).transpose()?;
        let mut ledgers = BTreeMap::new();
        for role in ROLES {
            if let Some(path) = there(&format!("ledger.{role}.csv")) {
                ledgers.insert(role, Ledger::read(&path)?);
            }
            there(&format!("telemetry.{role}.lp"));
        }
        let mut counters = there("counters.json").map(|path| read_object(&path)).transpose()?;
        let traffic = there("traffic.json").map(|path| read_object(&path)).transpose()?;
        let mut traffic =
            traffic.map(|told| told.get("windows").and_then(Value::as_object).cloned().unwrap_or_default());
        // these are not looked into here, but a damaged one is damage of the cell
        for name in ["link.json", "detectors.json", "observers.json"] {
            if folder.join(name).is_file() {
                read_object(&folder.join(name))?;
            }
        }
        for name in ["attack.ndjson", "detector.ndjson", "canary/attack.ndjson"] {
            if folder.join(name).is_file() {
                each_line(&folder.join(name), |_| Ok(()))?;
            }
        }
        for ledger in ledgers.values_mut() {
            ledger.without(CANARY);
        }
        if let Some(told) = &mut traffic {
            told.remove(CANARY);
        }
        counters.iter_mut().for_each(without_canary);
        let joined = |from: &str, to: &str| Some(join(ledgers.get(from)?, ledgers.get(to)?));
        let (down, up) = (joined("drone", "gcs"), joined("gcs", "drone"));
        Ok(Self { events, words, spans, ledgers, counters, traffic, missing, down, up })
    }

    /// Counters of one end.
    pub fn counted(&self, role: &str) -> Found<&Object> {
        object_of(self.counters.as_ref().ok_or("counters.json is missing")?, role)
    }

    /// Counters of one end by window.
    pub fn windows(&self, role: &str) -> Found<&Object> {
        object_of(self.counted(role)?, "windows")
    }

    /// (open, close) of one end's gate, where the report of the window has both.
    pub fn gate(&self, window: &str, role: &str) -> Option<(i64, i64)> {
        let side = self.traffic.as_ref()?.get(window)?.get(role)?.as_object()?;
        Some((side.get("open_ns")?.as_i64()?, side.get("close_ns")?.as_i64()?))
    }

    /// How long the drone's gate was open, seconds.
    pub fn gate_s(&self, window: &str) -> Option<f64> {
        let (open, close) = self.gate(window, "drone")?;
        (close > open).then_some((close - open) as f64 / 1e9)
    }

    /// Neither end was told to shift its stamps.
    pub fn unshifted(&self) -> bool {
        !self.events.iter().any(|event| text_of(event, "event") == Ok("clock_offset"))
    }

    fn controller(&self) -> impl Iterator<Item = &Object> {
        self.events.iter().filter(|event| text_of(event, "host") == Ok("controller"))
    }

    /// First and last event of the controller.
    pub fn wall(&self) -> Found<(i64, i64)> {
        let times = self.controller().map(|event| whole_of(event, "t_ns")).collect::<Found<Vec<_>>>()?;
        let ends = times.iter().min().zip(times.iter().max());
        ends.map(|(first, last)| (*first, *last)).ok_or_else(|| "no event of the controller".to_owned())
    }

    /// (name, start, end) of the controller's labelled windows.
    pub fn labelled(&self) -> Found<Vec<(String, i64, i64)>> {
        let mut open: HashMap<&str, i64> = HashMap::new();
        let mut found = Vec::new();
        for event in self.controller() {
            let Ok(name) = text_of(event, "window") else { continue };
            if !LABELS.iter().any(|label| name.starts_with(label)) {
                continue;
            }
            match text_of(event, "event") {
                Ok("window_start") => {
                    open.insert(name, whole_of(event, "t_ns")?);
                }
                Ok("window_end") => {
                    if let Some(start) = open.remove(name) {
                        found.push((name.to_owned(), start, whole_of(event, "t_ns")?));
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

fn read_spans(path: &Path, words: &mut Words) -> Found<Vec<Span>> {
    let mut spans = Vec::new();
    each_line(path, |row| {
        let mut word = |name: &str| text_of(&row, name).map(|text| words.number(text));
        let count = |name: &str| given(&row, name).map(whole).transpose();
        spans.push(Span {
            host: word("host")?,
            handshake: word("handshake_id")?,
            mode: word("mode")?,
            step: word("step")?,
            kind: word("kind")?,
            start_ns: whole_of(&row, "start_ns")?,
            end_ns: whole_of(&row, "end_ns")?,
            cpu_ns: count("cpu_ns")?,
            runqueue_ns: count("runqueue_ns")?,
            involuntary: count("involuntary")?,
        });
        text_of(&row, "suite_id").map(|_| ())
    })?;
    // a redial is one at both ends: to the ground it is a new session like any other
    let redial = words.number("redial");
    let again: std::collections::HashSet<u32> =
        spans.iter().filter(|span| span.mode == redial).map(|span| span.handshake).collect();
    for span in &mut spans {
        if again.contains(&span.handshake) {
            span.mode = redial;
        }
    }
    Ok(spans)
}

/// Totals less what the canary's window counted, and without that window.
fn without_canary(counters: &mut Object) {
    for told in counters.values_mut().filter_map(Value::as_object_mut) {
        let Some(mine) = told.get_mut("windows").and_then(Value::as_object_mut).and_then(|all| all.remove(CANARY))
        else {
            continue;
        };
        for (name, part) in mine.as_object().into_iter().flatten() {
            if let (Some(total), Some(part)) = (told.get(name).and_then(Value::as_i64), part.as_i64()) {
                told.insert(name.clone(), Value::from(total.saturating_sub(part)));
            }
        }
    }
}

/// Handshakes of one mode: id → host → spans, by start, whole walls before what lies in them.
pub type Handshakes<'a> = BTreeMap<u32, BTreeMap<&'a str, Vec<&'a Span>>>;

pub struct Cell<'a> {
    pub row: &'a Row,
    pub run: &'a Run,
    pub folder: PathBuf,
    pub record: &'a Object,
    pub label: String,
    pub condition: Object,
    pub impaired: bool,
    pub raw: Found<Raw>,
}

impl<'a> Cell<'a> {
    pub fn open(data: &Path, row: &'a Row, run: &'a Run, record: &'a Object) -> Self {
        let folder = data.join("cells").join(&row.cell_id);
        let condition = run.condition(&row.condition);
        let raw = Raw::read(&folder);
        let impaired = impaired(&condition);
        Self { row, run, folder, record, label: row.label(), condition, impaired, raw }
    }

    pub fn raw(&self) -> Found<&Raw> {
        self.raw.as_ref().map_err(Clone::clone)
    }

    /// Was an end killed because the condition says so? What it held is gone with it. False where that cannot be read.
    pub fn torn(&self) -> bool {
        let asked = objects(&self.condition, "events").any(|event| text_of(event, "kind") == Ok(KILL));
        let killed = |event: &Object| {
            text_of(event, "event") == Ok("timed_event")
                && is_set(event.get("ok"))
                && text_of(event, "timed") == Ok(KILL)
        };
        asked && self.raw.as_ref().is_ok_and(|raw| raw.events.iter().any(killed))
    }

    /// Suite `plain` makes no handshake.
    pub fn shakes(&self) -> bool {
        self.row.suite_id != "plain"
    }

    /// Loss is a result there: an impaired link, or a ladder that offers more than the path carries.
    pub fn lossy(&self, window: &str) -> bool {
        self.impaired || window.starts_with("bulk-")
    }

    pub fn handshakes(&self, mode: &str) -> Found<Handshakes<'_>> {
        let raw = self.raw()?;
        let mut found: Handshakes<'_> = BTreeMap::new();
        for span in raw.spans.iter().flatten().filter(|span| raw.words.text(span.mode) == mode) {
            found.entry(span.handshake).or_default().entry(raw.words.text(span.host)).or_default().push(span);
        }
        for spans in found.values_mut().flat_map(BTreeMap::values_mut) {
            spans.sort_by_key(|span| (span.start_ns, std::cmp::Reverse(span.end_ns)));
        }
        Ok(found)
    }

    /// A field of the record, by letter and name.
    pub fn field(&self, letter: &str, name: &str) -> Found<&Object> {
        object_of(object_of(object_of(self.record, "categories")?, letter)?, name)
    }
}
