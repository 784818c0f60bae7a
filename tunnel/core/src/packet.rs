//! Packet format: 8 header bytes, ciphertext, 16-byte tag (docs/PROTOCOL.md, section 6).
//!
//! ```text
//! type (4 bit) | epoch mod 16 (4 bit) | receiver index (24 bit)
//! low 32 bits of the sequence
//! ```

/// One MAVLink datagram.
pub const DATA: u8 = 1;
/// Empty, sent after 1 s in which nothing else was.
pub const KEEPALIVE: u8 = 2;
/// Empty: the GCS has authenticated the first packet of an epoch.
pub const EPOCH_ACK: u8 = 3;
/// The GCS asks for a rekey: reason (1 byte), suite code (3 bytes, zero: the same suite).
pub const REKEY_REQUEST: u8 = 4;
/// A token that only whoever receives at the address it is sent to can know.
pub const PATH_CHALLENGE: u8 = 5;
/// The challenge's token, from there. The highest defined type.
pub const PATH_RESPONSE: u8 = 6;

/// Bytes of a path token.
pub const TOKEN_BYTES: usize = 8;
/// Bytes of a rekey-request.
pub const REKEY_REQUEST_BYTES: usize = 4;

/// Bytes before the ciphertext; they are the AAD.
pub const HEADER_BYTES: usize = 8;
/// Bytes after the ciphertext.
pub const TAG_BYTES: usize = 16;
/// What an AEAD adds to a plaintext.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// Largest UDP payload over IPv4: 65,535 less 20 (IP) and 8 (UDP).
pub const MAX_DATAGRAM_BYTES: usize = 65_507;
/// Largest plaintext that fits one sealed datagram.
pub const MAX_PLAINTEXT_BYTES: usize = MAX_DATAGRAM_BYTES - OVERHEAD_BYTES;

/// A path token: what a path-challenge or path-response must carry.
pub type Token = [u8; TOKEN_BYTES];

/// Has a control packet the length that its type asks for? An authentic one of another length means nothing.
#[must_use]
pub fn is_well_formed(kind: u8, payload: &[u8]) -> bool {
    match kind {
        EPOCH_ACK => payload.is_empty(),
        REKEY_REQUEST => payload.len() == REKEY_REQUEST_BYTES,
        PATH_CHALLENGE | PATH_RESPONSE => payload.len() == TOKEN_BYTES,
        _ => false,
    }
}

/// The header's first 32 bits; constant for one type, epoch and direction.
#[must_use]
pub fn first_word(packet_type: u8, epoch: u32, receiver_index: u32) -> u32 {
    (u32::from(packet_type) << 28) | ((epoch & 0xF) << 24) | (receiver_index & 0xFF_FFFF)
}

/// The 8 header bytes of one packet.
#[must_use]
pub fn header(first_word: u32, sequence: u64) -> [u8; HEADER_BYTES] {
    let low = sequence & 0xFFFF_FFFF;
    ((u64::from(first_word) << 32) | low).to_be_bytes()
}

/// `(first word, low 32 bits of the sequence)`; the slice holds at least 8 bytes.
#[must_use]
pub fn words(datagram: &[u8]) -> (u32, u32) {
    let mut bytes = [0; HEADER_BYTES];
    bytes.copy_from_slice(&datagram[..HEADER_BYTES]);
    let both = u64::from_be_bytes(bytes);
    ((both >> 32) as u32, both as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_the_documents() {
        // docs/PROTOCOL.md, section 9: drone, data, epoch 7, sequence 1.
        let bytes = header(first_word(DATA, 7, 0x60_0c57), 1);
        assert_eq!(bytes, [0x17, 0x60, 0x0c, 0x57, 0, 0, 0, 1]);
        assert_eq!(words(&bytes), (0x1760_0c57, 1));
        assert_eq!(
            first_word(KEEPALIVE, 0x1234_567f, 0xFF_FFFF),
            0x2fff_ffff,
            "the epoch wraps at 16"
        );
    }
}
