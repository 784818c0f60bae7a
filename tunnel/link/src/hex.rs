//! Bytes as hexadecimal text and back.

use std::fmt::Write as _;

/// Lower-case hexadecimal.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
    }
    text
}

/// The bytes; `None` for an odd length or another character.
#[must_use]
pub fn read(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() % 2 != 0 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    // Room for all of it: bytes that grow leave copies of their beginning behind, and these may be secret.
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        bytes.push((digit(pair[0])? << 4) | digit(pair[1])?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(read("00ffA5"), Some(vec![0, 255, 0xA5]));
        assert_eq!(shown(&[0, 255, 0xA5]), "00ffa5");
        let long = read(&"5a".repeat(33)).expect("reads");
        assert_eq!((long.len(), long.capacity()), (33, 33));
        assert_eq!((read("0"), read("0g"), read("é")), (None, None, None));
    }
}
