"""The Rust handshake beside the Python one, which is the specification: equal bytes, keys and refusals."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import transcript_vectors
from core_kit import CountingRng, Lab, deliver, stream
from link_kit import Refused, fields, old_of, pair_of, program, rust_machine, spec
from transcript_vectors import CASES, ED25519_GCS, OLD_SESSION, REKEY, SIGNED, Case

from pqspec.handshake.machine import HandshakeMachine
from pqspec.shell.stream import FrameStream, converse
from pqtunnel import suites
from pqtunnel.errors import HandshakeError, SuiteUnknown
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk, GcsIdentity, GcsPublicIdentity
from pqtunnel.primitives import AeadProvider, KemKeyPair, KemProvider, Primitives, SigProvider
from pqtunnel.suites import Suite, get
from pqtunnel.trace import Tracer
from pqtunnel.wire import ALERT_FRAME

NINE = [
    f"cs-{kem}-aesgcm-{sig}"
    for level, kems in {
        "mldsa44": ("mlkem512", "hqc128", "classicmceliece348864"),
        "mldsa65": ("mlkem768", "hqc192", "classicmceliece460896"),
        "falcon1024": ("mlkem1024", "hqc256", "classicmceliece8192128"),
    }.items()
    for kem, sig in ((kem, level) for kem in kems)
]
"""One suite of each KEM family and level."""


def test_registries_are_equal() -> None:
    told = subprocess.run([program("oracle"), "registry"], capture_output=True, text=True, check=True).stdout
    expected = {
        (
            f"{s.id} {s.wire_code.hex()} {s.level} {s.kem.public_key_bytes} {s.kem.ciphertext_bytes} "
            f"{s.kem.shared_secret_bytes} {s.sig.public_key_bytes} {s.sig.signature_bytes} "
            f"{s.crypto_allowance_s:.0f}"
        )
        for s in suites.ALL.values()
        if not s.is_plain
    }
    mine = {line for line in told.splitlines() if re.match(r"xs-hqc\d+v5-", line)}
    assert set(told.splitlines()) - mine == expected
    assert len(mine) == 24, "the newer HQC, which the lab does not know"


@pytest.mark.parametrize(
    ("kem", "sig"), [("hqc128v5", "mldsa44"), ("hqc192v5", "mldsa65"), ("hqc256v5", "mldsa87")]
)
def test_the_lab_knows_no_suite_of_the_newer_hqc(kem: str, sig: str) -> None:
    with pytest.raises(SuiteUnknown):
        suites.get(f"xs-{kem}-aesgcm-{sig}")


# ---------------------------------------------------------------------- vectors


class Recording(transcript_vectors.CapturedPrimitives):
    """The vectors' own primitives, whose results are kept in order."""

    made: list[tuple[str, Any]]

    def __init__(self) -> None:
        super().__init__()
        type(self).made = []

    def kem(self, token: str) -> KemProvider:
        kem, made = super().kem(token), self.made

        class Kept:
            def generate(self) -> KemKeyPair:
                pair = kem.generate()
                made.append(("pair", pair_of(pair.public, pair.secret)))
                return pair

            def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
                ciphertext, shared = kem.encapsulate(public)
                made.append(("encaps", pair_of(ciphertext, shared)))
                return ciphertext, shared

            def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
                return kem.decapsulate(pair, ciphertext)

        return Kept()

    def sig(self, token: str) -> SigProvider:
        sig, made = super().sig(token), self.made

        class Kept:
            def generate(self) -> tuple[bytes, bytes]:
                pair = sig.generate()
                made.append(("signing", pair))
                return pair

            def sign(self, secret: bytes, message: bytes) -> bytes:
                signature = sig.sign(secret, message)
                made.append(("signature", signature.hex()))
                return signature

            def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
                return sig.verify(public, message, signature)

        return Kept()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem.removeprefix("transcript-"))
def test_the_vectors_come_out_byte_for_byte(
    case: Case, native: Primitives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_vectors, "CapturedPrimitives", Recording)
    vector, suite = transcript_vectors.build(case), get(case.suite_id)
    assert vector == json.loads(case.path.read_text("utf-8")), "the recorded run is the vector's"
    of = {name: [value for kind, value in Recording.made if kind == name] for name, _ in Recording.made}
    signing = of.get("signing") or [(bytes.fromhex(vector["gcs_signing_public_key"]), ED25519_GCS)]
    psk = DronePsk(bytes.fromhex(vector["drone_key_id"]), bytes.fromhex(vector["psk"]))
    token = suite.sig.token
    identity = GcsIdentity(GcsPublicIdentity({token: signing[0][0]}), {token: signing[0][1]})
    signs, rekeys = case.variant == SIGNED, case.variant == REKEY
    old = old_of(OLD_SESSION, psk.key_id) if rekeys else None

    def gcs_spec(held: str | None) -> list[str]:
        return spec(
            psk,
            identity,
            secret=True,
            suite=suite.id,
            nonce=stream(b"gcs nonce", 32),
            index=0x600C57,
            old=held,
            pair=of["pair"][0],
            signature=of["signature"][0],
            drone_key=signing[1][0] if signs else None,
        )

    drone_spec = spec(
        psk,
        identity,
        secret=False,
        suite=suite.id,
        nonce=stream(b"drone nonce", 32),
        index=0x00D207,
        epoch=7,
        old=old,
        encaps=of["encaps"][0],
        sign=signing[1][1] if signs else None,
        signature=of["signature"][1] if signs else None,
    )
    field, frames = transcript_vectors._field, vector["frames"]
    with rust_machine() as drone, rust_machine() as gcs:
        challenge = gcs.begin("gcs", gcs_spec(old))
        assert challenge.hex() == frames["challenge"]
        assert drone.begin("drone", drone_spec) == b""
        hello = drone.frame(challenge)
        assert hello.hex() == frames["hello"]
        if rekeys:
            gcs.begin("gcs", gcs_spec(None))
            with pytest.raises(Refused) as refused:
                gcs.frame(hello)
            assert refused.value.answer.hex() == frames["session_unknown"]
            drone.begin("drone", drone_spec)
            drone.frame(challenge)
            with pytest.raises(Refused) as unknown:
                drone.frame(refused.value.answer)
            assert unknown.value.reason == "SessionUnknown"
            gcs.begin("gcs", gcs_spec(old))
            drone.begin("drone", drone_spec)
            drone.frame(challenge)
        server_hello = gcs.frame(hello)
        assert field(server_hello) == frames["server_hello"]
        client_kem = drone.frame(server_hello)
        assert field(client_kem) == frames["client_kem"]
        finished = gcs.frame(client_kem)
        assert finished.hex() == frames["gcs_finished"]
        assert drone.frame(finished) == b""
        for end, mine, theirs in ((drone, "drone", "gcs"), (gcs, "gcs", "drone")):
            keys = end.established
            assert (keys["send_key"], keys["send_iv"]) == (vector[f"{mine}_key"], vector[f"{mine}_iv"])
            assert (keys["receive_key"], keys["receive_iv"]) == (
                vector[f"{theirs}_key"],
                vector[f"{theirs}_iv"],
            )
            for name in ("session_id", "rekey_secret", "exporter"):
                assert keys[name] == vector[name]


# ---------------------------------------------------------------------- over TCP, one end each


def _same(rust: dict[str, str], python: Established) -> None:
    assert rust["suite"] == python.suite.id
    assert rust["send_key"] == python.keys.receive_key.hex()
    assert rust["send_iv"] == python.keys.receive_iv.hex()
    assert rust["receive_key"] == python.keys.send_key.hex()
    assert rust["receive_iv"] == python.keys.send_iv.hex()
    assert rust["rekey_secret"] == python.rekey_secret.hex()
    assert rust["exporter"] == python.exporter.hex()
    assert rust["session_id"] == python.session_id.hex()
    assert rust["handshake_id"] == python.handshake_id
    assert (int(rust["rx_index"]), int(rust["tx_index"])) == (python.tx_index, python.rx_index)


def _python_end(sock: socket.socket, machine: Any) -> Established:
    converse(FrameStream(sock, time.monotonic_ns()), machine, Tracer())
    assert machine.established is not None
    result: Established = machine.established
    return result


def _rust_drone(lab: Lab, suite: Suite) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        machine = spec(lab.psk, lab.identity, secret=False, suite=suite.id, index=77, epoch=3)
        address = "{}:{}".format(*server.getsockname())
        arguments = [program("oracle"), "drone", address, "1", *machine]
        rust = pool.submit(subprocess.run, arguments, capture_output=True, text=True, timeout=90)
        server.settimeout(20)
        sock, _ = server.accept()
        with sock:
            python = _python_end(sock, lab.gcs())
        words = rust.result().stdout.split()
    assert words and words[0] == "done", words
    _same(fields(words), python)
    assert python.epoch == 3


def _rust_gcs(lab: Lab, suite: Suite) -> None:
    machine = spec(lab.psk, lab.identity, secret=True, suite="72", index=78)
    arguments = [program("oracle"), "gcs", "127.0.0.1:0", "1", *machine]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as rust:
        assert rust.stdout is not None
        host, port = rust.stdout.readline().split()[1].split(":")
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            python = _python_end(sock, lab.drone(suite))
        words = rust.stdout.read().split()
    assert words and words[0] == "done", words
    _same(fields(words), python)


@pytest.mark.parametrize("direction", [_rust_drone, _rust_gcs], ids=["rust-drone", "rust-gcs"])
@pytest.mark.parametrize("suite_id", NINE)
def test_one_end_rust_the_other_python(
    suite_id: str, direction: Callable[[Lab, Suite], None], native: Primitives
) -> None:
    suite = get(suite_id)
    direction(Lab(primitives=native, sig_tokens=[suite.sig.token]), suite)


@pytest.mark.skipif(
    not os.environ.get("PQ_ALL_SUITES"),
    reason="a minute of SPHINCS+ signatures and McEliece keys: PQ_ALL_SUITES=1",
)
@pytest.mark.parametrize("direction", [_rust_drone, _rust_gcs], ids=["rust-drone", "rust-gcs"])
@pytest.mark.parametrize("suite_id", suites.SUITES)
def test_each_of_the_72_between_rust_and_python(
    suite_id: str, direction: Callable[[Lab, Suite], None], native: Primitives
) -> None:
    suite = get(suite_id)
    direction(Lab(primitives=native, sig_tokens=[suite.sig.token]), suite)


def test_a_refusal_reaches_the_other_end_by_its_alert(native: Primitives) -> None:
    lab = Lab(primitives=native, sig_tokens=["mldsa65"])
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        stranger = spec(
            DronePsk(lab.psk.key_id, bytes(32)),
            lab.identity,
            secret=False,
            suite="cs-mlkem768-aesgcm-mldsa65",
            index=1,
            epoch=0,
        )
        address = "{}:{}".format(*server.getsockname())
        arguments = [program("oracle"), "drone", address, "1", *stranger]
        rust = pool.submit(subprocess.run, arguments, capture_output=True, text=True, timeout=30)
        server.settimeout(20)
        sock, _ = server.accept()
        with sock:
            with pytest.raises(HandshakeError) as refused:
                _python_end(sock, lab.gcs())
            sock.sendall(bytes.fromhex("1f000000"))
        assert rust.result().stdout.split()[:3] == ["refused", "PeerAlert", "hs_alert"]
    assert refused.value.counter == "hs_bad_mac"


# ---------------------------------------------------------------------- altered messages, both machines alike


class Given:
    """Primitives with the ephemeral results of one conversation, so that it can be had again."""

    def __init__(self, native: Primitives) -> None:
        self._native = native
        self.pair: tuple[bytes, bytes] | None = None
        self.encapsulated: tuple[bytes, bytes] | None = None
        self.signature: bytes | None = None

    def kem(self, token: str) -> KemProvider:
        kem, given = self._native.kem(token), self

        class Kem:
            def generate(self) -> KemKeyPair:
                if given.pair is None:
                    made = kem.generate()
                    given.pair = (made.public, bytes(made.secret))
                return KemKeyPair(given.pair[0], bytearray(given.pair[1]))

            def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
                if given.encapsulated is None:
                    ciphertext, shared = kem.encapsulate(public)
                    given.encapsulated = (ciphertext, bytes(shared))
                return given.encapsulated[0], bytearray(given.encapsulated[1])

            def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
                return kem.decapsulate(pair, ciphertext)

        return Kem()

    def sig(self, token: str) -> SigProvider:
        sig, given = self._native.sig(token), self

        class Sig:
            def generate(self) -> tuple[bytes, bytes]:
                return sig.generate()

            def sign(self, secret: bytes, message: bytes) -> bytes:
                if given.signature is None:
                    given.signature = sig.sign(secret, message)
                return given.signature

            def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
                return sig.verify(public, message, signature)

        return Sig()

    def aead(self, token: str) -> AeadProvider:
        return self._native.aead(token)


def _altered(frame: bytes, rng: random.Random, count: int) -> list[bytes]:
    """Each bit of the first 12 bytes, `count` bits of the rest, cut short, and an alert instead."""
    bits = [*range(8 * 12), *(rng.randrange(8 * 12, 8 * len(frame)) for _ in range(count))]
    flipped = []
    for bit in bits:
        changed = bytearray(frame)
        changed[bit // 8] ^= 1 << bit % 8
        flipped.append(bytes(changed))
    return [*flipped, frame[:4], frame[:-1], frame[: len(frame) // 2], ALERT_FRAME]


def _python_says(machine: HandshakeMachine, frames: list[bytes]) -> str:
    machine.start()
    try:
        for frame in frames:
            deliver(machine, frame)
    except HandshakeError as error:
        return error.counter
    return "accepted"


def test_altered_messages_are_refused_by_the_same_name(native: Primitives) -> None:
    suite = get("cs-mlkem512-aesgcm-mldsa44")
    given = Given(native)
    lab = Lab(primitives=given, sig_tokens=["mldsa44"])
    nonces = {role: CountingRng(role.encode())(32) for role in ("drone", "gcs")}

    def python(role: str) -> HandshakeMachine:
        return lab.drone(suite) if role == "drone" else lab.gcs()

    drone, gcs = python("drone"), python("gcs")
    drone.start()
    challenge = b"".join(gcs.start())
    hello = b"".join(deliver(drone, challenge))
    server_hello = b"".join(deliver(gcs, hello))
    client_kem = b"".join(deliver(drone, server_hello))
    finished = b"".join(deliver(gcs, client_kem))
    assert given.pair and given.encapsulated and given.signature
    common: dict[str, object] = {"suite": suite.id, "epoch": 0}
    machines = {
        "drone": spec(
            lab.psk,
            lab.identity,
            secret=False,
            nonce=nonces["drone"],
            index=0xD0D0D0,
            encaps=pair_of(*given.encapsulated),
            **common,
        ),
        "gcs": spec(
            lab.psk,
            lab.identity,
            secret=True,
            nonce=nonces["gcs"],
            index=0x6C6C6C,
            pair=pair_of(*given.pair),
            signature=given.signature.hex(),
            **common,
        ),
    }
    conversations = {"drone": [challenge, server_hello, finished], "gcs": [hello, client_kem]}
    rng, seen = random.Random(20261124), set()
    with rust_machine() as rust:
        for role, frames in conversations.items():
            assert _python_says(python(role), frames) == "accepted"
            for place, frame in enumerate(frames):
                wrong_role = conversations["gcs" if role == "drone" else "drone"][0]
                for changed in [*_altered(frame, rng, 300), wrong_role, *frames[:place]]:
                    expected = _python_says(python(role), [*frames[:place], changed])
                    rust.begin(role, machines[role])
                    for before in frames[:place]:
                        rust.frame(before)
                    try:
                        rust.frame(changed)
                        told = "accepted"
                    except Refused as error:
                        told = error.counter
                    assert told == expected, (role, place, changed[:16].hex())
                    seen.add(told)
                    if told != "accepted":
                        assert not rust.established
                        with pytest.raises(Refused, match="Ended"):
                            rust.frame(frame)
    refusals = ("bad_length", "bad_version", "bad_mac", "policy", "bad_signature", "bad_finished", "alert")
    assert seen == {"accepted", *(f"hs_{name}" for name in refusals)}
