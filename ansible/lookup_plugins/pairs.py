"""The pairs of an inventory, or the one sentence that refuses them: the rules are `pqlab.pair_groups`'."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase

DOCUMENTATION = """
name: pairs
short_description: Groups pair_1 to pair_n of the inventory's file
description:
  - Reads the file as C(./pqlab run --inventory) does, by the checkout's own module, and looks at no host.
options: {}
"""
RETURN = """
_list:
  description: One dict with C(refused), a sentence or empty, and C(pairs), their names.
  type: list
  elements: dict
"""
#: what that module stands on; the standard library alone
_SOURCES = ("base", "evidence", "conduct")


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible comes without types
    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """Term: the inventory's file."""
        checkout = Path((variables or {})["playbook_dir"]).parent
        sys.path[:0] = [str(checkout / name / "src") for name in _SOURCES]
        try:
            from pqevidence.errors import UsageError
            from pqlab.inventory import load_pairs

            found = load_pairs(terms[0])
        except UsageError as error:
            return [{"refused": f"{error.what}: {error.why}; {error.hint}.", "pairs": []}]
        finally:
            del sys.path[: len(_SOURCES)]
        return [{"refused": "", "pairs": [pair.share.pair for pair in found if pair.share is not None]}]
