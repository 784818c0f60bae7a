"""The peer moves by an answered challenge alone, whatever addresses packets claim to come from."""

from __future__ import annotations

from core_kit import CountingRng
from hypothesis import given
from hypothesis import strategies as st

from pqspec.path import CHALLENGE_EVERY_NS, CHALLENGE_VALID_NS, Address, Challenge, PathState

HOME: Address = ("198.18.2.20", 46012)
AWAY: Address = ("198.18.2.99", 4000)
OTHER: Address = ("198.18.2.20", 4001)


def path(peer: Address | None = HOME) -> PathState:
    return PathState(peer, CountingRng(b"path"))


def challenged(state: PathState, source: Address, now_ns: int) -> Challenge:
    challenge = state.on_authentic(source, True, now_ns)
    assert challenge is not None and challenge.to == source and len(challenge.token) == 8
    return challenge


def test_a_new_highest_sequence_from_elsewhere_is_challenged_there_and_moves_nothing_yet() -> None:
    state = path()
    assert state.on_authentic(HOME, True, 0) is None
    assert state.on_authentic(AWAY, False, 0) is None  # a copy or a late packet
    challenge = challenged(state, AWAY, 0)
    assert state.peer == HOME
    assert state.on_response(AWAY, challenge.token, 5)
    assert state.peer == AWAY
    assert not state.on_response(AWAY, challenge.token, 6)  # once
    assert state.on_authentic(AWAY, True, 10**9) is None


def test_only_the_token_from_the_challenged_address_moves_the_peer() -> None:
    state = path()
    assert not state.on_response(AWAY, bytes(8), 0)
    challenge = challenged(state, AWAY, 0)
    for source, token in ((OTHER, challenge.token), (HOME, challenge.token), (AWAY, bytes(8)), (AWAY, b"")):
        assert not state.on_response(source, token, 1)
    assert state.peer == HOME
    assert not state.on_response(AWAY, challenge.token, CHALLENGE_VALID_NS + 1)
    assert state.on_response(AWAY, challenge.token, CHALLENGE_VALID_NS)


def test_the_same_challenge_is_repeated_and_made_fresh_when_it_ran_out() -> None:
    state = path()
    first = challenged(state, AWAY, 0)
    assert state.on_authentic(AWAY, True, CHALLENGE_EVERY_NS - 1) is None
    assert challenged(state, AWAY, CHALLENGE_EVERY_NS) == first
    assert challenged(state, AWAY, CHALLENGE_VALID_NS) == first
    assert challenged(state, AWAY, CHALLENGE_VALID_NS + CHALLENGE_EVERY_NS).token != first.token


def test_another_candidate_voids_the_challenge_and_shares_its_rate() -> None:
    state = path()
    first = challenged(state, AWAY, 0)
    assert state.on_authentic(OTHER, True, CHALLENGE_EVERY_NS - 1) is None
    second = challenged(state, OTHER, CHALLENGE_EVERY_NS)
    assert second.token != first.token
    assert not state.on_response(AWAY, first.token, CHALLENGE_EVERY_NS)
    assert state.on_response(OTHER, second.token, CHALLENGE_EVERY_NS)
    assert state.peer == OTHER


def test_a_peer_set_from_outside_voids_the_challenge() -> None:
    state = path(None)
    challenge = challenged(state, AWAY, 0)
    state.set_peer(HOME)
    assert not state.on_response(AWAY, challenge.token, 1)
    assert state.peer == HOME


_ADDRESSES = st.sampled_from([HOME, AWAY, OTHER])
_STEPS = st.one_of(
    st.tuples(st.just("packet"), _ADDRESSES, st.booleans()),
    st.tuples(st.just("answer"), _ADDRESSES, st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([1, 10**7, 10**8, 3 * 10**9]), st.just(0)),
)


@given(st.lists(_STEPS, max_size=60))
def test_every_move_was_challenged_there_and_answered_in_time(steps: list[tuple[str, Address, int]]) -> None:
    state, now_ns, sent = path(), 0, []
    for name, value, number in steps:
        peer = state.peer
        if name == "wait":
            now_ns += int(value)  # type: ignore[arg-type]
        elif name == "packet":
            challenge = state.on_authentic(value, bool(number), now_ns)
            assert state.peer == peer
            if challenge is not None:
                assert number and value == challenge.to != peer
                assert all(now_ns - then_ns >= CHALLENGE_EVERY_NS for _, then_ns in sent)
                sent.append((challenge, now_ns))
        elif sent:
            challenge = sent[number % len(sent)][0]
            if state.on_response(value, challenge.token, now_ns):
                assert value == challenge.to == state.peer
                first_ns = min(then_ns for past, then_ns in sent if past == challenge)
                assert now_ns - first_ns <= CHALLENGE_VALID_NS
            else:
                assert state.peer == peer
