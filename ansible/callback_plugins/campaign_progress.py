"""Says how far a campaign is at each look that a playbook takes: cells done, how they went, time left."""

from __future__ import annotations

import json
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: campaign_progress
type: notification
short_description: How far the campaign is that a playbook waits for
description:
  - One line at each look of run-scenario.yml at the campaign, on standard error, so that what another
    callback writes on standard output stays whole.
requirements:
  - enabled in ansible.cfg, C(callbacks_enabled)
options: {}
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible comes without types
    """Hears of every look that found the campaign running."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "campaign_progress"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_retry(self, result: Any) -> None:
        """`result.result` holds what the command printed: the state that campaign.py tells."""
        said = sentence(result.result.get("stdout"))
        if said is not None:
            for line in said.splitlines():
                self._display.display(f"    campaign: {line}", stderr=True)


def sentence(stdout: object) -> str | None:
    """What campaign.py says in its document; None for what another task printed."""
    if not isinstance(stdout, str):
        return None
    try:
        document = json.loads(stdout)
    except ValueError:
        return None
    said = document.get("said") if isinstance(document, dict) else None
    return said if isinstance(said, str) else None
