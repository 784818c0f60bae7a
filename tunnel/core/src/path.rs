//! Where the peer is: its address moves only after a sealed challenge sent to the new one was answered from there.
//!
//! In scope: which address is believed, and when a challenge is due. Not in scope: sealing, sockets, and whether a
//! packet is authentic, which the caller knows before it asks here. `pqspec.path` is the executable specification.

use crate::packet::Token;
use std::net::SocketAddr;

/// At most one challenge each 100 ms, whoever it goes to.
pub const CHALLENGE_EVERY_NS: i64 = 100_000_000;
/// A challenge can be answered for 3 s after it was first sent.
pub const CHALLENGE_VALID_NS: i64 = 3_000_000_000;

/// A challenge to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Only there.
    pub to: SocketAddr,
    /// What must come back from there.
    pub token: Token,
}

#[derive(Clone, Copy)]
struct Outstanding {
    challenge: Challenge,
    made_ns: i64,
}

/// The peer's address and the one challenge that may be outstanding.
#[derive(Default)]
pub struct PathState {
    peer: Option<SocketAddr>,
    outstanding: Option<Outstanding>,
    sent_ns: Option<i64>,
}

impl PathState {
    /// With the address that the configuration or the handshake gave, if any.
    #[must_use]
    pub fn new(peer: Option<SocketAddr>) -> Self {
        Self {
            peer,
            ..Self::default()
        }
    }

    /// Where everything goes.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The caller knows better: configuration, or the address of a completed handshake.
    pub fn set_peer(&mut self, peer: SocketAddr) {
        self.peer = Some(peer);
        self.outstanding = None;
    }

    /// An authentic packet came from `source`; `is_newest`: it is a new highest sequence of the newest epoch. Returns
    /// the challenge to send now. `fresh` draws a token; without one (no randomness) nothing is challenged.
    ///
    /// To one candidate the same token goes again while it is valid: a token that changed with every challenge could
    /// never be answered where the round trip is longer than the interval.
    pub fn on_authentic(
        &mut self,
        source: SocketAddr,
        is_newest: bool,
        now_ns: i64,
        fresh: impl FnOnce() -> Option<Token>,
    ) -> Option<Challenge> {
        if !is_newest || self.peer == Some(source) {
            return None;
        }
        if self
            .sent_ns
            .is_some_and(|last| now_ns - last < CHALLENGE_EVERY_NS)
        {
            return None;
        }
        let again = self.outstanding.filter(|sent| {
            sent.challenge.to == source && now_ns - sent.made_ns <= CHALLENGE_VALID_NS
        });
        let outstanding = match again {
            Some(outstanding) => outstanding,
            None => Outstanding {
                challenge: Challenge {
                    to: source,
                    token: fresh()?,
                },
                made_ns: now_ns,
            },
        };
        self.outstanding = Some(outstanding);
        self.sent_ns = Some(now_ns);
        Some(outstanding.challenge)
    }

    /// An authentic path-response came from `source`. True when it answers the outstanding challenge: the peer is
    /// there now.
    pub fn on_response(&mut self, source: SocketAddr, token: &[u8], now_ns: i64) -> bool {
        let answered = self.outstanding.is_some_and(|sent| {
            sent.challenge.to == source
                && sent.challenge.token == token
                && now_ns - sent.made_ns <= CHALLENGE_VALID_NS
        });
        if answered {
            self.peer = Some(source);
            self.outstanding = None;
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const MS: i64 = 1_000_000;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(198, 18, 2, 7), port))
    }

    struct Drawn(u8);

    impl Drawn {
        fn on(&mut self, path: &mut PathState, source: u16, now_ns: i64) -> Option<Challenge> {
            path.on_authentic(at(source), true, now_ns, || {
                self.0 += 1;
                Some([self.0; 8])
            })
        }
    }

    #[test]
    fn only_an_answered_challenge_moves_the_peer() {
        let (mut path, mut drawn) = (PathState::new(Some(at(1))), Drawn(0));
        assert_eq!(drawn.on(&mut path, 1, 0), None, "the peer itself");
        let old = path.on_authentic(at(2), false, 0, || Some([9; 8]));
        assert_eq!(old, None, "an old packet says nothing about now");
        let challenge = drawn.on(&mut path, 2, 0).expect("a new address");
        assert_eq!((challenge.to, path.peer()), (at(2), Some(at(1))));
        assert!(
            !path.on_response(at(3), &challenge.token, 1),
            "from elsewhere"
        );
        assert!(!path.on_response(at(2), &[0; 8], 1), "another token");
        assert!(!path.on_response(at(2), &challenge.token[..7], 1));
        assert_eq!(path.peer(), Some(at(1)));
        assert!(path.on_response(at(2), &challenge.token, 1));
        assert_eq!(path.peer(), Some(at(2)));
        assert!(!path.on_response(at(2), &challenge.token, 1), "only once");
    }

    #[test]
    fn a_round_trip_longer_than_the_interval_is_answered() {
        let (mut path, mut drawn) = (PathState::new(Some(at(1))), Drawn(0));
        let first = drawn.on(&mut path, 2, 0).expect("challenged");
        for tick in 1..100 {
            let sent = drawn.on(&mut path, 2, tick * 10 * MS);
            assert_eq!(sent, (tick % 10 == 0).then_some(first), "at {tick}");
        }
        assert!(path.on_response(at(2), &first.token, 2_900 * MS));
    }

    #[test]
    fn a_token_ends_and_another_candidate_replaces_it() {
        let (mut path, mut drawn) = (PathState::default(), Drawn(0));
        let first = drawn.on(&mut path, 2, 0).expect("challenged");
        let valid = drawn.on(&mut path, 2, CHALLENGE_VALID_NS);
        assert_eq!(valid, Some(first));
        let late = CHALLENGE_VALID_NS + CHALLENGE_EVERY_NS;
        assert!(!path.on_response(at(2), &first.token, CHALLENGE_VALID_NS + 1));
        let second = drawn.on(&mut path, 2, late).expect("a fresh one");
        assert_ne!(first.token, second.token);
        assert_eq!(
            drawn.on(&mut path, 3, late + MS),
            None,
            "the interval is over all"
        );
        let third = drawn.on(&mut path, 3, late + CHALLENGE_EVERY_NS);
        assert_eq!(third.map(|sent| sent.to), Some(at(3)));
        assert!(!path.on_response(at(2), &second.token, late + CHALLENGE_EVERY_NS));
        path.set_peer(at(4));
        assert!(!path.on_response(
            at(3),
            &third.expect("sent").token,
            late + CHALLENGE_EVERY_NS
        ));
        assert_eq!(path.peer(), Some(at(4)));
    }

    #[test]
    fn without_randomness_nothing_is_challenged() {
        let mut path = PathState::new(Some(at(1)));
        assert_eq!(path.on_authentic(at(2), true, 0, || None), None);
        assert!(!path.on_response(at(2), &[0; 8], 0));
        assert!(path.on_authentic(at(2), true, 0, || Some([1; 8])).is_some());
    }
}
