"""The native path state against its specification, on any sequence of packets, answers and pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_pair import pq_core
from hypothesis import given, settings
from hypothesis import strategies as st

from pqspec.path import CHALLENGE_EVERY_NS, CHALLENGE_VALID_NS, PathState

pytestmark = pytest.mark.native
ADDRESSES = [("198.18.2.20", 46012), ("198.18.2.20", 46013), ("198.18.2.21", 46012)]


def counting() -> Callable[[int], bytes]:
    """Tokens that tell their number."""
    drawn = 0

    def rng(size: int) -> bytes:
        nonlocal drawn
        drawn += 1
        return drawn.to_bytes(size, "big")

    return rng


_sources = st.sampled_from(ADDRESSES)
_steps = st.one_of(
    st.tuples(st.just("packet"), _sources, st.booleans()),
    st.tuples(st.just("answer"), _sources, st.integers(0, 4)),
    st.tuples(st.just("noise"), _sources, st.binary(max_size=10)),
    st.tuples(st.just("set_peer"), _sources),
    st.tuples(
        st.just("wait"),
        st.sampled_from(
            [1, CHALLENGE_EVERY_NS - 1, CHALLENGE_EVERY_NS, CHALLENGE_VALID_NS - 1, CHALLENGE_VALID_NS]
        ),
    ),
)


@settings(max_examples=300, deadline=None)
@given(peer=st.none() | _sources, steps=st.lists(_steps, max_size=50))
def test_any_sequence_has_the_same_outcomes(peer: Any, steps: list[Any]) -> None:
    spec, native = PathState(peer, counting()), pq_core.PathState(peer, counting())
    now_ns, tokens = 1, [bytes(8)]
    for name, *given_ in steps:
        if name == "wait":
            now_ns += given_[0]
        elif name == "set_peer":
            spec.set_peer(given_[0])
            native.set_peer(given_[0])
        elif name == "packet":
            due = spec.on_authentic(*given_, now_ns)
            assert native.on_authentic(*given_, now_ns) == due
            if due is not None:
                tokens.append(due.token)
        else:
            token = tokens[-1 - given_[1] % len(tokens)] if name == "answer" else given_[1]
            moved = spec.on_response(given_[0], token, now_ns)
            assert native.on_response(given_[0], token, now_ns) == moved
        assert native.peer == spec.peer


def test_a_generator_that_fails_is_heard_and_nothing_is_challenged() -> None:
    def broken(_size: int) -> bytes:
        raise OSError("no entropy")

    path = pq_core.PathState(ADDRESSES[0], broken)
    with pytest.raises(OSError, match="no entropy"):
        path.on_authentic(ADDRESSES[1], True, 0)
    assert not path.on_response(ADDRESSES[1], bytes(8), 0)
    assert path.peer == ADDRESSES[0]
