"""Events about rekeys: one now, a schedule or a policy within a window, a request of the gcs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

from pqtunnel.agent.params import Params, ParamsError
from pqtunnel.endpoint.endpoint import Endpoint
from pqtunnel.inflight import Policy


class RekeyEvents:
    """Handlers by kind of event."""

    def __init__(self, endpoint: Endpoint, temperature_c: Callable[[], float | None]) -> None:
        self._endpoint = endpoint
        self._temperature_c = temperature_c

    def table(self) -> dict[str, Callable[[Params], dict[str, object]]]:
        """Kind → handler."""
        return {
            "rekey": self._rekey,
            "rekey_schedule": self._schedule,
            "request_rekey": self._request,
            "policy": self._policy,
            "policy_input": self._policy_input,
        }

    def _rekey(self, given: Params) -> dict[str, object]:
        suite_id = given.text_or_null("suite_id")
        given.done()
        return asdict(self._endpoint.rekey(suite_id, "asked"))

    def _schedule(self, given: Params) -> dict[str, object]:
        every_s = given.number("every_s", least=0.05, most=86_400)
        count = given.whole("count", 0, least=0, most=1_000_000)
        suites = given.texts("suites")
        start_s = given.number("start_s", every_s, least=0, most=86_400)
        given.done()
        if self._endpoint.work.window_open_ns and self._endpoint.work.window is not None:
            raise ParamsError(
                "rekey_schedule: the window is open already", hint="arm the schedule before traffic_open"
            )
        self._endpoint.renewal.arm(self._endpoint.work, every_s, count or None, suites, start_s)
        return {"armed": True}

    def _policy(self, given: Params) -> dict[str, object]:
        document = given.object_or_null("policy")
        given.done()
        if document is None:
            raise ParamsError("policy: 'policy' must be an object")
        work = self._endpoint.work
        self._endpoint.renewal.fly(work, Policy.from_json(document), self._temperature_c)
        return {"armed": True}

    def _policy_input(self, given: Params) -> dict[str, object]:
        asked = given.object_or_null("values") or {}
        given.done()
        values: dict[str, float] = {}
        for name, value in asked.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ParamsError(f"policy_input: {name!r} must be a number, not {value!r:.80}")
            values[name] = value
        work = self._endpoint.work
        work.inputs.put(values, time.monotonic_ns())
        work.journal.event("policy_input", **values)
        return {"taken": len(values)}

    def _request(self, given: Params) -> dict[str, object]:
        suite_id = given.text_or_null("suite_id")
        given.done()
        endpoint = self._endpoint
        epoch = endpoint.renewal.request(endpoint.work, suite_id, time.monotonic_ns())
        return {"requested": True, "epoch": epoch}
