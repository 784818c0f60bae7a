//! Cuts a byte stream into MAVLink frames by their framing alone: marker, length, flags (mavlink.io, "Packet
//! Serialization"). Checksums are not judged, for they need every dialect's definitions: whoever reads the frames judges
//! them. What stands between frames is dropped and counted.

const V1: u8 = 0xfe;
const V2: u8 = 0xfd;
/// Of version 2: the frame carries a signature.
const SIGNED: u8 = 0x01;
const V1_OVERHEAD_BYTES: usize = 8;
const V2_OVERHEAD_BYTES: usize = 12;
const SIGNATURE_BYTES: usize = 13;

/// What has come of a stream and is no whole frame yet.
#[derive(Default)]
pub struct Cutter {
    held: Vec<u8>,
    /// Bytes that belonged to no frame, since the beginning.
    pub dropped_bytes: u64,
}

impl Cutter {
    /// Take in what came, and hand each whole frame to `frame`, in order.
    pub fn feed(&mut self, bytes: &[u8], mut frame: impl FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(&marker) = self.held.get(start) {
            if marker != V1 && marker != V2 {
                self.dropped_bytes += 1;
                start += 1;
                continue;
            }
            let rest = &self.held[start..];
            match length(rest) {
                Some(length) if length <= rest.len() => {
                    frame(&rest[..length]);
                    start += length;
                }
                _ => break,
            }
        }
        self.held.drain(..start);
    }

    /// The line has been silent: what is begun will not be ended.
    pub fn silence(&mut self) {
        self.dropped_bytes += self.held.len() as u64;
        self.held.clear();
    }
}

/// Bytes of the frame that begins here, where enough of it is there to say.
fn length(bytes: &[u8]) -> Option<usize> {
    let payload = usize::from(*bytes.get(1)?);
    if bytes[0] == V1 {
        return Some(payload + V1_OVERHEAD_BYTES);
    }
    let is_signed = bytes.get(2)? & SIGNED != 0;
    let signature = if is_signed { SIGNATURE_BYTES } else { 0 };
    Some(payload + V2_OVERHEAD_BYTES + signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(payload: usize) -> Vec<u8> {
        let mut frame = vec![V1, payload as u8, 0, 1, 1, 0];
        frame.resize(payload + V1_OVERHEAD_BYTES, V2); // markers within a frame begin none
        frame
    }

    fn v2(payload: usize, flags: u8) -> Vec<u8> {
        let mut frame = vec![V2, payload as u8, flags, 0, 0, 1, 1, 0, 0, 0];
        let signature = if flags & SIGNED == 0 {
            0
        } else {
            SIGNATURE_BYTES
        };
        frame.resize(payload + V2_OVERHEAD_BYTES + signature, V1);
        frame
    }

    #[test]
    fn frames_come_out_whole_however_the_stream_is_cut() {
        let frames = [v2(9, 0), v1(0), v2(255, SIGNED), v1(255), v2(0, 0)];
        let noise: &[u8] = b"boot: ok\r\n";
        let mut stream = noise.to_vec();
        for frame in &frames {
            stream.extend_from_slice(frame);
        }
        stream.extend_from_slice(noise);
        for piece in [1, 2, 3, 11, 64, stream.len()] {
            let (mut cutter, mut got) = (Cutter::default(), Vec::new());
            for bytes in stream.chunks(piece) {
                cutter.feed(bytes, |frame| got.push(frame.to_vec()));
            }
            assert_eq!(got, frames, "in pieces of {piece}");
            assert_eq!(cutter.dropped_bytes, 2 * noise.len() as u64);
        }
    }

    #[test]
    fn silence_ends_a_frame_that_was_cut_off() {
        let (mut cutter, mut got) = (Cutter::default(), 0);
        cutter.feed(&v2(9, 0)[..15], |_| got += 1);
        cutter.silence();
        cutter.feed(&v1(3), |_| got += 1);
        assert_eq!((got, cutter.dropped_bytes), (1, 15));
    }
}
