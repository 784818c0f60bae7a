//! Signed MAVLink 2 as a forwarder of datagrams: what an operator has without a tunnel. It authenticates and hides nothing.
//!
//! ```text
//! peer-mavlink-signed drone KEY LISTEN GCS       wraps what comes to LISTEN in signed frames and sends them to GCS
//! peer-mavlink-signed gcs KEY LISTEN TARGET      checks the frames, and sends what was in them to TARGET
//! ```
//!
//! KEY is 64 hexadecimal digits. A datagram is carried by messages ENCAPSULATED_DATA (131) of 253 bytes each, all of them
//! in one datagram: 64 bytes need one frame, 1,200 bytes five. Their sequence numbers say which of how many each is. Each has a CRC and a signature (the first 48 bits of
//! SHA-256 over key, frame, link and time) of its own, made and checked by the crate mavlink-core; a time that did not
//! grow is refused. Zeros at a frame's end are not cut off. A system call reads a datagram and one sends it.

use mavlink_core::{calculate_crc, MAVLinkV2MessageRaw, SigningConfig, SigningData};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const STX: u8 = 0xFD;
const SIGNED: u8 = 0x01;
const HEAD_BYTES: usize = 10;
const CRC_BYTES: usize = 2;
const SIGNATURE_BYTES: usize = 13;
/// ENCAPSULATED_DATA of the common dialect: a sequence number of two bytes, and 253 bytes.
const MESSAGE: u8 = 131;
const CRC_EXTRA: u8 = 223;
const NUMBER_BYTES: usize = 2;
const MOST_BYTES: usize = 253;
const BUFFER_BYTES: usize = 65_536;
const FRAME_BYTES: usize = 280;

/// The frames of a datagram, one after another in `out`; false, and nothing, for one of no bytes or of more than 255
/// frames.
fn wrap_all(signing: &SigningData, sequence: &mut u8, data: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let Ok(count @ 1..) = u8::try_from(data.len().div_ceil(MOST_BYTES)) else {
        return false;
    };
    for (place, part) in (0..count).zip(data.chunks(MOST_BYTES)) {
        wrap(
            signing,
            *sequence,
            u16::from_le_bytes([place, count]),
            part,
            out,
        );
        *sequence = sequence.wrapping_add(1);
    }
    true
}

/// One signed frame with `part`, appended to `out`.
fn wrap(signing: &SigningData, sequence: u8, number: u16, part: &[u8], out: &mut Vec<u8>) {
    let mut raw = MAVLinkV2MessageRaw::new();
    let frame = raw.as_mut_slice();
    let payload = NUMBER_BYTES + part.len();
    // at most 255, by MOST_BYTES
    frame[..HEAD_BYTES].copy_from_slice(&[
        STX,
        payload as u8,
        SIGNED,
        0,
        sequence,
        1,
        1,
        MESSAGE,
        0,
        0,
    ]);
    frame[HEAD_BYTES..HEAD_BYTES + NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
    frame[HEAD_BYTES + NUMBER_BYTES..HEAD_BYTES + payload].copy_from_slice(part);
    let end = HEAD_BYTES + payload;
    let crc = calculate_crc(&frame[1..end], CRC_EXTRA);
    frame[end..end + CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
    signing.sign_message(&mut raw);
    out.extend_from_slice(&raw.as_slice()[..end + CRC_BYTES + SIGNATURE_BYTES]);
}

/// What all frames of a datagram hold; None where one of them is damaged, unsigned, forged, old, out of place or missing.
fn unwrap(signing: &SigningData, mut left: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    let mut place = 0u8;
    loop {
        let head = left.get(..HEAD_BYTES)?;
        if head[0] != STX || head[2] != SIGNED || head[7..HEAD_BYTES] != [MESSAGE, 0, 0] {
            return None;
        }
        let end = HEAD_BYTES + usize::from(head[1]);
        let frame = left.get(..end + CRC_BYTES + SIGNATURE_BYTES)?;
        if calculate_crc(&frame[1..end], CRC_EXTRA).to_le_bytes() != frame[end..end + CRC_BYTES] {
            return None;
        }
        let mut bytes = [0; FRAME_BYTES];
        bytes[..frame.len()].copy_from_slice(frame);
        if !signing.verify_signature(&MAVLinkV2MessageRaw::from_bytes_unparsed(bytes)) {
            return None;
        }
        let (number, part) = frame[HEAD_BYTES..end].split_at_checked(NUMBER_BYTES)?;
        let count = number[1];
        if number[0] != place || place >= count {
            return None;
        }
        out.extend_from_slice(part);
        left = &left[frame.len()..];
        place += 1;
        if place == count {
            return left.is_empty().then_some(());
        }
    }
}

fn key(text: &str) -> Outcome<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return Err("a key has 64 hexadecimal digits".into());
    }
    let mut key = [0; 32];
    for (byte, place) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[place..place + 2], 16)?;
    }
    Ok(key)
}

fn drone(signing: &SigningData, socket: &UdpSocket, target: SocketAddr) -> Outcome {
    let (mut buffer, mut out, mut sequence) = (vec![0; BUFFER_BYTES], Vec::new(), 0u8);
    loop {
        let (length, _) = socket.recv_from(&mut buffer)?;
        if wrap_all(signing, &mut sequence, &buffer[..length], &mut out) {
            socket.send_to(&out, target)?;
        }
    }
}

fn gcs(signing: &SigningData, socket: &UdpSocket, target: SocketAddr) -> Outcome {
    let (mut buffer, mut out) = (vec![0; BUFFER_BYTES], Vec::new());
    loop {
        let (length, _) = socket.recv_from(&mut buffer)?;
        if unwrap(signing, &buffer[..length], &mut out).is_some() {
            socket.send_to(&out, target)?;
        }
    }
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, secret, listen, target] = &words[..] else {
        return Err("usage: peer-mavlink-signed drone|gcs KEY LISTEN TARGET".into());
    };
    let signing = SigningData::from_config(SigningConfig::new(key(secret)?, 0, true, false));
    let socket = UdpSocket::bind(&listen[..])?;
    println!("ready");
    match &role[..] {
        "drone" => drone(&signing, &socket, target.parse()?),
        "gcs" => gcs(&signing, &socket, target.parse()?),
        _ => Err("a role is drone or gcs".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signing(key: u8) -> SigningData {
        SigningData::from_config(SigningConfig::new([key; 32], 0, true, false))
    }

    fn wrapped(key: u8, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(wrap_all(&signing(key), &mut 250, data, &mut out));
        out
    }

    #[test]
    fn what_is_wrapped_comes_out_again() {
        for length in [1_usize, 64, 253, 254, 1200] {
            let data: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let (sent, mut out) = (wrapped(7, &data), Vec::new());
            assert_eq!(sent.len(), length + length.div_ceil(253) * 27);
            assert!(unwrap(&signing(7), &sent, &mut out).is_some());
            assert_eq!(out, data);
        }
    }

    #[test]
    fn another_key_a_changed_byte_and_a_second_copy_are_refused() {
        let sent = wrapped(7, &[9; 64]);
        assert!(unwrap(&signing(8), &sent, &mut Vec::new()).is_none());
        for place in 0..sent.len() {
            let mut changed = sent.clone();
            changed[place] ^= 1;
            assert!(
                unwrap(&signing(7), &changed, &mut Vec::new()).is_none(),
                "byte {place}"
            );
        }
        let receiver = signing(7);
        assert!(unwrap(&receiver, &sent, &mut Vec::new()).is_some());
        assert!(unwrap(&receiver, &sent, &mut Vec::new()).is_none());
    }

    #[test]
    fn a_frame_without_signature_is_refused() {
        let mut plain = wrapped(7, &[9; 64]);
        plain.truncate(plain.len() - SIGNATURE_BYTES);
        plain[2] = 0;
        assert!(unwrap(&signing(7), &plain, &mut Vec::new()).is_none());
    }

    #[test]
    fn frames_that_are_missing_added_or_none_are_refused() {
        let (sent, mut out) = (wrapped(7, &[9; 1200]), Vec::new());
        let frame = MOST_BYTES + 27;
        for cut in [0, frame, 2 * frame, 4 * frame, sent.len() - 1] {
            assert!(
                unwrap(&signing(7), &sent[..cut], &mut out).is_none(),
                "{cut}"
            );
        }
        assert!(unwrap(&signing(7), &sent[frame..], &mut out).is_none());
        let more = [&sent[..], &sent[..frame]].concat();
        assert!(unwrap(&signing(7), &more, &mut out).is_none());
        assert!(!wrap_all(&signing(7), &mut 0, &[], &mut out));
        assert!(!wrap_all(&signing(7), &mut 0, &[0; 65_000], &mut out));
    }
}
