"""Two state machines driven against each other: agreement, order of checks, limits, spans."""

from __future__ import annotations

import pytest
from core_kit import FALCON, MLKEM, CountingRng, FakePrimitives, Lab, converse, deliver, make_identity
from hypothesis import given, settings
from hypothesis import strategies as st

from pqspec.handshake import PskStore
from pqtunnel import errors, wire
from pqtunnel.handshake.identity import DronePsk, GcsPublicIdentity
from pqtunnel.handshake.limits import HandshakeLimits, TokenBuckets
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.primitives import KemKeyPair
from pqtunnel.suites import SUITES, Suite
from pqtunnel.trace import DRONE_STEPS, GCS_STEPS, Tracer


@pytest.mark.parametrize("suite", [suite for suite in SUITES.values() if suite.kem.family != "mceliece"])
def test_both_ends_agree(lab: Lab, suite: Suite) -> None:
    drone, gcs = lab.handshake(suite)
    assert drone.keys.send_key == gcs.keys.receive_key and drone.keys.receive_key == gcs.keys.send_key
    assert drone.keys.send_iv == gcs.keys.receive_iv and drone.keys.receive_iv == gcs.keys.send_iv
    assert drone.keys.send_key != drone.keys.receive_key
    assert (
        len(drone.keys.send_key) == suite.aead.key_bytes and len(drone.keys.send_iv) == suite.aead.nonce_bytes
    )
    assert (drone.session_id, drone.rekey_secret, drone.exporter) == (
        gcs.session_id,
        gcs.rekey_secret,
        gcs.exporter,
    )
    assert (drone.rx_index, drone.tx_index) == (gcs.tx_index, gcs.rx_index)
    assert drone.handshake_id == gcs.handshake_id and len(drone.handshake_id) == 16
    assert drone.peer_key_id == lab.identity.public.key_id and gcs.peer_key_id == lab.psk.key_id
    assert drone.suite is gcs.suite is suite


def test_counts_of_a_good_handshake(lab: Lab) -> None:
    lab.handshake()
    assert lab.drone_counters == {"hs_started": 1, "hs_verifies": 1, "hs_encaps": 1, "hs_completed": 1}
    assert lab.gcs_counters == {
        "hs_started": 1,
        "hs_keygens": 1,
        "hs_signatures": 1,
        "hs_decaps": 1,
        "hs_completed": 1,
    }


def test_epoch_travels_in_hello(lab: Lab) -> None:
    drone, gcs = lab.drone(epoch=0xFFFF_FFFE), lab.gcs()
    converse(drone, gcs)
    assert gcs.established is not None and gcs.established.epoch == 0xFFFF_FFFE


def test_fresh_randomness_gives_fresh_keys(lab: Lab) -> None:
    first, _ = lab.handshake()
    drone, gcs = lab.drone(rng=CountingRng(b"other")), lab.gcs()
    converse(drone, gcs)
    assert drone.established is not None
    assert drone.established.keys.send_key != first.keys.send_key


def test_floor_is_kept_at_both_ends(lab: Lab) -> None:
    drone = lab.drone(FALCON, min_level=3)
    with pytest.raises(errors.PolicyRefused):
        drone.start()
    assert lab.drone_counters["hs_policy"] == 1
    with pytest.raises(errors.PolicyRefused, match="floor"):
        converse(lab.drone(FALCON), lab.gcs(min_level=3))
    assert lab.gcs_counters["hs_policy"] == 1 and "hs_keygens" not in lab.gcs_counters


def test_another_suite_than_prepared_is_refused(lab: Lab) -> None:
    with pytest.raises(errors.PolicyRefused, match="prepared"):
        converse(lab.drone(FALCON), lab.gcs(accepted={MLKEM.id}))
    assert lab.gcs_counters["hs_policy"] == 1 and "hs_keygens" not in lab.gcs_counters


def test_unpinned_gcs_is_refused_before_anything_is_said(lab: Lab) -> None:
    other = make_identity(FakePrimitives(b"other"))
    with pytest.raises(errors.PolicyRefused, match="not pinned"):
        converse(lab.drone(trusted=[other.public]), lab.gcs())
    assert lab.gcs_counters == {"hs_started": 1}


def test_two_pins_for_rotation_and_no_third(lab: Lab) -> None:
    others = [make_identity(FakePrimitives(seed)).public for seed in (b"a", b"b")]
    converse(lab.drone(trusted=[others[0], lab.identity.public]), lab.gcs())
    with pytest.raises(errors.PolicyRefused):
        converse(lab.drone(trusted=[*others, lab.identity.public]), lab.gcs())


def test_right_pin_wrong_signing_key(lab: Lab) -> None:
    # A GCS that claims the pinned id and holds other keys: the signature decides.
    class Impostor(FakePrimitives):
        pass

    fake = Impostor(b"impostor")
    impostor = make_identity(fake)
    gcs = lab.gcs()
    gcs._identity = type(lab.identity)(impostor.public, impostor.secrets)
    drone = lab.drone()
    drone.start()
    challenge = wire.Challenge(1, bytes(32), lab.identity.public.key_id).encode()
    gcs.start()
    gcs._challenge_frame = challenge
    hello = b"".join(deliver(drone, challenge))
    answer = b"".join(deliver(gcs, hello))
    with pytest.raises(errors.BadSignature):
        deliver(drone, answer)
    assert lab.drone_counters["hs_bad_signature"] == 1 and "hs_encaps" not in lab.drone_counters


def test_unknown_id_and_wrong_psk_look_alike(lab: Lab) -> None:
    outcomes = []
    for psk in (DronePsk(b"stranger", lab.psk.psk), DronePsk(lab.psk.key_id, bytes(32))):
        with pytest.raises(errors.BadMac) as caught:
            converse(lab.drone(psk=psk), lab.gcs())
        outcomes.append((type(caught.value), caught.value.counter, caught.value.send_alert))
    assert outcomes[0] == outcomes[1]
    assert lab.gcs_counters["hs_bad_mac"] == 2 and "hs_keygens" not in lab.gcs_counters


def test_psk_store_does_equal_work_for_unknown_ids() -> None:
    store = PskStore([DronePsk(b"12345678", bytes(32))])
    assert store.lookup(b"nobody!!") is store.lookup(b"nobody??")
    assert store.lookup(b"nobody!!").hello != store.lookup(b"12345678").hello
    assert len(store) == 1


def test_suite_not_on_this_host(lab: Lab) -> None:
    class Partial(FakePrimitives):
        def kem(self, token: str):  # type: ignore[no-untyped-def]
            raise errors.ProviderMissing(f"{token} is not here")

    with pytest.raises(errors.UnknownSuiteOffered):
        converse(lab.drone(), lab.gcs(primitives=Partial()))
    assert lab.gcs_counters["hs_unknown_suite"] == 1
    # The offer is judged before the purpose: no session is looked up for a suite that cannot be spoken.
    asked: list[bytes] = []
    old = RekeyFrom(bytes([1]) * 16, 0, bytes(32))
    with pytest.raises(errors.UnknownSuiteOffered):
        converse(lab.drone(epoch=1, rekey=old), lab.gcs(primitives=Partial(), rekey_basis=asked.append))
    assert lab.gcs_counters["hs_unknown_suite"] == 2 and not asked


def test_primitive_failure_ends_the_handshake_with_its_cause(lab: Lab) -> None:
    class Broken(FakePrimitives):
        def kem(self, token: str):  # type: ignore[no-untyped-def]
            outer = super().kem(token)

            class Kem:
                def generate(self) -> KemKeyPair:
                    raise errors.PrimitiveFailed("no entropy")

            return Kem() if outer else outer

    with pytest.raises(errors.HandshakeError) as caught:
        converse(lab.drone(), lab.gcs(primitives=Broken()))
    assert isinstance(caught.value.__cause__, errors.PrimitiveFailed)
    assert lab.gcs_counters["hs_failed"] == 1


def test_ephemeral_secret_is_erased(lab: Lab) -> None:
    made: list[KemKeyPair] = []
    kem = lab.primitives.kem(MLKEM.kem.token)
    original = kem.generate

    def generate() -> KemKeyPair:
        made.append(original())
        return made[-1]

    kem.generate = generate  # type: ignore[method-assign]
    lab.handshake()
    with pytest.raises(errors.BadFinished):
        lab.handshake(
            tamper=lambda sender, frame: flip(frame, 20) if frame[0] & 15 == wire.CLIENT_KEM else frame
        )
    assert len(made) == 2 and all(not any(pair.secret) for pair in made)


def flip(frame: bytes, position: int) -> bytes:
    changed = bytearray(frame)
    changed[position] ^= 1
    return bytes(changed)


def test_ended_machine_refuses_to_go_on(lab: Lab) -> None:
    gcs = lab.gcs()
    with pytest.raises(errors.SessionError):
        gcs.on_header(b"\x12\x00\x00\x65")
    gcs.start()
    with pytest.raises(errors.BadLength):
        gcs.on_header(b"\x12\x00\x00\x00")
    with pytest.raises(errors.SessionError):
        gcs.on_header(b"\x12\x00\x00\x65")
    assert lab.gcs_counters["hs_bad_length"] == 1 and gcs.error is not None


def test_body_must_be_what_the_header_announced(lab: Lab) -> None:
    gcs = lab.gcs()
    gcs.start()
    gcs.on_header(wire.frame_header(wire.HELLO, wire.HELLO_BODY_BYTES))
    with pytest.raises(errors.BadLength):
        gcs.on_body(bytes(wire.HELLO_BODY_BYTES - 1))


def test_timeout_is_counted_once(lab: Lab) -> None:
    gcs = lab.gcs()
    gcs.start()
    assert gcs.deadline_s == 5.0
    assert isinstance(gcs.fail_timeout(), errors.TimedOut)
    gcs.fail_timeout()
    assert lab.gcs_counters["hs_timeout"] == 1
    mceliece = SUITES["cs-classicmceliece8192128-aesgcm-mldsa87"]
    assert lab.drone(mceliece).deadline_s > 30


def test_alert_ends_a_handshake(lab: Lab) -> None:
    drone = lab.drone()
    drone.start()
    with pytest.raises(errors.PeerAlert) as caught:
        drone.on_header(wire.ALERT_FRAME)
    assert not caught.value.send_alert and lab.drone_counters["hs_alert"] == 1


def test_spans_cover_the_wall_and_bear_the_documented_names(lab: Lab) -> None:
    ticks = iter(range(0, 10**9, 1000))
    tracers = {
        host: Tracer(clock=lambda: next(ticks), host=host, suite_id=MLKEM.id) for host in ("drone", "gcs")
    }
    drone, gcs = lab.drone(tracer=tracers["drone"]), lab.gcs(tracer=tracers["gcs"])
    tracers["drone"].mark("connect", "io")
    converse(drone, gcs)
    for host, steps in (("drone", DRONE_STEPS), ("gcs", GCS_STEPS)):
        tracers[host].finish()
        rows = tracers[host].rows()
        wall = rows[-1]
        assert wall["step"] == "handshake" and wall["kind"] == "wall"
        assert sum(int(str(r["end_ns"])) - int(str(r["start_ns"])) for r in rows[:-1]) == int(
            str(wall["end_ns"])
        ) - int(str(wall["start_ns"]))
        assert all(steps[str(row["step"])] == row["kind"] for row in rows[:-1])
        assert {row["handshake_id"] for row in rows} == {drone.handshake_id}
    crypto = {str(row["step"]) for t in tracers.values() for row in t.rows() if row["kind"] == "crypto"}
    assert crypto == {"keygen", "sign", "verify", "encaps", "decaps"}


def test_shell_step_names_exist(lab: Lab) -> None:
    drone, gcs = lab.drone(), lab.gcs()
    drone.start()
    frame = b"".join(gcs.start())
    assert gcs.send_step == "send_challenge"
    seen = set()
    sender, receiver = gcs, drone
    while frame:
        seen.add(receiver.wait_step)
        answer = b"".join(deliver(receiver, frame))
        if answer:
            seen.add(receiver.send_step)
        frame = answer
        sender, receiver = receiver, sender  # type: ignore[assignment]
    assert seen <= {*DRONE_STEPS, *GCS_STEPS} and len(seen) == 9


def test_identity_json_round_trip_and_its_hash_is_checked(lab: Lab) -> None:
    document = lab.identity.public.to_json()
    assert GcsPublicIdentity.from_json(document).key_id == lab.identity.public.key_id
    document["key_id"] = "00" * 32
    with pytest.raises(errors.KeyMaterialError, match="hash"):
        GcsPublicIdentity.from_json(document)
    for broken in (
        {},
        None,
        {"schema": "x"},
        {**document, "keys": {"mldsa65": "zz"}},
        {**document, "keys": {"no": ""}},
    ):
        with pytest.raises(errors.KeyMaterialError):
            GcsPublicIdentity.from_json(broken)


def test_key_lengths_are_checked_when_loaded() -> None:
    for arguments in ((b"short", bytes(32)), (b"12345678", bytes(31))):
        with pytest.raises(errors.KeyMaterialError):
            DronePsk(*arguments)
    with pytest.raises(errors.KeyMaterialError):
        GcsPublicIdentity({"mldsa65": bytes(10)})
    with pytest.raises(errors.KeyMaterialError):
        GcsPublicIdentity({})


def test_secrets_do_not_print(lab: Lab) -> None:
    drone, _ = lab.handshake()
    for value in (lab.psk, lab.identity, drone):
        text = repr(value)
        assert lab.psk.psk.hex() not in text and str(lab.psk.psk) not in text
        assert str(drone.keys.send_key) not in text and drone.keys.send_key.hex() not in text


def test_half_open_bound_and_buckets() -> None:
    counters: dict[str, int] = {}
    limits = HandshakeLimits(counters, rate_per_s=10, burst=3, max_half_open=2)
    first, nobody = limits.admit("a", 0)
    second, _ = limits.admit("a", 0)
    assert nobody is None and limits.half_open == 2
    limits.admit_key(b"drone-01", first, 0)
    limits.admit_key(b"drone-01", second, 0)
    with pytest.raises(errors.HalfOpenLimit):
        limits.admit("a", 0)  # both are drones: nobody gives way
    limits.release(first)
    limits.release(second)
    with pytest.raises(errors.RateLimited):
        limits.admit("a", 0)
    slot, _ = limits.admit("b", 0)
    limits.release(slot)
    limits.admit("a", 100_000_000)
    assert counters == {"hs_half_open_limit": 1, "hs_rate_limited": 1}


def test_strangers_push_out_one_another_and_no_drone() -> None:
    limits = HandshakeLimits({}, max_half_open=4)
    drone, _ = limits.admit("drone", 0)
    limits.admit_key(b"drone-01", drone, 0)
    waiting, _ = limits.admit("other drone", 1)  # its Hello is still on the way
    crowd = [limits.admit("crowd", 2)[0] for _ in range(2)]
    for number in range(50):
        newest, victim = limits.admit("crowd", 3 + number)
        assert victim is crowd.pop(0) and victim.evicted  # the oldest of the source that holds the most
        crowd.append(newest)
    assert not drone.evicted and not waiting.evicted and limits.half_open == 4
    limits.release(crowd[0])
    limits.release(crowd[0])  # the worker of one that was evicted says so too
    assert limits.half_open == 3


def test_key_bucket_is_asked_only_after_the_mac(lab: Lab) -> None:
    asked: list[bytes] = []
    with pytest.raises(errors.BadMac):
        converse(lab.drone(psk=DronePsk(lab.psk.key_id, bytes(32))), lab.gcs(admit_key=asked.append))
    assert asked == []
    converse(lab.drone(), lab.gcs(admit_key=asked.append))
    assert asked == [lab.psk.key_id]

    def refuse(key_id: bytes) -> None:
        raise errors.RateLimited(key_id.hex())

    with pytest.raises(errors.RateLimited):
        converse(lab.drone(), lab.gcs(admit_key=refuse))
    assert lab.gcs_counters["hs_rate_limited"] == 1


def test_bucket_memory_is_bounded() -> None:
    buckets = TokenBuckets(1.0, 2)
    for name in range(10_000):
        assert buckets.take(name, name)
    assert len(buckets._buckets) <= 4096


@settings(max_examples=60)
@given(data=st.data())
def test_any_flipped_bit_anywhere_is_refused(data: st.DataObject) -> None:
    lab = Lab(sig_tokens=["mldsa65"])
    which = data.draw(
        st.sampled_from([wire.CHALLENGE, wire.HELLO, wire.SERVER_HELLO, wire.CLIENT_KEM, wire.GCS_FINISHED])
    )

    def tamper(sender: str, frame: bytes) -> bytes:
        if frame[0] & 15 != which:
            return frame
        changed = bytearray(frame)
        changed[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        return bytes(changed)

    with pytest.raises(errors.HandshakeError):
        lab.handshake(tamper=tamper)
    assert "hs_completed" not in lab.drone_counters
