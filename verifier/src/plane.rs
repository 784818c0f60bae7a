//! The data plane: packets that fit their rate and time, and both ends telling the same story.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bundle::{keeps_ledger, ROLES};
use crate::cell::Cell;
use crate::json::{object_of, text_of, whole_of, Object};
use crate::ledger::Datagram;
use crate::registry::Seen;
use crate::tally::{Found, Tally};

/// A ground that is no vehicle's peer sends two datagrams a second, each answered by one.
const UPLINK_ANSWER_HZ: f64 = 2.0;
const RATE_LONG_S: f64 = 10.0;
const RATE_TOLERANCE_LONG: f64 = 0.02;
const RATE_TOLERANCE_SHORT: f64 = 0.10;
const PATHS: [(&str, &str, &str); 2] = [("down", "drone", "gcs"), ("up", "gcs", "drone")];
const SUMMED: [&str; 6] = ["tx_data", "tx_data_bytes", "rx_ok", "rx_ok_bytes", "plaintext_in", "plaintext_out"];
/// Packets of no data that any end may send; older bundles do not count all of them.
const CONTROL: [&str; 4] = ["tx_epoch_ack", "tx_rekey_request", "tx_path_challenge", "tx_path_response"];
/// Header and tag of a sealed datagram; `plain` has no tag.
const OVERHEAD_BYTES: i64 = 24;
const OVERHEAD_PLAIN_BYTES: i64 = 8;

fn window_of<'a>(windows: &'a Object, window: &str) -> Found<&'a Object> {
    object_of(windows, window)
}

pub fn rate_time_packets(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    let raw = cell.raw()?;
    for (window, _, rate_hz) in cell.run.sessions()? {
        let seconds = raw.gate_s(&window).ok_or_else(|| format!("no gate of {window}"))?;
        let count = whole_of(window_of(raw.windows("drone")?, &window)?, "tx_data")?;
        let report = raw.traffic.as_ref().and_then(|windows| windows.get(&window));
        let source = report.and_then(|report| report.get("gcs")?.get("source")?.as_str());
        let answered = if window == "traffic" && source == Some("uplink") { UPLINK_ANSWER_HZ } else { 0.0 };
        // what the vehicle answered to a workload comes on top of its mix
        let source_report = |end: &str| report.and_then(|report| report.get(end)?.get("source_report"));
        let asked = source_report("gcs").is_some_and(|told| told.get("workload").is_some());
        let beside = source_report("drone").and_then(|told| told.get("beside")?.get("count")?.as_f64());
        let due = (rate_hz + answered) * seconds + if asked { beside.unwrap_or(0.0) } else { 0.0 };
        let share = count as f64 / due;
        let allowed = if seconds >= RATE_LONG_S { RATE_TOLERANCE_LONG } else { RATE_TOLERANCE_SHORT };
        tally.see();
        // a ladder's source may fall short of a rate that its host cannot make; it cannot exceed it
        let short = share < 1.0 - allowed && !window.starts_with("bulk-");
        tally.require(!short && share <= 1.0 + allowed, || {
            format!("{} {window}: {count} datagrams in {seconds:.2} s, {due:.0} are due", cell.label)
        });
    }
    Ok(())
}

pub fn ledger_counters(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    if !keeps_ledger(&cell.run.scenario, &cell.condition) {
        return Ok(());
    }
    tally.see();
    let raw = cell.raw()?;
    for (role, ledger) in &raw.ledgers {
        let windows = raw.windows(role)?;
        for (rows, counter) in [(&ledger.sent, "tx_data"), (&ledger.received, "rx_ok")] {
            let found = ledger.by_window(rows);
            let names: BTreeSet<&str> =
                found.keys().map(String::as_str).chain(windows.keys().map(String::as_str)).collect();
            for name in names {
                let counted = windows.get(name).and_then(Value::as_object);
                let due = |key: &str| {
                    counted.map_or(Ok(0), |told| if told.contains_key(key) { whole_of(told, key) } else { Ok(0) })
                };
                let due = (due(counter)?, due(&format!("{counter}_bytes"))?);
                let have = found.get(name).copied().unwrap_or((0, 0));
                tally.require(have == due, || {
                    let (rows, size) = have;
                    format!(
                        "{} {name} {role} {counter}: {rows} rows of {size} bytes, {} of {} counted",
                        cell.label, due.0, due.1
                    )
                });
            }
        }
    }
    Ok(())
}

pub fn ledger_join(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    let raw = cell.raw()?;
    let (Some(down), Some(up)) = (&raw.down, &raw.up) else {
        return Ok(());
    };
    tally.see();
    let one_clock = cell.run.one_clock() && raw.unshifted();
    for (path, join) in [("down", down), ("up", up)] {
        let at = |what: String| format!("{} {path}: {what}", cell.label);
        tally.require(join.duplicates == 0, || at(format!("{} pairs occur twice", join.duplicates)));
        tally.require(join.ghosts == 0, || at(format!("{} received and never sent", join.ghosts)));
        for (window, joined) in &join.windows {
            tally.require(joined.resized == 0, || at(format!("{window}: {} changed their size", joined.resized)));
            let kept = joined.lost == 0 || cell.lossy(window);
            tally.require(kept, || at(format!("{window}: {} of {} lost", joined.lost, joined.sent)));
            let early = joined.latency_ns.iter().any(|latency| *latency < 0);
            tally.require(!(one_clock && early), || at(format!("{window}: delivered before they were sent")));
        }
    }
    Ok(())
}

pub fn sequence_gaps(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let raw = cell.raw()?;
    for (role, ledger) in &raw.ledgers {
        let counters = raw.counted(role)?;
        let mut control = i128::from(whole_of(counters, "tx_keepalive")?);
        for name in CONTROL.into_iter().filter(|name| counters.contains_key(*name)) {
            control += i128::from(whole_of(counters, name)?);
        }
        let missing = skipped(&ledger.sent);
        tally.require(missing <= control, || {
            format!("{} {role}: {missing} sequences skipped, {control} control packets sent", cell.label)
        });
        let back = ledger
            .sent
            .windows(2)
            .filter(|pair| (pair[1].epoch, pair[1].sequence) <= (pair[0].epoch, pair[0].sequence));
        let back = back.count();
        tally.require(back == 0, || format!("{} {role}: the sequence went back {back} times", cell.label));
    }
    Ok(())
}

fn skipped(rows: &[Datagram]) -> i128 {
    let mut epochs: std::collections::BTreeMap<u64, (u64, u64, i128)> = std::collections::BTreeMap::new();
    for row in rows {
        let edge = epochs.entry(row.epoch).or_insert((row.sequence, row.sequence, 0));
        *edge = (edge.0.min(row.sequence), edge.1.max(row.sequence), edge.2 + 1);
    }
    let missing = |(low, high, count): &(u64, u64, i128)| (i128::from(*high) - i128::from(*low) + 1 - count).max(0);
    epochs.values().map(missing).sum()
}

pub fn counters_agree(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let raw = cell.raw()?;
    for (path, sender, receiver) in PATHS {
        let (there, here) = (raw.windows(sender)?, raw.windows(receiver)?);
        let alike = there.keys().eq(here.keys());
        tally.require(alike, || format!("{}: the ends counted different windows", cell.label));
        for window in there.keys().filter(|window| here.contains_key(*window)) {
            let sent = whole_of(window_of(there, window)?, "tx_data")?;
            let got = whole_of(window_of(here, window)?, "rx_ok")?;
            let wrong = got > sent || (got != sent && !cell.lossy(window));
            tally.require(!wrong, || format!("{} {window} {path}: {sent} sent, {got} received", cell.label));
        }
    }
    Ok(())
}

pub fn counter_sums(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let raw = cell.raw()?;
    for role in ROLES {
        let (total, windows) = (raw.counted(role)?, raw.windows(role)?);
        let mut counted: BTreeSet<&str> = SUMMED.into();
        for window in windows.keys() {
            let counts = window_of(windows, window)?;
            counted.extend(counts.iter().filter(|(_, value)| value.is_number()).map(|(name, _)| name.as_str()));
        }
        for name in counted {
            let mut sum = 0_i128;
            for window in windows.keys() {
                sum += i128::from(whole_of(window_of(windows, window)?, name)?);
            }
            let told = whole_of(total, name)?;
            tally.require(i128::from(told) == sum, || {
                format!("{} {role} {name}: total {told}, Σ windows {sum}", cell.label)
            });
        }
        for (calls, packets) in [("seal_count", "tx_data"), ("open_count", "rx_ok")] {
            let (calls_made, carried) = (whole_of(total, calls)?, whole_of(total, packets)?);
            tally.require(calls_made >= carried, || {
                format!("{} {role}: {calls_made} {calls}, {carried} {packets}", cell.label)
            });
        }
    }
    Ok(())
}

pub fn byte_identity(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.see();
    let raw = cell.raw()?;
    for (path, sender, receiver) in PATHS {
        let (there, here) = (raw.windows(sender)?, raw.windows(receiver)?);
        for window in there.keys().filter(|window| here.contains_key(*window)) {
            let (sent, got) = (window_of(there, window)?, window_of(here, window)?);
            let count = whole_of(sent, "tx_data")?;
            if count != whole_of(got, "rx_ok")? {
                continue;
            }
            let (ours, theirs) = (text_of(sent, "digest_tx")?, text_of(got, "digest_rx")?);
            tally.require(ours == theirs, || format!("{} {window} {path}: {ours} sent, {theirs} received", cell.label));
            let empty = u64::from_str_radix(ours, 16).map_err(|_| format!("digest {ours} is not hex"))? == 0;
            tally.require(!(count > 0 && empty), || {
                format!("{} {window} {path}: datagrams with an empty digest", cell.label)
            });
        }
    }
    Ok(())
}

pub fn seal_overhead(cell: &Cell, _: &mut Seen, tally: &mut Tally) -> Found<()> {
    tally.unit = "counts";
    let due = if cell.shakes() { OVERHEAD_BYTES } else { OVERHEAD_PLAIN_BYTES };
    let raw = cell.raw()?;
    for role in ROLES {
        let windows = raw.windows(role)?;
        for window in windows.keys() {
            let counted = window_of(windows, window)?;
            for (packets, plain) in [("rx_ok", "plaintext_out"), ("tx_data", "plaintext_in")] {
                let count = whole_of(counted, packets)?;
                if count == 0 || count != whole_of(counted, plain)? {
                    continue;
                }
                tally.see();
                let sealed = whole_of(counted, &format!("{packets}_bytes"))?;
                let open = whole_of(counted, &format!("{plain}_bytes"))?;
                let right = i128::from(sealed) - i128::from(open) == i128::from(due) * i128::from(count);
                tally.require(right, || {
                    format!(
                        "{} {window} {role}: {} bytes more in {count} datagrams, {due} each are due",
                        cell.label,
                        sealed - open
                    )
                });
            }
        }
    }
    Ok(())
}
