"""What a pilot types in flight: one short line, one command. A slip is answered with the nearest word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pqattack.settings import KINDS
from pqbase.documents import part_of
from pqevidence.errors import LabError, UsageError
from pqevidence.scenario.check import nearest
from pqevidence.scenario.compose import available_overlays, read_overlay
from pqlink.errors import LinkError
from pqlink.settings import Side
from pqtunnel import suites as registry
from pqtunnel.errors import SuiteUnknown

OFF: Final = "off"
#: command → what it takes, and what it does
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "suite": ("ID", "make new keys, by another suite of the 72"),
    "link": ("PROFILE | off", "send through the link router with a radio's settings, or on the direct path"),
    "attack": ("KIND | off", "ten seconds of foreign traffic, or the end of it"),
    "rekey": ("", "make new keys, by the same suite"),
    "status": ("", "what is flown now"),
    "help": ("", "this list"),
    "quit": ("", "end the session (so do Ctrl-C and the end of input)"),
}


@dataclass(frozen=True)
class Command:
    """One command; argument is empty where it takes none."""

    name: str
    argument: str = ""


def parse(line: str) -> Command | None:
    """The command of a line, None of an empty one. Raises UsageError with the nearest word."""
    words = line.split()
    if not words:
        return None
    name, rest = words[0].lower(), words[1:]
    if name not in COMMANDS:
        close = nearest(name, list(COMMANDS))
        raise UsageError(
            "no-command",
            f"there is no command `{name}`",
            f"commands: {', '.join(COMMANDS)}",
            f"did you mean `{close}`?" if close else "help",
        )
    takes, does = COMMANDS[name]
    if bool(takes) != (len(rest) == 1) or len(rest) > 1:
        wanted = f"`{name} {takes}`".replace(" `", "`")
        raise UsageError("bad-command", f"`{line.strip()}` is not {wanted}", does, wanted.strip("`"))
    return Command(name, rest[0] if rest else "")


def suite_of(name: str) -> str:
    """Id of one of the 72, older spellings accepted. Raises UsageError with the nearest."""
    try:
        suite_id = registry.get(name).id
    except SuiteUnknown as error:
        close = error.nearest or registry.nearest(name)
        hint = f"did you mean `{close}`?" if close else "./pqtunnel suites lists them"
        raise UsageError("no-suite", f"there is no suite `{name}`", "72 can be flown", hint) from error
    if suite_id not in registry.SUITES:
        raise UsageError(
            "no-suite", f"{suite_id} is not flown", "the 72 of the matrix are", "./pqtunnel suites lists them"
        )
    return suite_id


@dataclass(frozen=True)
class LinkProfile:
    """A link by name: settings of each direction."""

    name: str
    up: Side
    down: Side


def link_profiles() -> list[str]:
    """Names of the shipped overlays that say a link and nothing else."""
    return [name for name in available_overlays() if _link_block(name) is not None]


def link_of(name: str) -> LinkProfile | None:
    """The profile; None for `off`. Raises UsageError with the nearest name."""
    if name == OFF:
        return None
    known = link_profiles()
    block = _link_block(name) if name in known else None
    if block is None:
        close = nearest(name, [*known, OFF])
        raise UsageError(
            "no-link-profile",
            f"there is no link profile `{name}`",
            f"profiles: {', '.join([*known, OFF])}",
            f"did you mean `{close}`?" if close else f"name one of them, or {OFF}",
        )
    try:
        return LinkProfile(name, Side.parse(block.get("up")), Side.parse(block.get("down")))
    except LinkError as error:
        raise UsageError("link-settings", str(error), f"scenarios/overlays/{name}.yml", error.hint) from error


def _link_block(name: str) -> dict[str, object] | None:
    try:
        data = read_overlay(name, None).data
    except LabError:
        return None  # `pqlab validate` says what is wrong with it
    condition = part_of(data, "condition", {})
    block = condition.get("link")
    if set(condition) != {"link"} or not isinstance(block, dict):
        return None
    sides = [block.get(way) or {} for way in ("up", "down")]
    return None if any("trace" in side for side in sides) else block


def attack_of(name: str) -> str | None:
    """The kind; None for `off`. Raises UsageError with the nearest name."""
    if name == OFF:
        return None
    if name not in KINDS:
        close = nearest(name, [*KINDS, OFF])
        raise UsageError(
            "no-attack",
            f"there is no attack `{name}`",
            f"kinds: {', '.join([*KINDS, OFF])}",
            f"did you mean `{close}`?" if close else "docs/ATTACKS.md tells of each",
        )
    return name


def help_lines() -> list[str]:
    """One line a command."""
    width = max(len(f"{name} {takes}".strip()) for name, (takes, _) in COMMANDS.items())
    return [f"  {f'{name} {takes}'.strip():<{width}}  {does}" for name, (takes, does) in COMMANDS.items()]
