//! Ledger: one row for every data datagram at this end; rendered as CSV on demand.

use std::fmt::Write as _;

/// First line of the CSV.
pub const HEADER: &str = "direction,epoch,sequence,size_bytes,t_in_ns,t_out_ns,window";
/// A cell that reaches it keeps counting but says that its ledger is cut (about 320 MB).
pub const MAX_ROWS_PER_DIRECTION: usize = 8_000_000;
/// Rows of one block: memory grows by whole blocks, so that no row ever waits for the copying of all others.
const BLOCK_ROWS: usize = 1 << 15;

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// 32-bit number of the epoch.
    pub epoch: u32,
    /// Sealed datagram's length in bytes.
    pub size_bytes: u32,
    /// 64-bit sequence.
    pub sequence: u64,
    /// Kernel receive time, realtime ns.
    pub t_in_ns: u64,
    /// Clock after the send call, realtime ns.
    pub t_out_ns: u64,
    /// Place of the window in the cell's list, from 1 (0: none yet).
    pub window: u16,
}

/// The lab's reports say how much of an endpoint's memory its ledger is (`pqtunnel.blackout.ROW_BYTES`).
const _: () = assert!(size_of::<Row>() == 40);

/// Rows of one direction.
#[derive(Default)]
pub struct Side {
    blocks: Vec<Vec<Row>>,
    rows: usize,
    /// Rows over the limit: counted, not kept.
    pub cut: u64,
}

impl Side {
    /// Append one row.
    pub fn add(&mut self, row: Row) {
        if self.rows >= MAX_ROWS_PER_DIRECTION {
            self.cut += 1;
            return;
        }
        if self.rows % BLOCK_ROWS == 0 {
            self.blocks.push(Vec::with_capacity(BLOCK_ROWS));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(row);
            self.rows += 1;
        }
    }

    /// Rows kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True before the first row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn copy(&self, start: usize, stop: usize) -> Vec<Row> {
        let stop = stop.min(self.rows);
        (start..stop.max(start))
            .map(|row| self.blocks[row / BLOCK_ROWS][row % BLOCK_ROWS])
            .collect()
    }
}

/// Both directions of one cell: sent rows first, then received rows.
#[derive(Default)]
pub struct Ledger {
    /// Sealed here.
    pub tx: Side,
    /// Opened here.
    pub rx: Side,
}

/// A copy of some lines' rows, taken quickly so that rendering needs no lock.
pub struct Page {
    header: bool,
    tx: Vec<Row>,
    rx: Vec<Row>,
}

impl Ledger {
    /// Lines including the header.
    #[must_use]
    pub fn line_count(&self) -> usize {
        1 + self.tx.len() + self.rx.len()
    }

    /// Rows of the lines `[since, since + limit)`, the header being line 0.
    #[must_use]
    pub fn page(&self, since: usize, limit: usize) -> Page {
        let start = since.saturating_sub(1);
        let stop = since.saturating_add(limit).saturating_sub(1);
        let sent = self.tx.len();
        Page {
            header: since == 0 && limit > 0,
            tx: self.tx.copy(start, stop.min(sent)),
            rx: self
                .rx
                .copy(start.saturating_sub(sent), stop.saturating_sub(sent)),
        }
    }
}

impl Page {
    /// CSV lines; a row from before the first window carries the first window's name.
    #[must_use]
    pub fn render(&self, names: &[String]) -> Vec<String> {
        let mut lines = Vec::with_capacity(self.tx.len() + self.rx.len() + 1);
        if self.header {
            lines.push(HEADER.to_owned());
        }
        for (direction, rows) in [("tx", &self.tx), ("rx", &self.rx)] {
            for row in rows {
                let place = usize::from(row.window).saturating_sub(1);
                let window = names.get(place).map_or("", String::as_str);
                let mut line = String::with_capacity(96);
                // Writing to a String cannot fail.
                let _ = write!(
                    line,
                    "{direction},{},{},{},{},{},{window}",
                    row.epoch, row.sequence, row.size_bytes, row.t_in_ns, row.t_out_ns
                );
                lines.push(line);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sequence: u64, window: u16) -> Row {
        Row {
            epoch: 2,
            size_bytes: 64,
            sequence,
            t_in_ns: 10,
            t_out_ns: 20,
            window,
        }
    }

    #[test]
    fn pages_join_to_the_whole() {
        let mut ledger = Ledger::default();
        for sequence in 0..7 {
            ledger.tx.add(row(sequence, 1));
        }
        for sequence in 0..5 {
            ledger.rx.add(row(sequence, (sequence % 3) as u16));
        }
        let names = ["a".to_owned(), "b".to_owned()];
        let whole = ledger.page(0, 100).render(&names);
        assert_eq!(whole.len(), ledger.line_count());
        assert_eq!(whole[0], HEADER);
        assert_eq!(whole[1], "tx,2,0,64,10,20,a");
        assert_eq!(whole[8], "rx,2,0,64,10,20,a", "before the first window");
        assert_eq!(whole[10], "rx,2,2,64,10,20,b");
        for limit in 1..5 {
            let mut joined = Vec::new();
            let mut since = 0;
            while since < ledger.line_count() {
                joined.extend(ledger.page(since, limit).render(&names));
                since += limit;
            }
            assert_eq!(joined, whole);
        }
        for since in 0..15 {
            for limit in 0..15 {
                let expected: Vec<_> = whole.iter().skip(since).take(limit).cloned().collect();
                assert_eq!(ledger.page(since, limit).render(&names), expected);
            }
        }
        assert!(ledger.page(99, 9).render(&names).is_empty());
    }

    #[test]
    fn rows_cross_blocks() {
        let mut side = Side::default();
        for sequence in 0..BLOCK_ROWS as u64 + 3 {
            side.add(row(sequence, 1));
        }
        let last = side.copy(BLOCK_ROWS - 1, usize::MAX);
        let sequences: Vec<_> = last.iter().map(|row| row.sequence as usize).collect();
        assert_eq!(
            sequences,
            [BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, BLOCK_ROWS + 2]
        );
    }
}
