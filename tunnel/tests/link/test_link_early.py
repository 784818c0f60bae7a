"""Retry and EarlyHello: the Rust machines beside the specification's, which were taught these two frames from
docs/PROTOCOL.md alone (early_kit). Equal keys either way round, and equal refusals."""

from __future__ import annotations

import os
import random

import pytest
from core_kit import Lab, deliver
from link_kit import Refused, RustMachine, rust_machine, spec
from test_link_handshake import NINE, _altered, _same

from early_kit import RETRY, EarlyDrone, EarlyGcs
from pqtunnel.errors import HandshakeError
from pqtunnel.primitives import Primitives
from pqtunnel.suites import get
from pqtunnel.wire import VERSION, Challenge


def given_to(lab: Lab) -> tuple[bytes, bytes]:
    """A nonce that a connection was given which is gone, and its Challenge frame."""
    nonce = os.urandom(32)
    return nonce, Challenge(VERSION, nonce, lab.identity.public.key_id).encode()


@pytest.mark.parametrize("suite_id", NINE)
def test_a_rust_station_and_a_taught_drone(suite_id: str, native: Primitives) -> None:
    suite = get(suite_id)
    lab = Lab(primitives=native, sig_tokens=[suite.sig.token])
    nonce, challenge = given_to(lab)
    drone = lab.drone(suite, kind=EarlyDrone)
    early = drone.early(challenge)
    assert len(early) == 4 + 133
    with rust_machine() as rust:
        machine = spec(lab.psk, lab.identity, secret=True, suite="72", index=78, given=nonce.hex())
        assert rust.begin("gcs", machine) != challenge
        client_kem = b"".join(deliver(drone, rust.frame(early)))
        assert deliver(drone, rust.frame(client_kem)) == []
        assert drone.established is not None and drone.established.handshake_id == nonce[:8].hex()
        _same(rust.established, drone.established)


@pytest.mark.parametrize("suite_id", NINE)
def test_a_rust_drone_and_a_taught_station(suite_id: str, native: Primitives) -> None:
    suite = get(suite_id)
    lab = Lab(primitives=native, sig_tokens=[suite.sig.token])
    _, challenge = given_to(lab)
    machine = spec(lab.psk, lab.identity, secret=False, suite=suite.id, index=77, epoch=3)
    with rust_machine() as rust:
        # Sent away: it says so, and has no keys.
        rust.begin("drone", machine)
        assert rust.frame(challenge)[:1] == b"\x12"
        with pytest.raises(Refused) as sent_away:
            rust.frame(RETRY)
        assert (sent_away.value.reason, sent_away.value.counter) == ("Retry", "hs_retry")
        assert not rust.established and not sent_away.value.answer
        # It comes back.
        early = rust.begin("drone", [*machine, f"early={challenge.hex()}"])
        gcs = lab.gcs(kind=EarlyGcs, given=challenge[5:37])
        passed_over = b"".join(gcs.start())
        server_hello = b"".join(deliver(gcs, early))
        assert rust.frame(passed_over) == b""
        finished = b"".join(deliver(gcs, rust.frame(server_hello)))
        rust.frame(finished)
        assert gcs.established is not None
        _same(rust.established, gcs.established)


def _rust_says(rust: RustMachine, machine: list[str], frame: bytes) -> str:
    rust.begin("gcs", machine)
    try:
        rust.frame(frame)
    except Refused as error:
        return error.counter
    return "accepted"


def _taught_says(gcs: EarlyGcs, frame: bytes) -> str:
    gcs.start()
    try:
        deliver(gcs, frame)
    except HandshakeError as error:
        return error.counter
    return "accepted"


def test_altered_early_hellos_are_refused_by_the_same_name(native: Primitives) -> None:
    suite = get("cs-mlkem512-aesgcm-mldsa44")
    lab = Lab(primitives=native, sig_tokens=["mldsa44"])
    nonce, challenge = given_to(lab)
    early = lab.drone(suite, kind=EarlyDrone).early(challenge)
    machine = spec(lab.psk, lab.identity, secret=True, suite=suite.id, index=78, given=nonce.hex())
    rng, seen = random.Random(20261125), set()
    with rust_machine() as rust:
        for frame in [early, *_altered(early, rng, 300), RETRY, RETRY + early]:
            told = _rust_says(rust, machine, frame)
            assert told == _taught_says(lab.gcs(kind=EarlyGcs, given=nonce), frame), frame[:40].hex()
            seen.add(told)
        # To a station that has given another nonce.
        other = spec(lab.psk, lab.identity, secret=True, suite=suite.id, index=78, given="07" * 32)
        assert _rust_says(rust, other, early) == _taught_says(lab.gcs(kind=EarlyGcs, given=b"\7" * 32), early)
    refusals = ("bad_length", "bad_version", "bad_mac", "stale_cookie", "alert")
    assert seen == {"accepted", *(f"hs_{name}" for name in refusals)}
