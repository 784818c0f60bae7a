//! A train of any length and segment size is cut into datagrams that join to the train, and ledger pages join to the
//! ledger, wherever the reader begins.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pq_core::ledger::{Ledger, Row};
use pq_core::udp::Arrival;
use std::net::{Ipv4Addr, SocketAddrV4};

fn number(data: &[u8], place: usize) -> usize {
    let byte = |at: usize| usize::from(data.get(at).copied().unwrap_or(0));
    byte(2 * place) << 8 | byte(2 * place + 1)
}

fuzz_target!(|data: &[u8]| {
    let arrival = Arrival {
        offset: number(data, 0),
        length: number(data, 1),
        segment: number(data, 2),
        source: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1),
        stamp_ns: 1,
        dropped: None,
    };
    let mut end = arrival.offset;
    let mut count = 0;
    for (offset, length) in arrival.datagrams() {
        assert_eq!(offset, end, "no gap and no overlap");
        assert!(arrival.segment == 0 || length <= arrival.segment);
        assert!(length > 0 || arrival.length == 0);
        end += length;
        count += 1;
    }
    assert_eq!(end, arrival.offset + arrival.length);
    assert!(count >= 1, "an empty datagram is one, too");

    let mut ledger = Ledger::default();
    let row = |sequence: u64| Row {
        epoch: 1,
        size_bytes: 64,
        sequence,
        t_in_ns: 1,
        t_out_ns: 2,
        window: 1,
    };
    for sequence in 0..number(data, 3) as u64 % 50 {
        ledger.tx.add(row(sequence));
    }
    for sequence in 0..number(data, 4) as u64 % 50 {
        ledger.rx.add(row(sequence));
    }
    let names = ["traffic".to_owned()];
    let whole = ledger.page(0, usize::MAX).render(&names);
    assert_eq!(whole.len(), ledger.line_count());
    let (since, limit) = (number(data, 5) % 120, number(data, 6) % 120);
    let expected: Vec<_> = whole.iter().skip(since).take(limit).cloned().collect();
    assert_eq!(ledger.page(since, limit).render(&names), expected);
});
