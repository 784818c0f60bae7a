//! What both ends' state machines share: one frame awaited at a time, refusing, counting, erasing.
//!
//! A machine owns no socket and no clock. Its shell drives it:
//!
//! ```text
//! send(start()); while !is_done() { length = on_header(read(4)); send(on_body(read(length))) }
//! ```
//!
//! and tells it by `on_time` how long the handshake has lasted. Every refusal ends the machine: its secrets are erased,
//! it gives no keys, and every later call is refused as `Ended`.

use crate::error::{HandshakeError, Reason};
use crate::established::Established;
use crate::primitives::PrimitiveError;
use crate::secret::scrub_stack;
use crate::suite::Suite;
use crate::trace::{Kind, Trace};
use crate::wire::{check_header, FrameType, HEADER_BYTES};
use std::sync::Arc;
use std::time::Duration;

/// Total time from accept or connect, before the suite's allowance.
pub const BASE_DEADLINE: Duration = Duration::from_secs(5);

/// What a role's side reads and writes of its machine.
pub struct Progress {
    pub(crate) awaited: Option<FrameType>,
    /// What may come in the awaited frame's place.
    pub(crate) alternatives: &'static [FrameType],
    pub(crate) suite: Option<Suite>,
    pub(crate) drone_signs: bool,
    pub(crate) established: Option<Established>,
    announced: Option<(FrameType, usize)>,
    answered: Option<FrameType>,
    refused: Option<Reason>,
    is_done: bool,
    trace: Option<Arc<dyn Trace>>,
}

impl Progress {
    /// A step begins.
    pub(crate) fn mark(&self, step: &'static str, kind: Kind) {
        if let Some(trace) = &self.trace {
            trace.mark(step, kind);
        }
    }

    /// A primitive's step begins, and its counter grows.
    pub(crate) fn mark_crypto(&self, step: &'static str, counter: &'static str) {
        self.mark(step, Kind::Crypto);
        self.count(counter);
    }

    /// A counter grows.
    pub(crate) fn count(&self, counter: &'static str) {
        if let Some(trace) = &self.trace {
            trace.count(counter);
        }
    }

    /// What the open step made has this length.
    pub(crate) fn size(&self, bytes: usize) {
        if let Some(trace) = &self.trace {
            trace.size(bytes);
        }
    }
}

/// One role of the handshake, inside [`Machine`].
pub trait Side {
    /// Step in which `frame` is waited for, and the step in which the answer to it is sent; `None`: what goes out first.
    fn steps(frame: Option<FrameType>) -> (&'static str, &'static str);
    /// What to send first; sets what is awaited.
    ///
    /// # Errors
    /// This end's own policy refuses.
    fn begin(&mut self, progress: &mut Progress) -> Result<Vec<u8>, HandshakeError>;
    /// The awaited frame came whole: what to send.
    ///
    /// # Errors
    /// A named refusal.
    fn handle(
        &mut self,
        progress: &mut Progress,
        frame: FrameType,
        body: &[u8],
    ) -> Result<Vec<u8>, HandshakeError>;
    /// Erase secrets that are no longer needed.
    fn wipe(&mut self);
}

/// One end of one handshake.
pub struct Machine<S: Side> {
    progress: Progress,
    base_deadline: Duration,
    pub(crate) side: S,
}

impl<S: Side> Machine<S> {
    pub(crate) fn around(side: S, suite: Option<Suite>, drone_signs: bool) -> Self {
        Self {
            progress: Progress {
                awaited: None,
                alternatives: &[],
                suite,
                drone_signs,
                established: None,
                announced: None,
                answered: None,
                refused: None,
                is_done: false,
                trace: None,
            },
            base_deadline: BASE_DEADLINE,
            side,
        }
    }

    /// Tells `trace` of every step.
    #[must_use]
    pub fn traced(mut self, trace: Arc<dyn Trace>) -> Self {
        self.progress.trace = Some(trace);
        self
    }

    /// With another total time than 5 s before the suite's allowance.
    #[must_use]
    pub fn within(mut self, base_deadline: Duration) -> Self {
        self.base_deadline = base_deadline;
        self
    }

    /// The shell waits for the peer's next frame.
    pub fn mark_waiting(&self) {
        self.progress
            .mark(S::steps(self.progress.awaited).0, Kind::NetworkWait);
    }

    /// The shell sends what the last call gave.
    pub fn mark_sending(&self) {
        self.progress
            .mark(S::steps(self.progress.answered).1, Kind::Io);
    }

    pub(crate) fn agree(&mut self, suite: Suite) {
        self.progress.suite = Some(suite);
    }

    /// What to send first, empty at the drone.
    ///
    /// # Errors
    /// This end's own policy refuses, or the machine has started before.
    pub fn start(&mut self) -> Result<Vec<u8>, HandshakeError> {
        if self.progress.awaited.is_some() || self.progress.is_done {
            let detail = "this handshake has started before";
            return Err(HandshakeError::new(Reason::Ended, detail));
        }
        self.require_unrefused()?;
        let first = self.side.begin(&mut self.progress);
        first.map_err(|error| self.refuse(error))
    }

    /// Length of the body to read next, refused before any of it need be stored.
    ///
    /// # Errors
    /// A named refusal; the machine has ended then.
    pub fn on_header(&mut self, header: [u8; HEADER_BYTES]) -> Result<usize, HandshakeError> {
        let awaited = self.require_awaited()?;
        let Progress {
            alternatives,
            suite,
            drone_signs,
            ..
        } = self.progress;
        match check_header(header, awaited, alternatives, suite, drone_signs) {
            Ok((frame, length)) => {
                self.progress.announced = Some((frame, length));
                Ok(length)
            }
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Process the awaited body; what to send, maybe nothing. At the GCS `take_established` has the keys before
    /// FinishedGcs is sent: install them first.
    ///
    /// # Errors
    /// A named refusal; the machine has ended then.
    pub fn on_body(&mut self, body: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        self.require_awaited()?;
        let answer = match self.progress.announced.take() {
            Some((frame, length)) if length == body.len() => {
                self.progress.answered = Some(frame);
                self.side.handle(&mut self.progress, frame, body)
            }
            Some((frame, length)) => {
                let got = body.len();
                let detail = format!("{frame:?} announced {length} bytes, {got} came");
                Err(HandshakeError::new(Reason::BadLength, detail))
            }
            None => {
                let detail = "a body came before its header";
                Err(HandshakeError::new(Reason::BadLength, detail))
            }
        };
        // What was derived below lies on the stack that the next call may or may not use again.
        scrub_stack();
        if answer.is_ok() && self.progress.established.is_some() {
            self.progress.is_done = true;
            self.progress.awaited = None;
            self.side.wipe();
        }
        answer.map_err(|error| self.refuse(error))
    }

    /// The handshake has lasted this long.
    ///
    /// # Errors
    /// `TimedOut` from the deadline on; the machine has ended then.
    pub fn on_time(&mut self, lasted: Duration) -> Result<(), HandshakeError> {
        if self.progress.awaited.is_none() || lasted < self.deadline() {
            return Ok(());
        }
        let (awaited, limit) = (self.progress.awaited, self.deadline().as_secs());
        let detail = format!("no {awaited:?} within {limit} s");
        Err(self.refuse(HandshakeError::new(Reason::TimedOut, detail)))
    }

    /// Total time allowed: 5 s, or what `within` said, and the suite's allowance once the suite is known.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        let allowance_s = self.progress.suite.map_or(0, |suite| suite.allowance_s());
        self.base_deadline + Duration::from_secs(allowance_s)
    }

    /// True once nothing more is awaited and the epoch was established.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.progress.is_done
    }

    /// Why it ended, where it was refused.
    #[must_use]
    pub fn refused(&self) -> Option<Reason> {
        self.progress.refused
    }

    /// The frame type that may come now.
    #[must_use]
    pub fn awaited(&self) -> Option<FrameType> {
        self.progress.awaited
    }

    /// The keys, once.
    #[must_use]
    pub fn take_established(&mut self) -> Option<Established> {
        self.progress.established.take()
    }

    /// End without a verdict of the machine's own (a lost connection): erase, await nothing.
    pub fn end(&mut self, reason: Reason) {
        self.progress.refused.get_or_insert(reason);
        self.progress.awaited = None;
        self.progress.established = None;
        self.progress.is_done = false;
        self.side.wipe();
    }

    fn refuse(&mut self, error: HandshakeError) -> HandshakeError {
        self.end(error.reason);
        error
    }

    fn require_unrefused(&self) -> Result<(), HandshakeError> {
        match self.progress.refused {
            None => Ok(()),
            Some(reason) => {
                let detail = format!("this handshake has ended: {reason:?}");
                Err(HandshakeError::new(Reason::Ended, detail))
            }
        }
    }

    fn require_awaited(&self) -> Result<FrameType, HandshakeError> {
        self.require_unrefused()?;
        self.progress.awaited.ok_or_else(|| {
            HandshakeError::new(Reason::Ended, "this handshake has ended or not started")
        })
    }
}

/// A primitive that fails refuses this handshake, and nothing else.
impl From<PrimitiveError> for HandshakeError {
    fn from(error: PrimitiveError) -> Self {
        Self::new(Reason::Failed, error.0)
    }
}
