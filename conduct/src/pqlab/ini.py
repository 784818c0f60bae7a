"""Groups, host variables, `[group:vars]` and `[group:children]` of an Ansible INI inventory.

Not in scope: patterns, ranges and everything else Ansible itself does with the file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pqevidence.errors import UsageError
from pqevidence.paths import shown

ALL = "all"


@dataclass
class Group:
    """One section of the file, and what others add to it by its name."""

    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


def read(path: Path) -> dict[str, Group]:
    """The file's groups. Raises UsageError (exit 2) naming file and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # an editor of Windows may have put a mark before it
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "no-inventory",
            f"cannot read inventory {shown(path)}",
            str(error.strerror) if isinstance(error, OSError) else "it is not UTF-8 text",
            "--inventory ansible/inventories/lab.ini is the container lab",
        ) from error
    groups = _parse(text, shown(path))
    for name in groups:
        _require_no_circle(groups, name, (), shown(path))
    return groups


def _require_no_circle(groups: Mapping[str, Group], name: str, above: tuple[str, ...], file: str) -> None:
    if name in above:
        raise UsageError(
            "bad-inventory",
            f"{file}: group [{name}] is among its own children",
            f"it goes round: {' → '.join((*above, name))}",
            "take one of them out of [group:children]",
        )
    for child in groups.get(name, Group()).children:
        _require_no_circle(groups, child, (*above, name), file)


def _parse(text: str, name: str) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    section, kind = "ungrouped", "hosts"
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            if not line.endswith("]"):
                raise _bad_line(name, number, "a section is written [group]")
            section, _, suffix = line[1:-1].partition(":")
            kind = suffix or "hosts"
            if kind not in ("hosts", "vars", "children"):
                raise _bad_line(name, number, f"`:{kind}` is neither :vars nor :children")
            groups.setdefault(section, Group())
            continue
        group = groups.setdefault(section, Group())
        if kind == "children":
            group.children.append(line)
        elif kind == "vars":
            key, equals, value = line.partition("=")
            if not equals:
                raise _bad_line(name, number, "a variable is written key=value")
            group.variables[key.strip()] = value.strip().strip("'\"")
        else:
            host, variables = _host(line, name, number)
            group.hosts.setdefault(host, {}).update(variables)
    return groups


def _host(line: str, name: str, number: int) -> tuple[str, dict[str, str]]:
    try:
        host, *pairs = shlex.split(line, comments=True)
    except ValueError as error:
        raise _bad_line(name, number, str(error)) from error
    variables = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise _bad_line(name, number, f"`{pair}` is not key=value")
        variables[key] = value
    return host, variables


def _bad_line(name: str, number: int, why: str) -> UsageError:
    return UsageError(
        "bad-inventory", f"{name}:{number}: not an inventory line", why, f"correct line {number}"
    )


def hosts_of(groups: Mapping[str, Group], name: str) -> list[str]:
    """Hosts of a group and of its children, in their order."""
    group = groups.get(name, Group())
    children = (host for child in group.children for host in hosts_of(groups, child))
    return list(dict.fromkeys([*group.hosts, *children]))


def variables_of_host(groups: Mapping[str, Group], host: str) -> dict[str, str]:
    """As Ansible merges them: groups of one depth by name, the deeper one over them, the host's own last."""
    known = [name for name in groups if name == ALL or host in hosts_of(groups, name)]
    merged: dict[str, str] = {}
    for name in sorted(known, key=lambda name: (_depth(groups, name), name)):
        merged.update(groups[name].variables)
    for group in groups.values():
        merged.update(group.hosts.get(host, {}))
    return merged


def _depth(groups: Mapping[str, Group], name: str) -> int:
    """How many groups lie above it, `all` among them."""
    if name == ALL:
        return 0
    above = [_depth(groups, other) for other, group in groups.items() if name in group.children]
    return 1 + max(above, default=0)
