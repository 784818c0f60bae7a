//! Handshakes: spans that add up and lie where they should.

use std::collections::HashSet;

use crate::bundle::ROLES;
use crate::cell::{Cell, Handshakes, Raw, Span};
use crate::json::{given, text_of, whole_of};
use crate::registry::Seen;
use crate::tally::{Found, Tally};

const WALL: &str = "handshake";
/// Cold handshakes due where the scenario sets no number.
const LEAST: i64 = 5;
const WINDOW_SLACK_NS: i64 = 20_000_000;
const WINDOW_SLACK_VIRTUAL_NS: i64 = 1_000_000;
const WAIT_SLACK_NS: i64 = 50_000;
/// The scheduler is read just outside of a wall, and may be a preemption away from it; a thread's own clock is not.
const READING_SLACK_NS: i64 = 20_000_000;
const THREAD_CLOCK_SLACK_NS: i64 = 1_000_000;
/// Steps in which the drone is on the network from the Hello on.
const DRONE_AWAY: [&str; 4] = ["send_hello", "wait_server_hello", "send_client_kem", "wait_finished"];
/// Kinds of steps in which the ground works.
const GROUND_WORKS: [&str; 3] = ["crypto", "kdf", "codec"];

/// The whole wall of one host in one handshake.
pub fn wall_of<'a>(raw: &Raw, spans: &[&'a Span]) -> Option<&'a Span> {
    spans.iter().find(|span| raw.words.text(span.step) == WALL).copied()
}

fn steps_of<'a>(raw: &Raw, spans: &[&'a Span]) -> Vec<&'a Span> {
    spans.iter().filter(|span| raw.words.text(span.step) != WALL).copied().collect()
}

/// Cold and pooled ones, for what holds of every handshake; one that has both names counts as pooled.
fn timed<'a>(cell: &'a Cell) -> Found<Handshakes<'a>> {
    let mut found = cell.handshakes("cold")?;
    found.extend(cell.handshakes("pooled")?);
    Ok(found)
}

pub fn coverage(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.unit = "walls";
    let raw = cell.raw()?;
    for hosts in timed(cell)?.values() {
        for (host, spans) in hosts {
            let Some(wall) = wall_of(raw, spans).filter(|wall| wall.length_ns() > 0) else {
                tally.fail(|| format!("{} {host}: a handshake without a wall", cell.label));
                continue;
            };
            let spent: i128 = steps_of(raw, spans).iter().map(|span| i128::from(span.length_ns())).sum();
            let percent = 100.0 * spent as f64 / wall.length_ns() as f64;
            tally.see();
            let covered = (95.0..=101.0).contains(&percent);
            tally.require(covered, || format!("{} {host}: spans are {percent:.1} % of a wall", cell.label));
        }
    }
    Ok(())
}

pub fn order(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let raw = cell.raw()?;
    for hosts in timed(cell)?.values() {
        for (host, spans) in hosts {
            let wall = wall_of(raw, spans);
            let mut steps = steps_of(raw, spans);
            for span in &steps {
                let step = raw.words.text(span.step);
                let forward = span.end_ns >= span.start_ns;
                tally.require(forward, || format!("{} {host}: {step} ends before it starts", cell.label));
                let inside = wall.is_none_or(|wall| wall.start_ns <= span.start_ns && span.end_ns <= wall.end_ns);
                tally.require(inside, || format!("{} {host}: {step} lies outside the wall", cell.label));
            }
            if let Some(why) = misscheduled(raw, wall, &steps) {
                tally.fail(|| format!("{} {host}: {why}", cell.label));
            }
            steps.sort_by_key(|span| (span.start_ns, span.end_ns));
            for pair in steps.windows(2) {
                let (before, after) = (raw.words.text(pair[0].step), raw.words.text(pair[1].step));
                let apart = pair[0].end_ns <= pair[1].start_ns;
                tally.require(apart, || format!("{} {host}: {before} overlaps {after}", cell.label));
            }
        }
    }
    Ok(())
}

/// What cannot be true of the scheduler's counts of one end's handshake.
fn misscheduled(raw: &Raw, wall: Option<&Span>, steps: &[&Span]) -> Option<String> {
    for span in steps.iter().copied().chain(wall) {
        let step = raw.words.text(span.step);
        if [span.cpu_ns, span.runqueue_ns, span.involuntary].iter().flatten().any(|count| *count < 0) {
            return Some(format!("{step} has a negative count of the scheduler"));
        }
        let busy = i128::from(span.cpu_ns.unwrap_or(0)) + i128::from(span.runqueue_ns.unwrap_or(0));
        let slack = if span.runqueue_ns.is_none() { THREAD_CLOCK_SLACK_NS } else { READING_SLACK_NS };
        if busy > i128::from(span.length_ns()) + i128::from(slack) {
            return Some(format!("{step} of {} ns ran and waited {busy} ns", span.length_ns()));
        }
    }
    let ran = wall?.cpu_ns?;
    let primitives = steps.iter().filter(|span| raw.words.text(span.kind) == "crypto");
    let primitives: i128 = primitives.map(|span| i128::from(span.cpu_ns.unwrap_or(0))).sum();
    let more = primitives > i128::from(ran) + i128::from(THREAD_CLOCK_SLACK_NS);
    more.then(|| format!("primitives ran {primitives} ns in a thread that ran {ran} ns"))
}

pub fn window(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    if !cell.shakes() {
        return Ok(());
    }
    let labels = cell.raw()?.labelled()?;
    for (mode, label) in [("cold", "handshake_cold"), ("pooled", "handshake_pooled")] {
        let handshakes = cell.handshakes(mode)?;
        if mode == "pooled" && handshakes.is_empty() {
            continue;
        }
        let found = labels.iter().rev().find(|(name, ..)| name == label);
        let (_, start, end) = found.ok_or_else(|| format!("no window {label}"))?;
        for host in ROLES {
            within(cell, tally, &handshakes, host, (*start, *end))?;
        }
    }
    Ok(())
}

/// The agent's events give both clocks, and so the distance; without them the handshakes must fit by their length.
fn within(cell: &Cell, tally: &mut Tally, handshakes: &Handshakes, host: &str, label: (i64, i64)) -> Found<()> {
    let raw = cell.raw()?;
    let walls: Vec<_> = handshakes.values().filter_map(|hosts| wall_of(raw, hosts.get(host)?)).collect();
    let (Some(first), Some(last)) =
        (walls.iter().map(|wall| wall.start_ns).min(), walls.iter().map(|wall| wall.end_ns).max())
    else {
        return Ok(());
    };
    let slack = if cell.run.virtual_time() { WINDOW_SLACK_VIRTUAL_NS } else { WINDOW_SLACK_NS };
    let slack = i128::from(slack);
    let (first, last) = (i128::from(first), i128::from(last));
    let (start, end) = (i128::from(label.0), i128::from(label.1));
    let mut shifts = Vec::new();
    for event in raw.events.iter().filter(|event| text_of(event, "host") == Ok(host)) {
        if let Some(mono) = given(event, "mono_ns").and_then(serde_json::Value::as_i64) {
            shifts.push(i128::from(whole_of(event, "t_ns")?) - i128::from(mono));
        }
    }
    shifts.sort_unstable();
    let Some(upper) = shifts.get(shifts.len() / 2) else {
        let fits = last - first <= end - start + slack;
        tally.require(fits, || format!("{} {host}: handshakes over more than their window", cell.label));
        return Ok(());
    };
    let lower = shifts[(shifts.len() - 1) / 2];
    let shift = (lower + upper) / 2;
    let inside = start - slack <= first + shift && last + shift <= end + slack;
    tally.require(inside, || format!("{} {host}: handshakes lie outside their window", cell.label));
    Ok(())
}

pub fn network_wait(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.unit = "handshakes";
    let raw = cell.raw()?;
    let mut alone = 0;
    for hosts in timed(cell)?.values() {
        let [drone, ground] = ROLES.map(|host| hosts.get(host).map(|spans| steps_of(raw, spans)).unwrap_or_default());
        if ground.is_empty() {
            tally.fail(|| format!("{}: spans of the drone alone", cell.label));
            continue;
        }
        if drone.is_empty() {
            alone += 1;
            continue;
        }
        tally.see();
        let away = drone.iter().filter(|span| DRONE_AWAY.contains(&raw.words.text(span.step)));
        let waited: i128 = away.map(|span| i128::from(span.length_ns())).sum();
        // the Challenge is made while the drone's connect returns
        let works = ground.iter().filter(|span| {
            GROUND_WORKS.contains(&raw.words.text(span.kind)) && raw.words.text(span.step) != "challenge"
        });
        let worked: i128 = works.map(|span| i128::from(span.length_ns())).sum();
        tally.require(waited + i128::from(WAIT_SLACK_NS) >= worked, || {
            format!("{}: the drone waited {waited} ns, the ground worked {worked} ns", cell.label)
        });
    }
    // the ground completed them, and its last message came too late or never
    let told = raw.events.iter().filter(|event| text_of(event, "event") == Ok("handshake_failed"));
    let failed = told.filter(|event| text_of(event, "host") == Ok("drone")).count();
    tally.require(alone <= failed, || format!("{}: {alone} of the ground alone, {failed} failed", cell.label));
    Ok(())
}

pub fn count(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    let raw = cell.raw()?;
    let settings = given(&cell.run.scenario, "handshake").and_then(serde_json::Value::as_object);
    let asked = settings.and_then(|told| told.get("min_count")).map(crate::json::whole).transpose()?;
    let least = asked.unwrap_or(LEAST);
    let spans = raw.spans.as_deref().unwrap_or_default();
    for host in ROLES {
        let walls = spans.iter().filter(|span| raw.words.text(span.host) == host && raw.words.text(span.step) == WALL);
        let traced = walls.map(|span| span.handshake).collect::<HashSet<_>>().len();
        let counted = whole_of(raw.counted(host)?, "hs_completed")?;
        tally.require(i64::try_from(traced) == Ok(counted), || {
            format!("{} {host}: {counted} counted, {traced} traced", cell.label)
        });
    }
    tally.see();
    if !cell.shakes() {
        tally.require(spans.is_empty(), || format!("{}: spans in a suite that makes no handshake", cell.label));
        return Ok(());
    }
    let cold = cell.handshakes("cold")?;
    let cold = cold.values().filter(|hosts| hosts.get("drone").is_some_and(|spans| wall_of(raw, spans).is_some()));
    let cold = i64::try_from(cold.count()).unwrap_or(i64::MAX);
    tally.require(cold >= least, || format!("{}: {cold} cold handshakes, {least} are due", cell.label));
    Ok(())
}
