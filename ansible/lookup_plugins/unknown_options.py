"""Names given with -e that nothing here has: Ansible itself would take a misspelt one and never use it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible import constants
from ansible.plugins.loader import become_loader, connection_loader, shell_loader
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars

DOCUMENTATION = """
name: unknown_options
short_description: Names given with -e that no playbook or role here has
description:
  - Known are the names in options.yml beside the playbooks, the options in the roles' argument specs,
    Ansible's own variables, and whatever the inventory's file itself names.
options: {}
"""
RETURN = """
_list:
  description: One dict for each unknown name, with C(name) and C(nearest), which is empty where none is near.
  type: list
  elements: dict
"""

#: part of a name's letters that another one must share to be called near
NEAR = 0.6
_WAYS = {"connection": connection_loader, "become": become_loader, "shell": shell_loader}
_INTERPRETER = re.compile(r"ansible_\w+_interpreter")


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible comes without types
    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **options: Any
    ) -> list[dict[str, str]]:
        """Terms: files of the inventory. Raises OSError where a file of the playbooks cannot be read."""
        given = sorted(load_extra_vars(self._loader))
        if not given:
            return []
        folder = Path((variables or {})["playbook_dir"])
        known = {*_options(folder / "options.yml"), *_of_roles(folder / "roles"), *_of_ansible()}
        words = {word for term in terms for word in _words(Path(term))}
        return [
            {"name": name, "nearest": next(iter(difflib.get_close_matches(name, sorted(known), 1, NEAR)), "")}
            for name in given
            if name not in known and name not in words and not _INTERPRETER.fullmatch(name)
        ]


def _options(file: Path) -> Iterator[str]:
    for names in yaml.safe_load(file.read_text(encoding="utf-8")).values():
        yield from names


def _of_roles(folder: Path) -> Iterator[str]:
    for file in folder.glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(file.read_text(encoding="utf-8"))["argument_specs"].values():
            yield from entry.get("options", {})


def _of_ansible() -> Iterator[str]:
    """What Ansible documents itself: settings that are variables too, and those of its ways to a host."""
    for names in constants.MAGIC_VARIABLE_MAPPING.values():
        yield from names
    for setting in constants.config.get_configuration_definitions().values():
        yield from (row["name"] for row in setting.get("vars") or [])
    for kind, loader in _WAYS.items():
        for plugin in loader.all(class_only=True):
            yield from constants.config.get_plugin_vars(kind, plugin._load_name)


def _words(file: Path) -> set[str]:
    """A name of the user's own is fine where the inventory uses it: a password from a vault, for instance."""
    if not file.is_file():
        return set()
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    used = [line for line in lines if line.lstrip()[:1] not in ("#", ";")]
    return {word for line in used for word in re.findall(r"\w+", line)}
