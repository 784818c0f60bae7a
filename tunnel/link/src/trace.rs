//! Who is told what a machine does, step by step: for a lab that measures where a handshake's time goes.
//!
//! Steps are those of docs/PROTOCOL.md. A machine without a listener spends a comparison a step on it.

/// What a step spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A primitive.
    Crypto,
    /// Nothing: the peer is at work.
    NetworkWait,
    /// Bytes to fields and back, transcripts.
    Codec,
    /// MACs and key schedule.
    Kdf,
    /// Sending.
    Io,
}

/// Hears every step as it begins.
pub trait Trace: Send + Sync {
    /// The last step ends and this one begins.
    fn mark(&self, step: &'static str, kind: Kind);
    /// Length of what the open step made (public key, ciphertext or signature).
    fn size(&self, bytes: usize);
    /// A primitive is carried out: the counter of docs/PROTOCOL.md that grows.
    fn count(&self, counter: &'static str);
}
