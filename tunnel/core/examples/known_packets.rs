//! Sealed packets of fixed keys and sequences, one line each: equal on every platform, or the build is wrong.
//!
//! Every packet is also opened again, and refused with one bit turned.

use pq_core::aead::{Algorithm, DirectionKey};
use std::fmt::Write;

fn main() -> Result<(), String> {
    for token in ["aesgcm", "chacha20poly1305", "ascon128a", "asconaead128"] {
        let algorithm =
            Algorithm::by_token(token).ok_or_else(|| format!("{token} is not in this core"))?;
        let bytes = |count: usize, first: u8| -> Vec<u8> {
            (0..count).map(|n| first.wrapping_add(n as u8)).collect()
        };
        let (key, iv) = (
            bytes(algorithm.key_bytes(), 1),
            bytes(algorithm.nonce_bytes(), 101),
        );
        let key = DirectionKey::new(algorithm, &key, &iv)
            .map_err(|error| format!("{token}: {error:?}"))?;
        for (sequence, length) in [(0, 0), (1, 1), (u64::from(u32::MAX) + 1, 64), (7, 1200)] {
            let header = [0x10, 0, 0, 9, 0, 0, 0, sequence as u8];
            let plain = bytes(length, 33);
            let mut sealed = plain.clone();
            let tag = key.seal(sequence, &header, &mut sealed);
            sealed.extend_from_slice(&tag);
            let mut hex = String::new();
            for byte in &sealed {
                write!(hex, "{byte:02x}").map_err(|error| error.to_string())?;
            }
            let mut turned = sealed.clone();
            turned[length / 2] ^= 1;
            if key.open(sequence, &header, &mut turned).is_some() {
                return Err(format!("{token}: a turned bit was accepted"));
            }
            if key.open(sequence, &header, &mut sealed) != Some(length)
                || sealed[..length] != plain[..]
            {
                return Err(format!("{token}: its own packet does not open"));
            }
            println!("{token} {sequence} {length} {hex}");
        }
    }
    Ok(())
}
