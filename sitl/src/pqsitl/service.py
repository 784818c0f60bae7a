"""What all three services share: start, stop, status, hello and recordings over traffic control."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Mapping

from pqsitl import __version__
from pqsitl.account import SentAccount
from pqsitl.errors import BusyError, SitlError, SpecError
from pqsitl.profile import profile_names
from pqsitl.recording import Recording
from pqsitl.sink import BulkSink
from pqsitl.sources import Source
from pqsitl.spec import TrafficSpec

SourceFactory = Callable[[TrafficSpec], Source]
_IDLE_REPORT: dict[str, object] = {"sent": SentAccount().as_dict(), "error": None}


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, None when it is not there."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


class TrafficService:
    """At most one source at a time; the sink runs always."""

    def __init__(
        self,
        role: str,
        factories: Mapping[str, SourceFactory],
        sink: BulkSink | None = None,
        sink_names: tuple[str, ...] = (),
    ) -> None:
        self.role = role
        self._sink_names = sink_names if sink is not None else ()
        self._factories = dict(factories)
        self._sink = sink
        self._source: Source | None = None
        self._sink_only: str | None = None
        self._recording: Recording | None = None

    def handle(self, request: dict[str, object]) -> dict[str, object]:
        """Answer one request; SitlError for what cannot be done."""
        operations: dict[str, Callable[[dict[str, object]], dict[str, object]]] = {
            "start": self._start,
            "stop": self._stop,
            "status": self._status,
            "hello": self._hello,
            "health": self._health,
            "recording": self._page,
        }
        name = request.get("op")
        operation = operations.get(name) if isinstance(name, str) else None
        if operation is None:
            raise SitlError(f"unknown op {name!r}", f"known: {', '.join(operations)}", "unknown_op")
        return operation(request)

    def choose_auto(self) -> str:
        """The source that `auto` takes now."""
        raise SpecError(f"{self.role} has no traffic of its own", f"sources here: {', '.join(self._names())}")

    def facts(self) -> dict[str, object]:
        """Role-specific part of hello."""
        return {}

    @property
    def ready(self) -> bool:
        """A start would be answered with traffic now."""
        return True

    @property
    def trouble(self) -> SitlError | None:
        """Why the service is not well, None when it is."""
        return None

    def close(self) -> None:
        """Stop whatever runs."""
        if self._source is not None:
            self._source.stop()
            self._source = None
        if self._sink is not None:
            self._sink.close()

    @property
    def _running_name(self) -> str | None:
        return self._sink_only if self._source is None else self._source.name

    def _names(self) -> list[str]:
        return ["auto", *self._factories, *self._sink_names]

    def _start(self, request: dict[str, object]) -> dict[str, object]:
        running = self._running_name
        if running is not None:
            raise BusyError(f"source {running} runs already", 'send {"op":"stop"} first')
        spec = TrafficSpec.from_mapping(request.get("spec"))
        name = self.choose_auto() if spec.source == "auto" else spec.source
        if name in self._sink_names and self._sink is not None:
            named = name != "sink"
            self._sink.reset(spec.seed if named else None, spec.size_bytes if named else None)
            self._sink_only = name
            return {"ok": True, "source": name, "detail": {"sends": False, "sink_port": self._sink.port}}
        factory = self._factories.get(name)
        if factory is None:
            raise SpecError(f"no source {name!r} at {self.role}", f"sources here: {', '.join(self._names())}")
        source = factory(spec)
        if spec.workload is not None and name != "uplink":
            raise SpecError(f"source {name} asks the vehicle for nothing", "workload goes with source uplink")
        if spec.record:
            if source.recording is None:
                raise SpecError(f"source {name} keeps no recording", "record goes with source uplink")
            self._recording = None
        if self._sink is not None:
            self._sink.reset()
        detail = source.start()
        self._source = source
        return {"ok": True, "source": name, "detail": detail}

    def _stop(self, request: dict[str, object]) -> dict[str, object]:
        expected = request.get("expected_count")
        if expected is not None and (
            isinstance(expected, bool) or not isinstance(expected, int) or expected < 0
        ):
            raise SpecError("expected_count must be a whole number ≥ 0", "leave it out when it is not known")
        name = self._running_name
        source, self._source = self._source, None
        receiving = self._sink_only is not None
        self._sink_only = None
        report = dict(_IDLE_REPORT) if source is None else source.stop()
        if source is not None and source.recording is not None:
            self._recording = source.recording
        if self._sink is not None:
            if receiving or self._sink.touched:
                self._sink.settle()
            report["received"] = self._sink.report(expected)
            self._sink.reset()
        return {"ok": True, "source": name, **report}

    def _page(self, request: dict[str, object]) -> dict[str, object]:
        """A piece of what the last recorded source received; it stays until the next one starts."""
        since = request.get("since", 0)
        if isinstance(since, bool) or not isinstance(since, int) or since < 0:
            raise SpecError("since must be a whole number ≥ 0", "begin with 0, go on with `next`")
        if self._recording is None:
            raise SitlError(
                "nothing was recorded", "start source uplink with record true, and stop it", "no_recording"
            )
        return {"ok": True, **self._recording.page(since)}

    def _status(self, request: dict[str, object]) -> dict[str, object]:
        source = self._source
        answer: dict[str, object] = {"ok": True, "role": self.role, "ready": self.ready}
        answer["source"] = self._running_name
        answer["running"] = self._sink_only is not None or (source is not None and source.running)
        answer |= dict(_IDLE_REPORT) if source is None else source.report()
        if self._sink is not None:
            answer["received"] = self._sink.report()
        return answer

    def _hello(self, request: dict[str, object]) -> dict[str, object]:
        return {
            "ok": True,
            "role": self.role,
            "ready": self.ready,
            "sources": self._names(),
            "profiles": list(profile_names()),
            "versions": {
                "pqsitl": __version__,
                "pymavlink": installed_version("pymavlink"),
                "mavproxy": installed_version("MAVProxy"),
                "python": platform.python_version(),
            },
            **self.facts(),
        }

    def _health(self, request: dict[str, object]) -> dict[str, object]:
        trouble = self.trouble
        return (
            {"ok": True, "role": self.role, "ready": self.ready} if trouble is None else trouble.as_answer()
        )
