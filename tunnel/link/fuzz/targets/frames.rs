//! Whatever bytes come as a frame: a header lets through what may come now, of a length the registry allows, and nothing
//! else; what a parser takes is, encoded again, the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pq_link::suite::Suite;
use pq_link::wire::{
    check_header, client_kem, framed, parse_mac, prefix, server_hello_signed_part, split_early,
    Challenge, ClientKem, FrameType, Hello, ServerHello, HEADER_BYTES, MAC_BYTES, RETRY,
};

const FRAMES: [FrameType; 8] = [
    FrameType::Challenge,
    FrameType::Hello,
    FrameType::ServerHello,
    FrameType::ClientKem,
    FrameType::GcsFinished,
    FrameType::SessionUnknown,
    FrameType::Retry,
    FrameType::EarlyHello,
];
/// No frame of any suite is longer: a public key of McEliece and a signature of SPHINCS+, with room for what is beside.
const MOST_BYTES: usize = 1_357_824 + 29_792 + 64;

fuzz_target!(|data: &[u8]| {
    let Some(([choice, signs, codes @ ..], rest)) = data.split_first_chunk::<5>() else {
        return;
    };
    let suite = Suite::by_code(*codes);
    let drone_signs = signs & 1 == 1;
    let expected = FRAMES[usize::from(choice & 7)];
    let other = [FRAMES[usize::from(choice >> 3 & 7)]];
    let others = &other[..usize::from(choice >> 6 & 1)];
    // By the body's own length, whatever a header would have said.
    for frame in FRAMES {
        parse(frame, rest, suite, drone_signs);
    }
    let Some((header, body)) = rest.split_first_chunk::<HEADER_BYTES>() else {
        return;
    };
    let Ok((frame, length)) = check_header(*header, expected, others, suite, drone_signs) else {
        return;
    };
    assert!(frame == expected || others.contains(&frame));
    assert_eq!(header[0], 0x10 | frame as u8);
    assert_eq!(header[1..], (length as u32).to_be_bytes()[1..]);
    assert!(length <= MOST_BYTES);
    if let Some(body) = body.get(..length) {
        parse(frame, body, suite, drone_signs);
    }
});

fn parse(frame: FrameType, body: &[u8], suite: Option<Suite>, drone_signs: bool) {
    match frame {
        FrameType::Challenge => {
            if let Ok(challenge) = Challenge::parse(body) {
                assert_eq!(challenge.encode(), framed(frame, &[body]));
            }
        }
        FrameType::Hello => {
            if let Ok(hello) = Hello::parse(body) {
                let mut again = hello.encode_unauthenticated(None);
                again.extend_from_slice(&hello.mac);
                assert_eq!(again, framed(frame, &[body]));
            }
        }
        FrameType::EarlyHello => {
            if let Ok((nonce, hello_body)) = split_early(body) {
                assert_eq!(body.len(), 133);
                if let Ok(hello) = Hello::parse(hello_body) {
                    let mut again = hello.encode_unauthenticated(Some(&nonce));
                    again.extend_from_slice(&hello.mac);
                    assert_eq!(again, framed(frame, &[body]));
                }
            }
        }
        FrameType::ServerHello => {
            let Some(suite) = suite else { return };
            if let Ok(hello) = ServerHello::parse(body, suite) {
                let signed = server_hello_signed_part(hello.rx_index, hello.public_key);
                assert_eq!(signed, hello.signed_part);
                let told = prefix(hello.signature);
                assert_eq!([&signed, &told[..], hello.signature].concat(), body);
            }
        }
        FrameType::ClientKem => {
            let Some(suite) = suite else { return };
            if let Ok(client) = ClientKem::parse(body, suite, drone_signs) {
                let again = client_kem(client.ciphertext, client.finished, client.signature);
                assert_eq!(again, framed(frame, &[body]));
            }
        }
        FrameType::GcsFinished | FrameType::SessionUnknown => {
            assert_eq!(parse_mac(frame, body).is_ok(), body.len() == MAC_BYTES);
        }
        FrameType::Retry => assert_eq!(framed(frame, &[&[]]), RETRY),
    }
}
