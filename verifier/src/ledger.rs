//! Ledgers of both ends and their join on (epoch, sequence).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::json::{short, TOO_LARGE};
use crate::tally::Found;

const HEADER: &str = "direction,epoch,sequence,size_bytes,t_in_ns,t_out_ns,window";
/// No time, size or sequence comes near it.
const BOUND: u64 = 1 << 62;
const MAX_ROWS: usize = 4_000_000;
const MAX_WINDOWS: usize = 1_000;

#[derive(Clone, Copy)]
pub struct Datagram {
    pub epoch: u64,
    pub sequence: u64,
    pub size: i64,
    pub in_ns: i64,
    pub out_ns: i64,
    window: u16,
}

impl Datagram {
    fn key(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }
}

/// Both directions at one end, each in the order of the file, and the names of their windows.
#[derive(Default)]
pub struct Ledger {
    pub sent: Vec<Datagram>,
    pub received: Vec<Datagram>,
    windows: Vec<String>,
}

impl Ledger {
    pub fn read(path: &Path) -> Found<Self> {
        let mut ledger = Self::default();
        let mut known: HashMap<String, u16> = HashMap::new();
        let file = fs::File::open(path).map_err(|why| format!("{}: {why}", short(path)))?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut line = String::new();
        for number in 1_usize.. {
            line.clear();
            let at = |why: &str| format!("{} line {number}: {why}", short(path));
            let size = (&mut reader).take(4096).read_line(&mut line).map_err(|why| at(&why.to_string()))?;
            if size == 0 {
                break;
            }
            let text = line.trim_end_matches(['\n', '\r']);
            if number == 1 {
                if text != HEADER {
                    return Err(at("another header"));
                }
                continue;
            }
            let mut fields = text.split(',');
            let way = fields.next().unwrap_or("");
            let mut next = || -> Found<u64> {
                let field = fields.next().ok_or_else(|| at("a field is missing"))?;
                let told = field.parse::<u64>().ok().filter(|told| *told < BOUND);
                told.ok_or_else(|| at("a number outside 0 to 2^62"))
            };
            let (epoch, sequence) = (next()?, next()?);
            let mut signed = || next().map(|told| i64::try_from(told).unwrap_or(i64::MAX));
            let (size, in_ns, out_ns) = (signed()?, signed()?, signed()?);
            let (Some(name), None) = (fields.next(), fields.next()) else {
                return Err(at("seven fields are due"));
            };
            let window = if let Some(window) = known.get(name) {
                *window
            } else {
                let window = u16::try_from(ledger.windows.len()).ok().filter(|at| usize::from(*at) < MAX_WINDOWS);
                let window = window.ok_or_else(|| at("too many windows"))?;
                known.insert(name.to_owned(), window);
                ledger.windows.push(name.to_owned());
                window
            };
            if number > MAX_ROWS {
                return Err(at(TOO_LARGE));
            }
            let row = Datagram { epoch, sequence, size, in_ns, out_ns, window };
            match way {
                "tx" => ledger.sent.push(row),
                "rx" => ledger.received.push(row),
                _ => return Err(at("a direction is tx or rx")),
            }
        }
        Ok(ledger)
    }

    /// Take the rows of one window out.
    pub fn without(&mut self, window: &str) {
        let Some(at) = self.windows.iter().position(|name| name == window) else {
            return;
        };
        let other = |row: &Datagram| usize::from(row.window) != at;
        self.sent.retain(other);
        self.received.retain(other);
    }

    /// Window → (rows, sealed bytes) of one direction.
    pub fn by_window(&self, rows: &[Datagram]) -> BTreeMap<String, (i64, i64)> {
        let mut found = vec![(0, 0_i64); self.windows.len()];
        for row in rows {
            let sum = &mut found[usize::from(row.window)];
            *sum = (sum.0 + 1, sum.1.saturating_add(row.size));
        }
        let named = self.windows.iter().cloned().zip(found);
        named.filter(|(_, (rows, _))| *rows > 0).collect()
    }
}

/// One direction of one window: the sender's rows against the receiver's.
#[derive(Default)]
pub struct Joined {
    pub sent: usize,
    pub lost: usize,
    pub resized: usize,
    /// plaintext in at the sender → handed over at the receiver, in order of arrival
    pub latency_ns: Vec<i64>,
    pub first_in_ns: Option<i64>,
    pub last_in_ns: Option<i64>,
}

#[derive(Default)]
pub struct Join {
    pub windows: BTreeMap<String, Joined>,
    pub duplicates: usize,
    pub ghosts: usize,
}

pub fn join(sender: &Ledger, receiver: &Ledger) -> Join {
    let rows = &sender.sent;
    let mut found = Join::default();
    let mut windows: Vec<Joined> = sender.windows.iter().map(|_| Joined::default()).collect();
    // places of rows, sorted by key; of rows with one key the last stands for all
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| (rows[*at].key(), *at));
    let mut arrived = vec![false; rows.len()];
    let mut ghosts = HashSet::new();
    for row in &receiver.received {
        let end = order.partition_point(|at| rows[*at].key() <= row.key());
        let origin = end.checked_sub(1).map(|at| order[at]).filter(|at| rows[*at].key() == row.key());
        let Some(origin) = origin else {
            if ghosts.insert(row.key()) {
                found.ghosts += 1;
            } else {
                found.duplicates += 1;
            }
            continue;
        };
        if std::mem::replace(&mut arrived[origin], true) {
            found.duplicates += 1;
            continue;
        }
        let joined = &mut windows[usize::from(rows[origin].window)];
        joined.resized += usize::from(row.size != rows[origin].size);
        joined.latency_ns.push(row.out_ns - rows[origin].in_ns);
    }
    for (at, place) in order.iter().enumerate() {
        let row = &rows[*place];
        let mut last = at;
        while order.get(last + 1).is_some_and(|next| rows[*next].key() == row.key()) {
            last += 1;
        }
        found.duplicates += usize::from(last != at);
        let joined = &mut windows[usize::from(row.window)];
        joined.sent += 1;
        joined.lost += usize::from(!arrived[order[last]]);
        joined.first_in_ns = Some(joined.first_in_ns.map_or(row.in_ns, |first| first.min(row.in_ns)));
        joined.last_in_ns = Some(joined.last_in_ns.map_or(row.in_ns, |latest| latest.max(row.in_ns)));
    }
    found.windows = sender.windows.iter().cloned().zip(windows).filter(|(_, joined)| joined.sent > 0).collect();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(sent: &[u64], received: &[u64]) -> Ledger {
        let rows = |keys: &[u64]| {
            let row = |key: &u64| Datagram { epoch: 0, sequence: *key, size: 60, in_ns: 5, out_ns: 9, window: 0 };
            keys.iter().map(row).collect()
        };
        Ledger { sent: rows(sent), received: rows(received), windows: vec!["traffic".to_owned()] }
    }

    #[test]
    fn lost_doubled_and_never_sent() {
        let joined = join(&ledger(&[1, 2, 3, 3], &[]), &ledger(&[], &[2, 1, 2, 7, 7]));
        assert_eq!((joined.ghosts, joined.duplicates), (1, 3));
        let traffic = &joined.windows["traffic"];
        assert_eq!((traffic.sent, traffic.lost, traffic.latency_ns.len()), (4, 2, 2));
    }
}
