//! Durations, order and copies: nothing lasts longer than what holds it, and nothing was measured twice.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::bundle::Bundle;
use crate::cell::Cell;
use crate::json::{given, object_of, objects, whole, whole_of};
use crate::registry::{Brief, Seen};
use crate::tally::{Found, Tally};

const SESSION_SHORT_S: f64 = 0.05;
const SESSION_LONG_S: f64 = 0.5;
const SESSION_LONG_SHARE: f64 = 0.02;
/// Traffic may begin late and end early by this much.
const EDGE_S: f64 = 0.5;
const EDGE_SHARE: f64 = 0.05;
/// Steps of a handshake, distinct latencies of a group, and datagrams of a group that make a copy one.
const LEAST_STEPS: usize = 8;
const GROUP: usize = 32;

pub fn run_wall(bundle: &Bundle, briefs: &[Brief], tally: &mut Tally) -> Found<()> {
    let mut runs = Vec::new();
    for run in bundle.runs.as_ref().map_err(Clone::clone)? {
        runs.push((run.started_ns()?, run.ended_ns()?, run.id()));
    }
    for (start, end, id) in &runs {
        tally.require(end > start, || format!("run {id} ends before it starts"));
    }
    for pair in runs.windows(2) {
        tally.require(pair[0].1 <= pair[1].0, || format!("run {} starts before {} ends", pair[1].2, pair[0].2));
    }
    let mut walls = Vec::new();
    for brief in briefs {
        let Some((begun, ended)) = brief.wall.clone()? else {
            continue;
        };
        tally.see();
        let (start, end, _) = runs[brief.run];
        let inside = start <= begun && begun <= ended && ended <= end;
        tally.require(inside, || format!("{} lies outside the run", brief.row.label()));
        walls.push((begun, ended, brief.row.label()));
    }
    walls.sort();
    for pair in walls.windows(2) {
        tally.require(pair[0].1 <= pair[1].0, || format!("{} starts before {} ends", pair[1].2, pair[0].2));
    }
    let cells: i128 = walls.iter().map(|(begun, ended, _)| i128::from(*ended) - i128::from(*begun)).sum();
    let whole: i128 = runs.iter().map(|(start, end, _)| i128::from(*end) - i128::from(*start)).sum();
    let told = format!("{:.1} s of {:.1} s", cells as f64 / 1e9, whole as f64 / 1e9);
    tally.require(cells <= whole, || format!("Σ cells {told}"));
    tally.note = told;
    Ok(())
}

pub fn order_kept(bundle: &Bundle, briefs: &[Brief], tally: &mut Tally) -> Found<()> {
    let rows = bundle.rows.as_ref().map_err(Clone::clone)?;
    let mut repetitions = BTreeMap::new();
    for row in rows {
        tally.see();
        let same = *repetitions.entry(row.block).or_insert(row.repetition) == row.repetition;
        tally.require(same, || format!("block {} holds repetition {} and another", row.block, row.repetition));
    }
    for pair in rows.windows(2) {
        let another = bundle.run_of(&pair[0].cell_id)? != bundle.run_of(&pair[1].cell_id)?;
        let ascending = pair[0].block <= pair[1].block;
        tally.require(ascending || another, || format!("position {}: a block comes again", pair[1].position));
    }
    for (number, run) in bundle.runs.iter().flatten().enumerate() {
        let begun = objects(&run.run, "sessions").map(|session| whole_of(session, "started_ns"));
        let begun = begun.collect::<Found<Vec<i64>>>()?;
        let mut sessions: BTreeMap<usize, Vec<(i64, i64)>> = BTreeMap::new();
        for brief in briefs.iter().filter(|brief| brief.run == number) {
            let Some((start, _)) = brief.wall.clone()? else {
                continue;
            };
            let session = begun.iter().filter(|moment| **moment <= start).count();
            sessions.entry(session).or_default().push((start, brief.row.position));
        }
        for mut done in sessions.into_values() {
            done.sort_unstable();
            for pair in done.windows(2) {
                let kept = pair[0].1 < pair[1].1;
                tally.require(kept, || format!("position {} came after position {}", pair[1].1, pair[0].1));
            }
        }
    }
    Ok(())
}

/// No handshake with all its step times, and no 32 datagrams in a row with all their latencies, twice in a bundle.
pub fn once(cell: &Cell, seen: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let raw = cell.raw()?;
    let mut handshakes: BTreeMap<(u32, u32), Vec<i64>> = BTreeMap::new();
    for span in raw.spans.iter().flatten() {
        handshakes.entry((span.handshake, span.host)).or_default().push(span.length_ns());
    }
    for ((_, host), steps) in &handshakes {
        if steps.iter().filter(|step| **step != 0).count() >= LEAST_STEPS {
            again(seen, raw.words.text(*host), steps, cell, tally);
        }
    }
    for joined in [&raw.down, &raw.up].into_iter().flatten().flat_map(|join| join.windows.values()) {
        for group in joined.latency_ns.chunks_exact(GROUP) {
            let mut distinct = group.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() >= LEAST_STEPS {
                again(seen, "datagrams", group, cell, tally);
            }
        }
    }
    Ok(())
}

fn again(seen: &mut Seen, what: &str, times: &[i64], cell: &Cell, tally: &mut Tally) {
    let mut digest = Sha256::new_with_prefix(what.as_bytes());
    for time in times {
        digest.update(time.to_be_bytes());
    }
    let mut key = [0; 16];
    key.copy_from_slice(&digest.finalize()[..16]);
    let here = u32::try_from(seen.cells.len() - 1).unwrap_or(u32::MAX);
    if let Some(before) = seen.times.insert(key, here) {
        let other = &seen.cells[before as usize];
        tally.fail(|| format!("{}: the same nanoseconds ({what}) as in {other}", cell.label));
    }
}

pub fn window_sum(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    let raw = cell.raw()?;
    let (start, end) = raw.wall()?;
    let mut windows = raw.labelled()?;
    for (name, begun, ended) in &windows {
        let inside = start <= *begun && begun <= ended && *ended <= end;
        tally.require(inside, || format!("{}: window {name} lies outside the cell", cell.label));
    }
    windows.sort_by_key(|(_, begun, _)| *begun);
    for pair in windows.windows(2) {
        let apart = pair[0].2 <= pair[1].1;
        tally.require(apart, || format!("{}: {} starts before {} ends", cell.label, pair[1].0, pair[0].0));
    }
    let total: i128 = windows.iter().map(|(_, begun, ended)| i128::from(*ended) - i128::from(*begun)).sum();
    let fits = total <= i128::from(end) - i128::from(start);
    tally.require(fits, || format!("{}: Σ windows is more than the cell", cell.label));
    let wall = object_of(cell.record, "wall")?;
    let told = ["start_ns", "end_ns"].map(|name| given(wall, name).and_then(|value| whole(value).ok()));
    let same = told == [Some(start), Some(end)];
    tally.require(same, || format!("{}: the record's wall is not that of its events", cell.label));
    tally.see();
    Ok(())
}

pub fn session_duration(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    let raw = cell.raw()?;
    let labels = raw.labelled()?;
    for (window, nominal_s, _) in cell.run.sessions()? {
        let label = labels.iter().rev().find(|(name, ..)| *name == window);
        let (Some(open_s), Some((_, begun, ended))) = (raw.gate_s(&window), label) else {
            tally.fail(|| format!("{} {window}: no such session, {nominal_s} s are due", cell.label));
            continue;
        };
        tally.see();
        let longest = nominal_s + SESSION_LONG_S.max(SESSION_LONG_SHARE * nominal_s);
        tally.require(nominal_s - SESSION_SHORT_S <= open_s && open_s <= longest, || {
            format!("{} {window}: {open_s:.3} s of {nominal_s} s", cell.label)
        });
        let labelled_s = (ended - begun) as f64 / 1e9;
        tally.require(labelled_s >= nominal_s - SESSION_LONG_S, || {
            format!("{} {window}: labelled for {labelled_s:.3} s of {nominal_s} s", cell.label)
        });
        let joined = raw.down.as_ref().and_then(|join| join.windows.get(&window));
        if let Some((first, last)) = joined.and_then(|joined| joined.first_in_ns.zip(joined.last_in_ns)) {
            let carried_s = (last - first) as f64 / 1e9;
            tally.require(carried_s >= nominal_s - EDGE_S.max(EDGE_SHARE * nominal_s), || {
                format!("{} {window}: traffic lasted {carried_s:.3} s of {nominal_s} s", cell.label)
            });
        }
    }
    Ok(())
}
