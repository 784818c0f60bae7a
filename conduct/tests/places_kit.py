"""A labgrid coordinator of the test's own, with places and, where asked for, an exporter of power ports."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from pqevidence.paths import project_root
from pqlab.rack.hold import PYTHON, Wanted
from tools import ended
from waiting import LIMIT_S, wait_for

#: the test image's, else the checkout's own
BIN = next(
    (place for place in (Path("/opt/labgrid/bin"), project_root() / PYTHON.parent) if place.is_dir()), None
)


def labgrid_python() -> Path:
    """Its absence is an error and no reason to skip: then nothing here was tested."""
    assert BIN is not None, "neither the test image's labgrid nor .venv-labgrid is here: make labgrid-venv"
    return BIN / "python"


@dataclass
class Rack:
    """One coordinator. Places live in its folder, as it keeps them itself."""

    folder: Path
    port: int
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def write_places(self, places: dict[str, dict[str, str]]) -> None:
        """Name → tags; each takes what is exported under its name."""
        document = {
            name: {
                "aliases": [],
                "comment": "",
                "tags": tags,
                "matches": [{"exporter": "*", "group": name, "cls": "*", "name": None, "rename": None}]
                if tags.get("exported")
                else [],
                "created": 1.0,
                "changed": 1.0,
            }
            for name, tags in places.items()
        }
        (self.folder / "places.yaml").write_text(yaml.safe_dump(document))

    def start(self) -> None:
        words = ["labgrid.remote.coordinator", "--listen", self.address]
        process = self._run(words, "coordinator.log")
        log = self.folder / "coordinator.log"
        wait_for(lambda: "Coordinator ready" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()

    def export(self, config: dict[str, object]) -> None:
        file = self.folder / "exporter.yaml"
        file.write_text(yaml.safe_dump(config))
        words = ["labgrid.remote.exporter", "-c", self.address, "--name", "bench", str(file)]
        self._run(words, "exporter.log")
        wait_for(lambda: all(name in self.client("resources") for name in config))

    def _run(self, words: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as out:
            process = subprocess.Popen(
                [str(labgrid_python()), "-m", *words], cwd=self.folder, stdout=out, stderr=subprocess.STDOUT
            )
        self.running.append(process)
        return process

    def client(self, *words: str, user: str = "bob", fine: bool = True) -> str:
        """labgrid-client as another user on another machine."""
        env = {**os.environ, "LG_USERNAME": user, "LG_HOSTNAME": "elsewhere", "LG_COORDINATOR": self.address}
        done = ended(
            [str(labgrid_python()), "-m", "labgrid.remote.client", *words], LIMIT_S, cwd=self.folder, env=env
        )
        assert done.returncode == 0 or not fine, done.stdout + done.stderr
        return done.stdout + done.stderr

    def stop(self) -> None:
        while self.running:
            process = self.running.pop()
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT_S)

    def wanted(self, place: str | None = None, wait_s: float = 0.0, **tags: str) -> Wanted:
        return Wanted(self.address, place=place, tags=tags, wait_s=wait_s, poll_s=0.2)


@dataclass
class Switch:
    """A power strip that is asked over HTTP, as labgrid's backend `simplerest` does: what it was told."""

    told: list[str] = field(default_factory=list)
    refuses: bool = False
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{{index}}/{{value}}"

    @contextmanager
    def serving(self) -> Iterator[Switch]:
        switch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                switch.told.append(self.path)
                self.send_response(500 if switch.refuses else 200)
                self.end_headers()
                self.wfile.write(b"1")

            def log_message(self, *words: object) -> None:
                return

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_address[1]
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield self
            finally:
                server.shutdown()
