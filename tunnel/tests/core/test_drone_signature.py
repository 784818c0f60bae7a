"""Drone authentication by signature: agreed at both ends, bound to the transcript, before decapsulation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from core_kit import FALCON, MLKEM, CountingRng, FakePrimitives, Lab, converse, deliver

from pqspec.handshake import DroneHandshake, GcsHandshake
from pqtunnel import errors, wire
from pqtunnel.handshake.identity import DronePsk
from pqtunnel.suites import Suite
from pqtunnel.trace import DRONE_STEPS, GCS_STEPS, Tracer


class Signers:
    """Signing keys of one drone, and their registration at the GCS."""

    def __init__(self, lab: Lab) -> None:
        pairs = {sig: lab.primitives.sig(sig).generate() for sig in ("mldsa65", "falcon512")}
        self.secret = {token: pair[1] for token, pair in pairs.items()}
        self.public = {token: pair[0] for token, pair in pairs.items()}

    def registered(self, drone_id: bytes) -> Mapping[str, bytes]:
        return self.public if drone_id == b"drone-01" else {}


@pytest.fixture
def signers(lab: Lab) -> Signers:
    return Signers(lab)


def ends(lab: Lab, signers: Signers, suite: Suite = MLKEM) -> tuple[DroneHandshake, GcsHandshake]:
    return lab.drone(suite, signing_keys=signers.secret), lab.gcs(drone_keys=signers.registered)


@pytest.mark.parametrize("suite", [MLKEM, FALCON])
def test_both_ends_agree_and_other_keys_come_out(lab: Lab, signers: Signers, suite: Suite) -> None:
    plain, _ = lab.handshake(suite)
    drone, gcs = ends(lab, signers, suite)
    converse(drone, gcs)
    assert drone.established is not None and gcs.established is not None
    assert drone.established.keys.send_key == gcs.established.keys.receive_key
    assert drone.established.session_id == gcs.established.session_id != plain.session_id
    assert lab.drone_counters["hs_signatures"] == 1 and lab.gcs_counters["hs_verifies"] == 1


@pytest.mark.parametrize("drone_signs", [True, False])
def test_ends_told_differently_refuse(lab: Lab, signers: Signers, drone_signs: bool) -> None:
    drone = lab.drone(signing_keys=signers.secret if drone_signs else None)
    gcs = lab.gcs(drone_keys=None if drone_signs else signers.registered)
    with pytest.raises(errors.PolicyRefused, match="this end is prepared for"):
        converse(drone, gcs)
    assert lab.gcs_counters["hs_policy"] == 1 and "hs_keygens" not in lab.gcs_counters


def test_unregistered_drone_and_missing_scheme(lab: Lab, signers: Signers) -> None:
    neighbour = DronePsk(b"drone-02", bytes(reversed(range(32))))
    with pytest.raises(errors.PolicyRefused, match="is registered for drone"):
        converse(
            lab.drone(psk=neighbour, signing_keys=signers.secret), lab.gcs(drone_keys=signers.registered)
        )
    del signers.public["mldsa65"]
    with pytest.raises(errors.PolicyRefused, match="is registered for drone"):
        converse(*ends(lab, signers))
    keyless = lab.drone(signing_keys={})
    with pytest.raises(errors.PolicyRefused, match="holds no"):
        keyless.start()


def test_thief_of_the_psk_alone_is_refused_before_decapsulation(lab: Lab, signers: Signers) -> None:
    other = Signers(Lab(primitives=FakePrimitives(b"thief")))
    drone = lab.drone(signing_keys=other.secret)
    with pytest.raises(errors.BadSignature):
        converse(drone, lab.gcs(drone_keys=signers.registered))
    assert lab.gcs_counters["hs_bad_signature"] == 1 and "hs_decaps" not in lab.gcs_counters


def test_holder_of_the_signing_key_without_the_psk_is_refused_first(lab: Lab, signers: Signers) -> None:
    drone = lab.drone(psk=DronePsk(lab.psk.key_id, bytes(32)), signing_keys=signers.secret)
    with pytest.raises(errors.BadMac):
        converse(drone, lab.gcs(drone_keys=signers.registered))
    assert "hs_verifies" not in lab.gcs_counters


@pytest.mark.parametrize("position", [-1, -1000, 8, -3309 - 4 - 1])
def test_altered_signature_ciphertext_or_finished_is_refused_by_the_mac(
    lab: Lab, signers: Signers, position: int
) -> None:
    def relay(sender: str, frame: bytes) -> bytes:
        if frame[0] & 15 != wire.CLIENT_KEM:
            return frame
        changed = bytearray(frame)
        changed[position] ^= 1
        return bytes(changed)

    with pytest.raises(errors.BadFinished):
        converse(*ends(lab, signers), relay)
    assert "hs_verifies" not in lab.gcs_counters and "hs_decaps" not in lab.gcs_counters


def test_signature_of_another_handshake_does_not_fit(lab: Lab, signers: Signers) -> None:
    # A drone that replays its own recorded signature with a right FinishedDrone: only the signature is old.
    recorded: list[bytes] = []
    scheme = lab.primitives.sig("mldsa65")
    original = scheme.sign

    def sign(secret: bytes, message: bytes) -> bytes:
        if secret == signers.secret["mldsa65"]:
            recorded.append(original(secret, message))
            return recorded[0]
        return original(secret, message)

    scheme.sign = sign  # type: ignore[method-assign]
    converse(*ends(lab, signers))
    again = lab.drone(signing_keys=signers.secret, rng=CountingRng(b"again"))
    with pytest.raises(errors.BadSignature):
        converse(again, lab.gcs(drone_keys=signers.registered, rng=CountingRng(b"gcs again")))


def test_flag_is_covered_by_the_hello_mac(lab: Lab, signers: Signers) -> None:
    def strip(sender: str, frame: bytes) -> bytes:
        return frame[:9] + b"\x00" + frame[10:] if frame[0] & 15 == wire.HELLO else frame

    with pytest.raises(errors.BadMac):
        converse(*ends(lab, signers), strip)


def test_lengths_with_and_without_a_signature(lab: Lab, signers: Signers) -> None:
    drone, gcs = ends(lab, signers)
    drone.start()
    answer = b"".join(deliver(gcs, b"".join(deliver(drone, b"".join(gcs.start())))))
    frame = b"".join(deliver(drone, answer))
    assert len(frame) == wire.max_frame_length(wire.CLIENT_KEM, MLKEM) + 4 + MLKEM.sig.signature_bytes
    short = frame[: -4 - MLKEM.sig.signature_bytes]
    with pytest.raises(errors.BadLength):
        gcs.on_header(wire.frame_header(wire.CLIENT_KEM, len(short) - 4))
    least, greatest = wire.body_length_bounds(wire.CLIENT_KEM, FALCON, drone_signs=True)
    assert greatest - least == FALCON.sig.signature_bytes - 1
    body = bytearray(frame[4:])
    body[-MLKEM.sig.signature_bytes - 1] ^= 1
    with pytest.raises(errors.BadLength, match="follow"):
        wire.parse_client_kem(bytes(body), MLKEM, drone_signs=True)


def test_spans_name_the_drones_signature(lab: Lab, signers: Signers) -> None:
    tracers = {host: Tracer(host=host) for host in ("drone", "gcs")}
    converse(
        lab.drone(signing_keys=signers.secret, tracer=tracers["drone"]),
        lab.gcs(drone_keys=signers.registered, tracer=tracers["gcs"]),
    )
    for host, steps in (("drone", DRONE_STEPS), ("gcs", GCS_STEPS)):
        tracers[host].finish()
        rows = tracers[host].rows()[:-1]
        names = [str(row["step"]) for row in rows]
        assert len(names) == len(set(names)) and all(steps[str(r["step"])] == r["kind"] for r in rows)
        assert {"sign", "verify"} <= set(names)
