"""The native handshake of one platform against that of another, both ways: one suite of each family of
KEMs and signatures.

`PQ_OTHER_ORACLE` is the other platform's oracle, a command with what it needs to run here, such as
`LOADER --library-path FOLDER ORACLE`; .ci/unit-arm64 gives that of the machine beneath the emulator.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence

import pytest
from core_kit import Lab
from link_kit import fields, program, spec

from pqtunnel.primitives import Primitives
from pqtunnel.suites import get

FAMILIES = (
    "cs-mlkem768-aesgcm-mldsa65",
    "cs-hqc128-chacha20poly1305-sphincs128s",
    "cs-classicmceliece348864-ascon128a-falcon512",
)
LIMIT_S = 300.0
"""Only ends what would hang: an emulated processor is slow."""


def _other() -> list[str]:
    command = shlex.split(os.environ.get("PQ_OTHER_ORACLE", ""))
    if not command:
        pytest.skip("PQ_OTHER_ORACLE names no oracle of another platform")
    return command


def _handshake(
    gcs: Sequence[str], drone: Sequence[str], lab: Lab, suite_id: str
) -> tuple[dict[str, str], dict[str, str]]:
    """What both ends hold after one handshake over TCP."""
    own = spec(lab.psk, lab.identity, secret=True, suite=suite_id, index=78)
    listening = [*gcs, "gcs", "127.0.0.1:0", "1", *own]
    with subprocess.Popen(listening, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[1]
            theirs = spec(lab.psk, lab.identity, secret=False, suite=suite_id, index=77, epoch=3)
            dialled = subprocess.run(
                [*drone, "drone", address, "1", *theirs], capture_output=True, text=True, timeout=LIMIT_S
            )
            words = dialled.stdout.split()
            assert words and words[0] == "done", dialled
            told = server.stdout.read().split()
        finally:
            server.kill()  # where the other end never came, it would wait for ever
    assert told and told[0] == "done", told
    return fields(told), fields(words)


@pytest.mark.parametrize("suite_id", FAMILIES)
@pytest.mark.parametrize("own_end", ["gcs", "drone"])
def test_two_platforms_agree_on_every_key(suite_id: str, own_end: str, native: Primitives) -> None:
    this, other = [program("oracle")], _other()
    gcs, drone = (this, other) if own_end == "gcs" else (other, this)
    lab = Lab(primitives=native, sig_tokens=[get(suite_id).sig.token])
    at_gcs, at_drone = _handshake(gcs, drone, lab, suite_id)
    assert at_gcs["suite"] == at_drone["suite"] == suite_id
    for sent, received in (("send", "receive"), ("receive", "send")):
        for part in ("key", "iv"):
            assert at_gcs[f"{sent}_{part}"] == at_drone[f"{received}_{part}"]
    for name in ("session_id", "rekey_secret", "exporter", "handshake_id"):
        assert at_gcs[name] == at_drone[name]
    assert len(at_gcs["send_key"]) >= 32 and at_gcs["send_key"] != at_gcs["receive_key"]
