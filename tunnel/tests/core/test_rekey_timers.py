"""Timers around rekeys: back-off, requests, and what an authentic packet makes an end do."""

from __future__ import annotations

import random

from core_kit import CountingRng
from hypothesis import given
from hypothesis import strategies as st

from pqspec.path import CHALLENGE_EVERY_NS, Address
from pqspec.session import Received
from pqspec.shell.roaming import WAITING_FRAMES, Roaming
from pqtunnel import packet
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.rekey import BACKOFF_LIMIT_NS, BACKOFF_NS, REQUEST_EVERY_NS, Backoff, Requester, parse_request
from pqtunnel.suites import get

HOME: Address = ("198.18.2.30", 46011)
AWAY: Address = ("198.18.2.99", 4000)
OTHER = get("cs-mlkem768-chacha20poly1305-mldsa65")


@given(st.integers(0, 2**64))
def test_pauses_double_up_to_eight_seconds_within_a_quarter(seed: int) -> None:
    backoff = Backoff(random.Random(seed))
    for failure in range(40):
        base_ns = min(BACKOFF_LIMIT_NS, BACKOFF_NS * 2**failure)
        assert 0.75 * base_ns <= backoff.pause_ns() <= 1.25 * base_ns
    backoff.reset()
    assert backoff.pause_ns() <= 1.25 * BACKOFF_NS


def test_two_ends_of_one_failure_do_not_try_together() -> None:
    pauses = {Backoff(random.Random(seed)).pause_ns() for seed in range(50)}
    assert len(pauses) == 50


def test_a_request_is_repeated_each_second_until_the_epoch_changes() -> None:
    requester = Requester()
    assert requester.due(3, 0) is None
    requester.ask(packet.REQUEST_ASKED, OTHER.wire_code, 3, 10)
    requester.ask(packet.REQUEST_DUE, packet.SAME_SUITE, 3, 11)  # does not take the place of what was asked
    payload = requester.due(3, 11)
    assert payload == packet.rekey_request(packet.REQUEST_ASKED, OTHER.wire_code)
    assert requester.due(3, 10 + REQUEST_EVERY_NS) is None
    assert requester.due(3, 11 + REQUEST_EVERY_NS) == payload
    assert requester.due(4, 12 + 2 * REQUEST_EVERY_NS) is None
    assert requester.due(3, 13 + 9 * REQUEST_EVERY_NS) is None


def test_requests_are_read_and_nonsense_is_not() -> None:
    asked = parse_request(packet.rekey_request(packet.REQUEST_ASKED, OTHER.wire_code))
    assert asked is not None and (asked.reason, asked.suite) == ("asked", OTHER)
    due = parse_request(packet.rekey_request(packet.REQUEST_DUE))
    assert due is not None and (due.reason, due.suite) == ("due", None)
    for nonsense in (b"", b"\x01", bytes(4), b"\x03" + bytes(3), b"\x02\xff\xff\xff", bytes(5)):
        assert parse_request(nonsense) is None


@given(st.binary(max_size=6))
def test_any_payload_is_a_request_or_nothing(payload: bytes) -> None:
    request = parse_request(payload)
    assert request is None or request.reason in ("due", "asked")


def control(kind: int, payload: bytes, *, newest: bool = True) -> Received:
    return Received(kind, payload, 0, 0, newest=newest)


def test_a_challenge_is_answered_where_it_came_from_and_moves_nothing_itself() -> None:
    roaming, counters = Roaming(HOME, CountingRng(b"r"), lambda text: None), CellCounters().data
    answers = roaming.heard(control(packet.PATH_CHALLENGE, b"8 bytes!"), AWAY, 0, counters)
    assert answers[0] == (packet.PATH_RESPONSE, b"8 bytes!", AWAY)
    assert [(kind, to) for kind, _, to in answers[1:]] == [(packet.PATH_CHALLENGE, AWAY)]
    assert roaming.peer == HOME
    token = answers[1][1]
    assert roaming.heard(control(packet.PATH_RESPONSE, token), AWAY, 1, counters) == []
    assert roaming.peer == AWAY and counters["path_changed"] == 1


def test_control_frames_of_another_length_are_ignored() -> None:
    roaming, counters = Roaming(HOME, CountingRng(b"r"), lambda text: None), CellCounters().data
    for kind, size in packet.CONTROL_BYTES.items():
        assert roaming.heard(control(kind, bytes(size + 1)), HOME, 0, counters) == []
    assert roaming.take() == [] and roaming.peer == HOME


def test_data_from_elsewhere_is_counted_and_frames_that_nobody_reads_give_way() -> None:
    roaming, counters = Roaming(HOME, CountingRng(b"r"), lambda text: None), CellCounters().data
    for number in range(3):
        roaming.heard(control(packet.DATA, b"x"), AWAY, number * CHALLENGE_EVERY_NS, counters)
    assert counters["path_new_source"] == 3
    for number in range(WAITING_FRAMES + 2):
        roaming.heard(control(packet.EPOCH_ACK, b""), HOME, number, counters)
    frames = roaming.take()
    assert counters["control_dropped"] == 2 and len(frames) == WAITING_FRAMES
    assert frames[0].monotonic_ns == 2 and roaming.take() == []
    roaming.set_peer(AWAY)
    roaming.reset()
    assert roaming.peer == AWAY
