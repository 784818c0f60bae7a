//! What every datagram of a load carries: magic, number, send time.

use pq_core::udp::realtime_ns;

/// Shortest payload that holds the stamp.
pub const STAMP_BYTES: usize = 24;
const MAGIC: u64 = 0x5051_4c4f_4144_3031;

/// Write the stamp over the beginning of `payload`.
pub fn write(payload: &mut [u8], number: u64) {
    payload[..8].copy_from_slice(&MAGIC.to_be_bytes());
    payload[8..16].copy_from_slice(&number.to_be_bytes());
    payload[16..24].copy_from_slice(&realtime_ns().to_be_bytes());
}

/// (number, send time in realtime ns), or `None` when the datagram is not of a load.
pub fn read(payload: &[u8]) -> Option<(u64, u64)> {
    let word = |at: usize| -> Option<u64> {
        let bytes: [u8; 8] = payload.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_be_bytes(bytes))
    };
    (word(0)? == MAGIC).then_some(())?;
    Some((word(8)?, word(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back_and_nothing_else_passes() {
        let mut payload = [0; 64];
        write(&mut payload, 7);
        assert_eq!(read(&payload).map(|(number, _)| number), Some(7));
        assert_eq!(read(&payload[..STAMP_BYTES - 1]), None);
        payload[0] ^= 1;
        assert_eq!(read(&payload), None);
    }
}
