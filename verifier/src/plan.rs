//! The plan: complete, every cell in it exactly once, every id and seed and the order what they are drawn from.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{json, Value};
use sha2::{Digest, Sha256};

use crate::bag::{digest_of, hex};
use crate::bundle::{rows_of, Bundle, Row, Run, MOST_CELLS};
use crate::cell::Cell;
use crate::drawn::Twister;
use crate::json::{
    brief, given, is_set, list_of, member, objects, read_object, same, text_of, texts, whole, whole_of, Object,
};
use crate::numbers::canonical;
use crate::registry::{Brief, Seen};
use crate::shape::is_run_id;
use crate::tally::{Found, Tally};

/// Settings of the scenario that are part of a cell's identity.
const BLOCKS: [&str; 5] = ["handshake", "traffic", "bulk", "ledger", "telemetry"];
/// Keys of a condition that say where it applies.
const SCOPE: [&str; 2] = ["suites", "repetitions"];
const VERDICTS: [&str; 5] = ["pass", "fail", "unsupported", "invalid", "not-run"];

pub fn scenario_hash(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    tally.see();
    let found = digest_of::<Sha256>(&bundle.data.join("scenario.effective.yml"))?;
    let told = text_of(bundle.plan.as_ref().map_err(Clone::clone)?, "scenario_sha256")?;
    tally.require(found == told, || format!("the scenario has sha256 {}…, the plan names another", &found[..12]));
    bundle.own().map(|_| ())
}

/// What is wrong with the form of a plan.
pub fn problem(plan: &Object) -> Option<String> {
    let text = |name: &str, fits: fn(&str) -> bool| plan.get(name).and_then(Value::as_str).is_some_and(fits);
    let wrong = |what: &str| Some(what.to_owned());
    if plan.get("schema_version").and_then(Value::as_str) != Some("pqlab/plan/v1") {
        return wrong("schema_version is not pqlab/plan/v1");
    }
    if !text("run_id", is_run_id) {
        return wrong("run_id is no name of a run");
    }
    if !text("scenario_sha256", |digest| is_hex(digest, 64)) {
        return wrong("scenario_sha256 is no digest");
    }
    if !text("created_utc", is_utc) {
        return wrong("created_utc is no time");
    }
    if !plan.get("seed").is_some_and(is_count) {
        return wrong("seed is no whole number from 0 on");
    }
    if !plan.get("budget").is_some_and(Value::is_object) {
        return wrong("budget is no object");
    }
    if ["scenario", "order"].iter().any(|name| plan.get(*name).is_some_and(|value| !value.is_string())) {
        return wrong("scenario and order are text");
    }
    if plan.get("campaign").is_some_and(|told| !told.as_str().is_some_and(|digest| is_hex(digest, 64))) {
        return wrong("campaign is no digest");
    }
    if plan.get("pair").is_some_and(|told| !told.as_str().is_some_and(is_pair)) {
        return wrong("pair is no name of a pair");
    }
    let number = |share: &Value, key: &str| share.get(key).is_some_and(|told| is_count(told) && !same(told, &json!(0)));
    if plan.get("share").is_some_and(|share| !number(share, "number") || !number(share, "of")) {
        return wrong("share is none");
    }
    let rows = match plan.get("cells").and_then(Value::as_array) {
        None => return wrong("cells is no list"),
        Some(rows) if rows.is_empty() => return wrong("no cell is planned"),
        Some(rows) if rows.len() > MOST_CELLS => return wrong("more cells than any plan has"),
        Some(rows) => rows,
    };
    rows.iter().enumerate().find_map(|(at, row)| row_problem(row).map(|why| format!("cell {at}: {why}")))
}

fn row_problem(row: &Value) -> Option<String> {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or("");
    if !is_hex(text("cell_id"), 16) {
        return Some("cell_id is not 16 hex".to_owned());
    }
    if let Some(name) = ["suite_id", "condition"].iter().find(|name| text(name).is_empty()) {
        return Some(format!("{name} is no text"));
    }
    let counts = ["repetition", "position", "block", "seed"];
    let odd = counts.iter().find(|name| !row.get(**name).is_some_and(is_count));
    odd.map(|name| format!("{name} is no whole number from 0 on"))
}

fn is_hex(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// `2026-03-01T11:59:59Z`, fractions of a second allowed.
fn is_utc(text: &str) -> bool {
    let Some((day, time)) = text.split_once('T') else {
        return false;
    };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = day.split('-').collect();
    let fits = |time: &str| !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
    parts.len() == 3
        && digits(parts[0], 4)
        && digits(parts[1], 2)
        && digits(parts[2], 2)
        && time.strip_suffix('Z').is_some_and(fits)
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some() || whole(value).is_ok_and(|number| number >= 0)
}

pub fn schema(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let plan = bundle.plan.as_ref().map_err(Clone::clone)?;
    if let Some(why) = problem(plan) {
        tally.fail(|| format!("plan.json: {why}"));
        return Ok(());
    }
    let rows = rows_of(plan)?;
    tally.saw(rows.len());
    let ordered = rows.iter().enumerate().all(|(at, row)| usize::try_from(row.position) == Ok(at));
    tally.require(ordered, || "positions are not 0, 1, 2, …".to_owned());
    let own = bundle.own()?;
    let asked = own.scenario.get("seed").cloned().unwrap_or(json!(1));
    tally.require(same(member(plan, "seed")?, &asked), || "the plan is of another campaign seed".to_owned());
    let run_id = text_of(&own.run, "run_id");
    tally.require(run_id == text_of(plan, "run_id"), || "run.json is of another run than the plan".to_owned());
    // a run that took cells over foretold its own alone
    let foretold = plan.get("budget").and_then(|budget| budget.get("cells"));
    let counts = |told: &&Value| told.is_number() && !told.to_string().contains(['.', 'e', 'E']);
    let foretold = foretold.filter(counts).filter(|_| !is_set(own.run.get("lineage")));
    if let Some(told) = foretold {
        let right = same(told, &json!(rows.len()));
        tally.require(right, || format!("budget.cells is {told}, {} cells are planned", rows.len()));
    }
    Ok(())
}

pub fn accounted(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let rows = bundle.rows.as_ref().map_err(Clone::clone)?;
    let mut planned: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        *planned.entry(&row.cell_id).or_default() += 1;
    }
    tally.saw(planned.len());
    for (id, count) in &planned {
        tally.require(*count == 1, || format!("{id} is planned {count} times"));
    }
    let mut there = HashSet::new();
    if let Ok(entries) = std::fs::read_dir(bundle.data.join("cells")) {
        for entry in entries.flatten() {
            there.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    for id in there.iter().filter(|id| !planned.contains_key(id.as_str())) {
        tally.fail(|| format!("{id} was not planned"));
    }
    for row in rows {
        if !bundle.has(&format!("cells/{}/record.json", row.cell_id)) {
            tally.fail(|| format!("{} left no record.json", row.cell_id));
            continue;
        }
        let record = read_object(&bundle.data.join("cells").join(&row.cell_id).join("record.json"))?;
        let due: [(&str, Value); 5] = [
            ("cell_id", json!(row.cell_id)),
            ("suite_id", json!(row.suite_id)),
            ("condition", json!(row.condition)),
            ("repetition", json!(row.repetition)),
            ("position", json!(row.position)),
        ];
        for (key, value) in due {
            let told = record.get(key).is_some_and(|told| same(told, &value));
            tally.require(told, || format!("{}: record and plan differ in {key}", row.cell_id));
        }
    }
    matrix(bundle, rows, tally)
}

/// What is planned is what the scenario asks for; `only` takes cells out by the beginning of their id.
fn matrix(bundle: &Bundle, rows: &[Row], tally: &mut Tally) -> Found<()> {
    let own = bundle.own()?;
    let mut planned: BTreeMap<(&str, &str, i64), usize> = BTreeMap::new();
    for row in rows {
        *planned.entry(row.place()).or_default() += 1;
    }
    let first = first_repetition(rows);
    let blocks = blocks_of(&own.scenario)?;
    let mine = owned(bundle.plan.as_ref().map_err(Clone::clone)?, blocks.len())?;
    let prefixes = texts(&own.scenario, "only").unwrap_or_default();
    let mut ids = Ids::of(own);
    let mut due = HashSet::new();
    for (block, places) in (first..).zip(&blocks).skip(mine.start).take(mine.len()) {
        for (suite, condition) in places {
            let meant = prefixes.is_empty() || {
                let id = ids.of_cell(suite, condition, &json!(block))?;
                prefixes.iter().any(|prefix| id.starts_with(prefix))
            };
            if meant {
                due.insert((*suite, *condition, block));
            }
        }
    }
    for ((suite, condition, repetition), count) in &planned {
        let place = (*suite, *condition, *repetition);
        tally.require(due.contains(&place), || format!("{suite} under {condition} #{repetition} is not asked for"));
        tally.require(*count == 1, || format!("{suite} under {condition} #{repetition} is planned {count} times"));
    }
    for (suite, condition, repetition) in due.iter().filter(|place| !planned.contains_key(*place)) {
        tally.fail(|| format!("{suite} under {condition} #{repetition} is asked for and not planned"));
    }
    Ok(())
}

/// Up to 32 small letters, digits, `-` and `_`, the first of them a letter or a digit.
fn is_pair(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=32).contains(&name.len())
        && plain(name.as_bytes()[0])
        && name.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'_')
}

/// The blocks that are this run's: those of its share, or all.
fn owned(plan: &Object, count: usize) -> Found<std::ops::Range<usize>> {
    let Some(share) = plan.get("share") else {
        return Ok(0..count);
    };
    let share = share.as_object().ok_or("the share is no object")?;
    let [number, of] = ["number", "of"].map(|key| whole_of(share, key));
    let (number, of) = (usize::try_from(number?).unwrap_or(0), usize::try_from(of?).unwrap_or(0));
    if number < 1 || number > of || of > count {
        return Err(format!("there is no share {number} of {of} of {count} blocks"));
    }
    Ok((number - 1) * count / of..number * count / of)
}

/// Whether repetitions count from 0 or 1 is the plan's own business.
fn first_repetition(rows: &[Row]) -> i64 {
    rows.iter().map(|row| row.repetition).min().unwrap_or(1).min(1)
}

type Place<'a> = (&'a str, &'a str);

/// Block by block, (suite, condition) of the matrix: suites in the scenario's order, under each its conditions.
fn blocks_of(scenario: &Object) -> Found<Vec<Vec<Place<'_>>>> {
    let suites = texts(scenario, "suites").ok_or("'suites' is missing")?;
    let conditions: Vec<&Object> = objects(scenario, "conditions").collect();
    let count = usize::try_from(whole_of(scenario, "repetitions")?).unwrap_or(0);
    let most = suites.len().saturating_mul(conditions.len()).saturating_mul(count);
    if most > MOST_CELLS || count > MOST_CELLS {
        return Err(format!("the scenario asks for {most} cells, {MOST_CELLS} are the most"));
    }
    let mut applies = Vec::new();
    for condition in &conditions {
        let suites = texts(condition, "suites").filter(|_| is_set(condition.get("suites")));
        let numbers = match given(condition, "repetitions").filter(|told| is_set(Some(told))) {
            Some(told) => {
                let told = told.as_array().ok_or("repetitions are a list")?;
                Some(told.iter().map(whole).collect::<Found<HashSet<i64>>>()?)
            }
            None => None,
        };
        applies.push((text_of(condition, "name")?, suites, numbers));
    }
    let mut blocks = Vec::new();
    for number in (1_i64..).take(count) {
        let mut block = Vec::new();
        for suite in &suites {
            for (name, own, numbers) in &applies {
                let here = own.as_ref().is_none_or(|own| own.contains(suite));
                if here && numbers.as_ref().is_none_or(|numbers| numbers.contains(&number)) {
                    block.push((*suite, *name));
                }
            }
        }
        blocks.push(block);
    }
    Ok(blocks)
}

/// Ids of cells; what the cells of a condition share is made once.
struct Ids<'a> {
    run: &'a Run,
    begun: HashMap<String, Sha256>,
}

impl<'a> Ids<'a> {
    fn of(run: &'a Run) -> Self {
        Self { run, begun: HashMap::new() }
    }

    /// 16 hex of SHA-256 over `{condition, providers, repetition, suite}` as canonical JSON.
    fn of_cell(&mut self, suite: &str, condition: &str, repetition: &Value) -> Found<String> {
        if !self.begun.contains_key(condition) {
            let mut settings: Object = self.run.condition(condition);
            settings.retain(|key, _| !SCOPE.contains(&key.as_str()));
            for block in BLOCKS {
                settings.insert(block.to_owned(), self.run.scenario.get(block).cloned().unwrap_or(Value::Null));
            }
            let ends = json!({
                "drone": member(&self.run.providers, "drone")?,
                "gcs": member(&self.run.providers, "gcs")?,
            });
            let mut text = String::new();
            canonical(&json!({"condition": settings, "providers": ends}), &mut text);
            text.pop(); // its last brace: two members follow
            self.begun.insert(condition.to_owned(), Sha256::new_with_prefix(text.as_bytes()));
        }
        let mut digest = self.begun[condition].clone();
        let mut rest = String::new();
        canonical(&json!({"repetition": repetition, "suite": suite}), &mut rest);
        digest.update(b",");
        digest.update(&rest.as_bytes()[1..]);
        Ok(hex(&digest.finalize())[..16].to_owned())
    }
}

pub fn ids(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let mut ids = Ids::of(bundle.own()?);
    for row in bundle.rows.as_ref().map_err(Clone::clone)? {
        tally.see();
        let due = ids.of_cell(&row.suite_id, &row.condition, &json!(row.repetition))?;
        tally.require(row.cell_id == due, || format!("{} is filed as {}, it is {due}", row.label(), row.cell_id));
    }
    Ok(())
}

pub fn verdicts(bundle: &Bundle, briefs: &[Brief], tally: &mut Tally) -> Found<()> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for brief in briefs {
        *counts.entry(&brief.verdict).or_default() += 1;
        let known = VERDICTS.contains(&brief.verdict.as_str());
        tally.require(known, || format!("{}: verdict {:?}", brief.row.label(), brief.verdict));
    }
    let planned = bundle.rows.as_ref().map_err(Clone::clone)?.len();
    tally.saw(planned);
    let total: i64 = VERDICTS.iter().filter_map(|verdict| counts.get(verdict)).sum();
    tally.require(i64::try_from(planned) == Ok(total), || format!("{total} verdicts for {planned} planned cells"));
    let own = bundle.own()?;
    if let Some(told) = given(&own.run, "verdict_counts") {
        let told = told.as_object().ok_or("verdict_counts is no object")?;
        let mut claimed = BTreeMap::new();
        for (verdict, count) in told {
            let count = whole(count)?;
            if count != 0 {
                claimed.insert(verdict.as_str(), count);
            }
        }
        tally.require(claimed == counts, || format!("run.json counts {claimed:?}, the records {counts:?}"));
    }
    tally.note = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ");
    Ok(())
}

pub fn seeds(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    if !cell.run.has_witnesses() {
        "not asked of another version".clone_into(&mut tally.note);
        return Ok(());
    }
    tally.see();
    let campaign = cell.run.scenario.get("seed").cloned().unwrap_or(json!(1));
    let (suite, condition, repetition) = cell.row.place();
    let mut text = String::new();
    canonical(&json!([campaign, suite, condition, repetition]), &mut text);
    let digest = Sha256::digest(text.as_bytes());
    let due = digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)) >> 11;
    tally.require(cell.row.seed.as_u64() == Some(due), || {
        format!("{}: seed {} in plan.json, the campaign's gives {due}", cell.label, brief(&cell.row.seed))
    });
    for (window, report) in cell.raw()?.traffic.iter().flatten() {
        let used = report.get("spec").and_then(|spec| spec.get("seed")).filter(|used| !used.is_null());
        let right = used.is_none_or(|used| same(used, &cell.row.seed));
        tally.require(right, || format!("{} {window}: its traffic is of another seed", cell.label));
    }
    Ok(())
}

pub fn order(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let mut before = HashSet::new();
    for run in bundle.runs.as_ref().map_err(Clone::clone)? {
        let mut rows = rows_of(&run.plan)?;
        rows.retain(|row| !before.contains(&row.cell_id));
        before.extend(rows.iter().map(|row| row.cell_id.clone()));
        if !run.has_witnesses() {
            "not asked of another version".clone_into(&mut tally.note);
            continue;
        }
        tally.saw(rows.len());
        let planned: HashSet<_> = rows.iter().map(Row::place).collect();
        let first = first_repetition(&rows);
        let seed = run.scenario.get("seed").cloned().unwrap_or(json!(1));
        let order = given(&run.scenario, "order").and_then(Value::as_object);
        let method = order.map_or(Ok("blocked-random"), |order| match order.get("method") {
            Some(_) => text_of(order, "method"),
            None => Ok("blocked-random"),
        })?;
        let mut due = Vec::new();
        for (block, places) in blocks_of(&run.scenario)?.into_iter().enumerate() {
            let mut twister = Twister::of_text(&format!("{seed}/{block}"));
            let number = first + i64::try_from(block).unwrap_or(i64::MAX);
            let drawn = ordered(places, method, block, &mut twister).into_iter();
            due.extend(drawn.map(|(suite, condition)| (suite, condition, number)));
        }
        due.retain(|place| planned.contains(place));
        let odd = rows.iter().zip(&due).position(|(row, due)| row.place() != *due);
        if let Some(at) = odd {
            tally.fail(|| {
                format!("run {}: {} is number {at}, the seed puts {} there", run.id(), rows[at].label(), due[at].0)
            });
        }
    }
    Ok(())
}

fn ordered<'a>(mut places: Vec<Place<'a>>, method: &str, block: usize, twister: &mut Twister) -> Vec<Place<'a>> {
    match method {
        "blocked-random" => {
            twister.shuffle(&mut places);
            places
        }
        "abba" => {
            let mut suites: Vec<&str> = Vec::new();
            for (suite, _) in &places {
                if !suites.contains(suite) {
                    suites.push(suite);
                }
            }
            twister.shuffle(&mut suites);
            let mut turned = Vec::new();
            for (at, suite) in suites.into_iter().enumerate() {
                let mut mine: Vec<_> = places.iter().filter(|(own, _)| *own == suite).copied().collect();
                if (at + block) % 2 == 1 {
                    mine.reverse();
                }
                turned.extend(mine);
            }
            turned
        }
        _ => places,
    }
}

pub fn twins(bundle: &Bundle, _: &[Brief], tally: &mut Tally) -> Found<()> {
    let own = bundle.own()?;
    let conditions = list_of(&own.scenario, "conditions")?;
    let plan = bundle.plan.as_ref().map_err(Clone::clone)?;
    if let Some(told) = given(plan, "conditions") {
        let alike = same(told, &Value::Array(conditions.to_vec()));
        tally.require(alike, || "the plan lists other conditions than the scenario".to_owned());
    }
    let rows = bundle.rows.as_ref().map_err(Clone::clone)?;
    let planned: HashSet<_> = rows.iter().map(Row::place).collect();
    for twin in conditions.iter().filter_map(Value::as_object) {
        let Some(base_name) = given(twin, "aa_of").and_then(Value::as_str) else {
            continue;
        };
        tally.see();
        let name = text_of(twin, "name")?;
        let base = own.condition(base_name);
        if base.is_empty() || given(&base, "aa_of").is_some() {
            tally.fail(|| format!("{name} repeats {base_name}, which is no condition of its own here"));
            continue;
        }
        let settings = |condition: &Object| {
            let mut condition = condition.clone();
            condition.retain(|key, _| !SCOPE.contains(&key.as_str()) && key != "name" && key != "aa_of");
            Value::Object(condition)
        };
        let alike = same(&settings(twin), &settings(&base));
        tally.require(alike, || format!("{name} claims to repeat {base_name} and is set otherwise"));
        for (suite, _, repetition) in planned.iter().filter(|place| place.1 == name) {
            let other = planned.contains(&(*suite, base_name, *repetition));
            tally.require(other, || format!("{suite} under {name} #{repetition} has no cell under {base_name}"));
        }
    }
    Ok(())
}
