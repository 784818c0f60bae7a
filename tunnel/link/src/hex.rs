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
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| Some((digit(pair[0])? << 4) | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(read("00ffA5"), Some(vec![0, 255, 0xA5]));
        assert_eq!(shown(&[0, 255, 0xA5]), "00ffa5");
        assert_eq!((read("0"), read("0g"), read("é")), (None, None, None));
    }
}
