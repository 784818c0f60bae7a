"""The inventory that answers become, and how it is put in place: nothing is overwritten without a word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pqevidence.errors import UsageError
from pqevidence.paths import shown
from pqlab.campaign.store import write_atomic
from pqlab.setup.answers import Answers

#: the inventory as it is delivered: what is filled in, and what may be overwritten
TEMPLATE = Path(__file__).with_name("inventory.txt").read_text(encoding="utf-8")
_HEAD = (
    "# Written by `./pqlab setup` from your answers. Correct it by hand, or have it written anew: --force.\n"
)
_PLACES = {
    "REPLACE_WITH_PI_ADDRESS": "drone", "REPLACE_WITH_PI_USER": "drone_user",
    "REPLACE_WITH_PI_LINK_ADDRESS": "drone_link", "REPLACE_WITH_GCS_ADDRESS": "gcs",
    "REPLACE_WITH_GCS_USER": "gcs_user", "REPLACE_WITH_GCS_LINK_ADDRESS": "gcs_link",
    "REPLACE_WITH_CONTROLLER_ADDRESS": "controller",
}  # fmt: skip
_WINDOWS_LINE = re.compile(r"^#(pqlab_platform=|ansible_connection=|ansible_shell_type=)", re.MULTILINE)


@dataclass(frozen=True)
class Written:
    """What became of the file. how: written, unchanged, or replaced; told: one sentence; kept: the file that
    holds what was there, where that was somebody's own."""

    how: str
    told: str
    kept: Path | None = None


def rendered(answers: Answers) -> str:
    """The delivered inventory with the answers in it."""
    text = TEMPLATE
    for place, key in _PLACES.items():
        text = text.replace(f"={place}\n", f"={answers[key]}\n")
    for variable, key in (("pqlab_power", "power"), ("pqlab_ring", "ring")):
        text = re.sub(rf"^{variable}=.*$", f"{variable}={answers[key]}", text, flags=re.MULTILINE)
    detectors = "" if answers["detectors"] == "none" else answers["detectors"]
    text = re.sub(r"^pqlab_detectors=.*$", f"pqlab_detectors={detectors}", text, flags=re.MULTILINE)
    if answers["gcs_platform"] == "windows":
        text = _WINDOWS_LINE.sub(r"\1", text)
    return _HEAD + text


def put(path: Path, text: str, *, force: bool) -> Written:
    """Write the inventory. Raises UsageError (exit 2) over a file that holds somebody's own values, unless
    `force`; that file is kept beside it then."""
    name = shown(path)
    try:
        before = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        write_atomic(path, text)
        return Written("written", f"wrote {name}")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "not-an-inventory",
            f"{name} is there and cannot be read",
            str(error),
            "name another file: --inventory FILE",
        ) from error
    if before == text:
        return Written("unchanged", f"{name} says this already; nothing was written")
    if before == TEMPLATE:
        write_atomic(path, text)
        return Written("replaced", f"wrote {name} over the delivered one, which held placeholders alone")
    if not force:
        raise UsageError(
            "inventory-there",
            f"{name} is there, with other values; nothing was written",
            f"these lines would change: {'; '.join(differences(before, text)) or 'comments alone'}",
            "--force writes it anew and keeps the old one beside it; --inventory FILE writes elsewhere; "
            f"./pqlab setup --check --inventory {name} tests what it says",
        )
    kept = _free(path)
    path.rename(kept)
    write_atomic(path, text)
    return Written("replaced", f"wrote {name} anew; what it said before is kept in {shown(kept)}", kept)


def differences(before: str, after: str) -> list[str]:
    """`pqlab_power=none → ina219` for each variable that changes, by section."""
    was, becomes = _values(before), _values(after)
    return [
        f"{name}={was.get(name, 'unset')} → {becomes.get(name, 'unset')}"
        for name in dict.fromkeys((*was, *becomes))
        if was.get(name) != becomes.get(name)
    ]


def _values(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip().removesuffix(":vars]").strip("[]")
        elif "=" in line and line[:1] not in "#;":
            name, _, value = line.partition("=")
            found[f"{section} {name.strip()}"] = value.strip()
    return found


def _free(path: Path) -> Path:
    """A name beside it that nothing has."""
    number = 1
    while (kept := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    return kept
