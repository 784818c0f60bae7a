//! What crossed the sealed side in each 20 ms: the input of detectors, readable while traffic runs.

use crate::counters::Counter;
use std::collections::VecDeque;

/// Width of a bin.
pub const BIN_NS: u64 = 20_000_000;
/// Bins kept: the last minute in which something happened throughout.
pub const KEPT_BINS: usize = 3_000;

/// Fields of a bin after its number. New ones go to the end: readers of old recordings know places.
///
/// `rx_filled`: authentic packets below the highest sequence, which an earlier `sequence_gap` had counted;
/// `new_source`: authentic data from another address than the peer's; `queue_full`: what the sealed socket's kernel
/// queue dropped; `rx_bytes_sq`: sum of squared datagram sizes; `rx_control`: authentic control packets but
/// keepalives; `duplicate`: authentic second copies within 1 s.
pub const FIELDS: &[&str] = &[
    "rx_datagrams",
    "rx_bytes",
    "rx_data",
    "rx_keepalive",
    "bad_header",
    "unknown_index",
    "auth_failed",
    "replay",
    "old_epoch",
    "sequence_gap",
    "tx_data",
    "tx_bytes",
    "rx_filled",
    "new_source",
    "queue_full",
    "rx_bytes_sq",
    "rx_control",
    "duplicate",
];

/// Places in [`FIELDS`].
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Field {
    RxDatagrams,
    RxBytes,
    RxData,
    RxKeepalive,
    BadHeader,
    UnknownIndex,
    AuthFailed,
    Replay,
    OldEpoch,
    SequenceGap,
    TxData,
    TxBytes,
    RxFilled,
    NewSource,
    QueueFull,
    RxBytesSq,
    RxControl,
    Duplicate,
}

impl Field {
    /// The field that a drop's counter belongs to.
    #[must_use]
    pub fn of_drop(counter: Counter) -> Self {
        match counter {
            Counter::UnknownIndex => Self::UnknownIndex,
            Counter::AuthFailed => Self::AuthFailed,
            Counter::Duplicate => Self::Duplicate,
            Counter::Replay => Self::Replay,
            Counter::OldEpoch => Self::OldEpoch,
            _ => Self::BadHeader,
        }
    }
}

/// One bin: its number (realtime ns / 20 ms) and counts in the order of [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Realtime ns / [`BIN_NS`].
    pub number: u64,
    /// Counts.
    pub counts: [u64; FIELDS.len()],
}

/// The newest bins, oldest first; bins in which nothing happened are not there.
#[derive(Default)]
pub struct Bins(VecDeque<Bin>, bool);

impl Bins {
    /// Kept nowhere: a minute of bins takes 430 kB, too much for each of a thousand sessions that no detector watches.
    #[must_use]
    pub fn off() -> Self {
        Self(VecDeque::new(), true)
    }

    /// Add to a field of the bin that holds `t_ns`; a time before the newest bin goes into the newest.
    pub fn add(&mut self, t_ns: u64, field: Field, amount: u64) {
        if self.1 {
            return;
        }
        let number = t_ns / BIN_NS;
        if self.0.back().is_none_or(|newest| newest.number < number) {
            if self.0.len() == KEPT_BINS {
                self.0.pop_front();
            }
            self.0.push_back(Bin {
                number,
                counts: [0; FIELDS.len()],
            });
        }
        if let Some(newest) = self.0.back_mut() {
            newest.counts[field as usize] += amount;
        }
    }

    /// Bins from number `since` on.
    #[must_use]
    pub fn since(&self, since: u64) -> Vec<Bin> {
        let start = self.0.partition_point(|bin| bin.number < since);
        self.0.range(start..).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_by_time_and_bounded() {
        let mut bins = Bins::default();
        bins.add(5 * BIN_NS, Field::RxData, 1);
        bins.add(5 * BIN_NS + BIN_NS - 1, Field::RxBytes, 88);
        bins.add(4 * BIN_NS, Field::RxData, 1);
        bins.add(9 * BIN_NS, Field::of_drop(Counter::Replay), 1);
        let all = bins.since(0);
        assert_eq!(all.iter().map(|b| b.number).collect::<Vec<_>>(), [5, 9]);
        assert_eq!(all[0].counts[Field::RxData as usize], 2);
        assert_eq!(all[0].counts[Field::RxBytes as usize], 88);
        assert_eq!(bins.since(6), all[1..]);
        for number in 10..10 + KEPT_BINS as u64 {
            bins.add(number * BIN_NS, Field::TxData, 1);
        }
        assert_eq!(bins.since(0).len(), KEPT_BINS);
        assert_eq!(bins.since(0)[0].number, 10);
        let mut off = Bins::off();
        off.add(5 * BIN_NS, Field::RxData, 1);
        assert!(off.since(0).is_empty());
    }
}
