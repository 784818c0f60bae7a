"""Bytes on the wire, the transfer model beside one that follows every packet, questions that are none."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from advise_bundle import followed_seconds

from pqevidence.advise.predict import Prediction, quantile_of
from pqevidence.advise.question import Question, excluded_families, known_families
from pqevidence.advise.radio import Radio, asked_radio, radio_of
from pqevidence.advise.transfer import handshake_seconds
from pqevidence.advise.wire import air_bytes, least_seconds, messages, pair_of, suite_of
from pqevidence.errors import UsageError
from pqtunnel import suites as registry

SLOW = Radio(800, 60, 0)
SMALL, LARGE = "cs-mlkem512-aesgcm-falcon512", "cs-classicmceliece8192128-aesgcm-mldsa87"


def test_frames_are_those_of_the_registry() -> None:
    frames = messages(registry.get("cs-mlkem768-aesgcm-mldsa65"))
    # headers 4; Challenge 65, Hello 101, ServerHello 11 + 1184 + 3309, ClientKem 36 + 1088, FinishedGcs 32
    assert [frame.size_bytes for frame in frames] == [69, 105, 4508, 1128, 36]
    assert [frame.sender for frame in frames] == ["gcs", "drone", "gcs", "drone", "gcs"]


def test_bytes_on_the_air() -> None:
    frames = [69, 105, 4508, 1128, 36]
    heads = 52 * (1 + 1 + 4 + 1 + 1) + 52 * (1 + 1 + 2 + 1 + 1)
    assert (
        air_bytes(registry.get("cs-mlkem768-aesgcm-mldsa65"), SLOW) == sum(frames) + heads + 2 * 60 + 4 * 52
    )
    small_mtu = Radio(800, 60, 0, 576)
    assert air_bytes(registry.get(LARGE), small_mtu) > air_bytes(registry.get(LARGE), SLOW)


def test_the_aead_makes_no_difference() -> None:
    ids = [f"cs-hqc128-{aead}-mldsa44" for aead in ("aesgcm", "chacha20poly1305", "ascon128a")]
    assert len({pair_of(registry.get(name)) for name in ids}) == 1
    assert len({air_bytes(registry.get(name), SLOW) for name in ids}) == 1
    assert suite_of(("hqc128", "mldsa44")).id in ids
    with pytest.raises(LookupError):
        suite_of(("hqc128", "mldsa87"))


@pytest.mark.parametrize("suite_id", [SMALL, "cs-hqc256-aesgcm-sphincs256s", LARGE])
@pytest.mark.parametrize("radio", [SLOW, Radio(6000, 15, 0), Radio(2000, 30, 0)], ids=str)
def test_without_loss_it_is_the_model_that_follows_every_packet(suite_id: str, radio: Radio) -> None:
    fast = handshake_seconds(messages(registry.get(suite_id)), radio, random.Random(1))
    followed = followed_seconds(suite_id, radio, random.Random(1))
    # the one that follows every packet also lets the router's queue run over, which costs it more
    assert 0.75 * followed < fast < 1.1 * followed
    assert fast >= least_seconds(registry.get(suite_id), radio) * 0.999


@pytest.mark.parametrize("suite_id", [SMALL, "cs-hqc192-aesgcm-mldsa65"])
def test_with_loss_the_two_are_near_each_other(suite_id: str) -> None:
    radio, rng = Radio(2000, 30, 2), random.Random(3)
    frames = messages(registry.get(suite_id))
    fast = [handshake_seconds(frames, radio, rng) for _ in range(400)]
    followed = [followed_seconds(suite_id, radio, rng) for _ in range(400)]
    assert statistics.mean(fast) == pytest.approx(statistics.mean(followed), rel=0.25)
    assert quantile_of(fast, 0.5) == pytest.approx(quantile_of(followed, 0.5), rel=0.15)


def test_more_loss_and_less_rate_take_longer() -> None:
    frames = messages(registry.get(LARGE))

    def mean_s(radio: Radio) -> float:
        rng = random.Random(4)
        return statistics.mean(handshake_seconds(frames, radio, rng) for _ in range(30))

    assert mean_s(Radio(6000, 60, 0)) < mean_s(Radio(6000, 60, 1)) < mean_s(Radio(6000, 60, 4))
    assert mean_s(Radio(800, 60, 0)) > 5 * mean_s(Radio(6000, 60, 0))


def test_a_radio_with_all_lost_does_not_hang_the_bound() -> None:
    assert least_seconds(registry.get(SMALL), Radio(32, 0, 100)) < 2


@pytest.mark.parametrize(
    ("link", "word"),
    [
        ({"up": {"rate_kbps": 32}, "down": {"rate_kbps": 64}}, "differ"),
        ({"up": {"delay_ms": 5}, "down": {"delay_ms": 5}}, "no rate"),
        (
            {
                "up": {"rate_kbps": 32, "jitter_ms": 5, "delay_ms": 9},
                "down": {"rate_kbps": 32, "jitter_ms": 5, "delay_ms": 9},
            },
            "jitter_ms",
        ),
    ],
)
def test_links_that_are_no_radio(link: object, word: str) -> None:
    assert word in str(radio_of(link))


def test_links_that_set_nothing() -> None:
    assert radio_of("none") is None and radio_of({}) is None
    side = {"rate_kbps": 800, "queue_ms": 1000, "delay_ms": 60, "loss_pct": 0, "jitter_ms": 0}
    assert radio_of({"up": side, "down": dict(side)}) == SLOW


@pytest.mark.parametrize(
    "given",
    [
        (-1, 60, 0, 1500),
        (0, 60, 0, 1500),
        (800, -1, 0, 1500),
        (800, 60, 101, 1500),
        (800, 60, 0, 100),
        (math.nan, 60, 0, 1500),
        (math.inf, 60, 0, 1500),
    ],
)
def test_what_is_no_radio_is_refused(given: tuple[float, float, float, int]) -> None:
    with pytest.raises(UsageError) as refused:
        asked_radio(*given)
    assert "./pqlab advise" in refused.value.hint


def test_a_question_allows_by_level_and_family() -> None:
    ask = Question(SLOW, 1800, 600, 3, excluded_families(["mceliece", "aesgcm"]))
    allowed = [suite.id for suite in registry.SUITES.values() if ask.allows(suite)]
    assert "cs-mlkem768-chacha20poly1305-mldsa65" in allowed and "cs-hqc256-ascon128a-mldsa87" in allowed
    assert not [name for name in allowed if "mceliece" in name or "aesgcm" in name or "512" in name]
    assert not ask.allows(registry.get("xs-x25519-aesgcm-ed25519")) and not ask.allows(registry.PLAIN)


def test_an_unknown_family_is_met_with_the_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        excluded_families(["mcelice"])
    assert refused.value.hint == "--without mceliece"
    assert "falcon" in known_families()


@pytest.mark.parametrize(("flight_s", "rekeys"), [(1800, 2), (1801, 3), (600, 0), (100, 0)])
def test_rekeys_of_a_flight(flight_s: float, rekeys: int) -> None:
    assert Question(SLOW, flight_s, 600).rekeys_count == rekeys


def test_a_prediction_is_as_wide_as_the_model_was_wrong() -> None:
    sure = Prediction([1.0], [0.0], 10.0, "a")
    assert sure.at(0.5) == sure.at(0.95) == 1.0 and sure.one.low == sure.one.high == 1.0
    unsure = Prediction([1.0], [-0.2, 0.0, 0.2], 10.0, "a")
    assert unsure.one.low == pytest.approx(math.exp(-0.2)) and unsure.one.high == pytest.approx(math.exp(0.2))
    # one radio has one error: the p95 of many is as unsure as one handshake is
    assert unsure.of_many(0.95, 20).low == pytest.approx(math.exp(-0.2))


def test_a_handshake_beyond_its_deadline_is_no_link() -> None:
    cut = Prediction([1.0] * 9 + [20.0], [0.0], 10.0, "b")
    assert cut.at(0.5) == 1.0 and math.isinf(cut.at(0.95))
    assert math.isinf(cut.of_many(0.95, 20).high)


def test_the_quantile_with_infinities() -> None:
    assert quantile_of([1.0, 2.0, 3.0], 0.5) == 2.0
    assert quantile_of([1.0, math.inf], 0.0) == 1.0
    assert math.isinf(quantile_of([1.0, math.inf], 0.5))
