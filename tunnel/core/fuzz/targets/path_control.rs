//! Whatever authentic packets and answers come from wherever: the peer moves only to an address that was challenged, with
//! its token, in time; challenges keep their distance; and a control payload of another length means nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pq_core::packet::{self, Token};
use pq_core::path::{PathState, CHALLENGE_EVERY_NS, CHALLENGE_VALID_NS};
use std::net::{Ipv4Addr, SocketAddrV4};

fn address(byte: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(198, 18, 2, byte & 3), u16::from(byte & 4))
}

fuzz_target!(|data: &[u8]| {
    let mut path = PathState::new(Some(address(0)));
    let mut sent: Vec<(SocketAddrV4, Token, i64)> = Vec::new();
    let (mut now_ns, mut drawn, mut last_ns) = (0_i64, 0_u64, None);
    for step in data.chunks_exact(3) {
        let (source, before) = (address(step[1]), path.peer());
        match step[0] & 3 {
            0 => now_ns += i64::from(step[1]) * 20_000_000,
            1 => {
                let due = path.on_authentic(source, step[2] & 1 == 1, now_ns, || {
                    drawn += 1;
                    Some(drawn.to_be_bytes())
                });
                assert_eq!(path.peer(), before, "a packet alone moves nothing");
                if let Some(due) = due {
                    assert!(step[2] & 1 == 1 && due.to == source && before != Some(source));
                    assert!(last_ns.is_none_or(|last: i64| now_ns - last >= CHALLENGE_EVERY_NS));
                    last_ns = Some(now_ns);
                    sent.push((due.to, due.token, now_ns));
                }
            }
            2 => {
                let token = match sent.len() {
                    0 => [step[2]; 8],
                    count => sent[usize::from(step[2]) % count].1,
                };
                let moved = path.on_response(source, &token, now_ns);
                assert_eq!(path.peer(), if moved { Some(source) } else { before });
                if moved {
                    let first = sent.iter().find(|one| one.0 == source && one.1 == token);
                    let (_, _, then_ns) = first.expect("it was challenged there");
                    assert!(now_ns - then_ns <= CHALLENGE_VALID_NS);
                }
            }
            _ => {
                let length = usize::from(step[2] & 15);
                let meant = packet::is_well_formed(step[1] & 15, &data[..length.min(data.len())]);
                assert!(!meant || matches!(length.min(data.len()), 0 | 4 | 8));
                assert!(!path.on_response(source, &data[..length.min(data.len()).min(7)], now_ns));
            }
        }
    }
});
