"""What `pqlab setup` asks, and what an answer may be. Answers come from options, a TOML file, a terminal."""

from __future__ import annotations

import re
import socket
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pqevidence.errors import UsageError
from pqevidence.paths import shown
from pqlab.inventory import DETECTORS, PLACEHOLDER

Answers = dict[str, str]
POWER = ("none", "ina219", "hwmon", "pmic")
PLATFORMS = ("linux", "windows")
RINGS = ("hardware", "lab")
#: an address or name that neither ssh nor an inventory takes for something else
_ADDRESS = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:%_-]*")
_USER = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.\\@-]*")
#: any port: the socket is connected, so that the kernel chooses a way, and nothing is sent
_ANY_PORT = 9


@dataclass(frozen=True)
class Question:
    """One thing to know. default: from the answers before it; without one it must be answered."""

    key: str
    text: str
    allowed: Callable[[str], bool]
    expected: str
    default: Callable[[Answers], str | None] | None = None

    @property
    def option(self) -> str:
        """As it is given on the command line."""
        return "--" + self.key.replace("_", "-")

    def checked(self, value: str, origin: str) -> str:
        """The answer. Raises UsageError (exit 2) naming where it was given."""
        if not self.allowed(value) or value.startswith(PLACEHOLDER):
            raise UsageError(
                "bad-answer",
                f"{origin} {value!r} will not do",
                f"it is {self.expected}",
                f"correct {origin}: {self.text}",
            )
        return value


def _address(value: str) -> bool:
    return _ADDRESS.fullmatch(value) is not None


def _user(value: str) -> bool:
    return _USER.fullmatch(value) is not None


def _one_of(words: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda value: value in words


def _detectors(value: str) -> bool:
    return value == "none" or all(name in DETECTORS for name in value.split(","))


def own_address(towards: str) -> str | None:
    """This machine's address on the way to a host; None where there is no way or no such name."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(towards, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError:
        return None


QUESTIONS = (
    Question("drone", "the drone's address on the management network", _address, "an address or host name"),
    Question("drone_user", "a user there who may sudo", _user, "a user name"),
    Question(
        "drone_link", "the drone's address on the measured link", _address, "an address or host name",
        lambda known: known["drone"],
    ),
    Question(
        "power", f"the power sensor: {', '.join(POWER)}", _one_of(POWER), f"one of {', '.join(POWER)}",
        lambda _known: "ina219",
    ),
    Question(
        "detectors", f"detectors on the drone, of {', '.join(DETECTORS)}, with commas; or none", _detectors,
        f"none, or some of {', '.join(DETECTORS)}, separated by commas", lambda _known: "xgboost,tst",
    ),
    Question(
        "gcs", "the ground station's address on the management network", _address, "an address or host name"
    ),
    Question(
        "gcs_platform", f"the ground station's system: {', '.join(PLATFORMS)}", _one_of(PLATFORMS),
        f"one of {', '.join(PLATFORMS)}", lambda _known: "linux",
    ),
    Question(
        "gcs_user", "a user there who may sudo; on Windows an administrator", _user, "a user name",
        lambda known: known["drone_user"],
    ),
    Question(
        "gcs_link", "the ground station's address on the measured link", _address, "an address or host name",
        lambda known: known["gcs"],
    ),
    Question(
        "controller", "this machine's address, as both see it", _address, "an address or host name",
        lambda known: own_address(known["drone"]),
    ),
    Question(
        "ring", f"the ring that is claimed: {', '.join(RINGS)}", _one_of(RINGS), f"one of {', '.join(RINGS)}",
        lambda _known: "hardware",
    ),
)  # fmt: skip


def from_file(path: Path) -> Answers:
    """Answers of a TOML file, `drone = "192.0.2.10"`. Raises UsageError (exit 2)."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            "no-answers", f"cannot read {shown(path)}", str(error.strerror), "--answers FILE"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            "bad-answers", f"{shown(path)} is no TOML", str(error), 'a line is written drone = "192.0.2.10"'
        ) from error
    known = {question.key: question for question in QUESTIONS}
    for key, value in document.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            raise UsageError(
                "bad-answers",
                f"{shown(path)}: nothing is asked that is named {key!r}",
                f"known are {', '.join(known)}",
                f"did you mean {near[0]}?" if near else "take it out",
            )
        if not isinstance(value, str):
            raise UsageError(
                "bad-answers",
                f"{shown(path)}: {key} = {value!r} is no text",
                "every answer is one",
                f'write {key} = "…"',
            )
        known[key].checked(value, f"{shown(path)}: {key}")
    return dict(document)


def complete(given: Mapping[str, str], ask: Callable[[str], str] | None) -> Answers:
    """All answers: what was given, then what `ask` says to a prompt, then defaults.

    ask: None where nobody is there to be asked. Raises UsageError (exit 2) for an answer that will not do or,
    unasked, for what is missing.
    """
    if ask is None:
        _require([row for row in QUESTIONS if row.default is None and row.key not in given])
    answers: Answers = {}
    for question in QUESTIONS:
        default = question.default(answers) if question.default is not None else None
        if question.key in given:
            answers[question.key] = question.checked(given[question.key], question.option)
        elif ask is not None:
            answers[question.key] = _asked(question, default, ask)
        elif default is not None:
            answers[question.key] = default
        else:
            _require([question])
    return answers


def _require(missing: list[Question]) -> None:
    if missing:
        raise UsageError(
            "unanswered",
            f"not known: {', '.join(question.option for question in missing)}",
            "nobody is here to be asked (no terminal)",
            "give them as options, or as a TOML file: --answers FILE",
        )


def _asked(question: Question, default: str | None, ask: Callable[[str], str]) -> str:
    """One answer; asked again until it will do. Enter takes the default."""
    prompt = f"{question.text}{f' [{default}]' if default else ''}: "
    while True:
        said = ask(prompt).strip() or (default or "")
        if question.allowed(said) and not said.startswith(PLACEHOLDER):
            return said
        prompt = f"{said or 'nothing'} will not do, it is {question.expected}: "
