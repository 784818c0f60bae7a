"""The live page at the moments that a user meets, each served from a folder and a database made for it.

`python tests/browser/live_moments.py FOLDER` photographs them, both widths and schemes, for human eyes.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence" / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "conduct" / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from live_world import Database, S, make_run, seal, tell

from pqlab.campaign.store import Store
from pqlab.live.server import LiveServer
from pqlab.live.snapshot import Snapshot

NOW_NS = 1_772_366_400_000_000_000
MOMENTS = ("none", "first", "running", "ended", "database-gone", "agent-gone")


class World:
    """A results folder, its database and the server that shows them; its clock stands still."""

    def __init__(self, folder: Path, report: str | None = None) -> None:
        self.results = folder
        self.database = Database(NOW_NS)
        self.store: Store | None = None
        # looked at anew at each question, so that a test need not wait
        self.ticks = iter(range(0, 10**9, 10))
        self.snapshot = Snapshot(
            folder, self.database, lambda: float(next(self.ticks)), realtime_ns=lambda: NOW_NS
        )
        self._report = {} if report is None else {"report": report}

    def begin(self, done: int, **more: Any) -> Store:
        """A run under way, held by this process."""
        self.store = make_run(self.results, NOW_NS, done, **more)
        self.store.lock()
        return self.store

    def end(self) -> None:
        """It is sealed."""
        assert self.store is not None
        self.snapshot.document()  # it was watched
        seal(self.store, {"pass": 14, "invalid": 1}, **self._report)


def arrange(world: World, moment: str) -> None:
    """Bring the world to one of MOMENTS."""
    if moment == "none":
        return
    if moment == "first":
        tell(world.begin(0, begun_s_ago=20.0), NOW_NS, (8.0, "window_start", {"window": "traffic"}))
        return
    if moment == "ended":
        world.begin(15, state="finishing")
        world.end()
        return
    forged = {"timed": "attack", "ok": True, "for_s": 8.0, "attack": {"kind": "forged"}}
    store = world.begin(12, total=30, condition="watched")
    canary: tuple[float, str, dict[str, Any]] = (4.0, "window_start", {"window": "canary"})
    tell(
        store,
        NOW_NS,
        (40.0, "window_start", {"window": "traffic"}),
        (32.0, "timed_event", forged),
        (6.0, "window_end", {"window": "traffic"}),
        canary,
    )
    world.database.alarm = (1, 0)
    world.database.rekeys_s = (12.0, 24.0)
    world.database.gone = moment == "database-gone"
    if moment == "agent-gone":
        world.database.silent = {"drone": NOW_NS - 31 * S}


@contextmanager
def served(world: World) -> Iterator[LiveServer]:
    """The live view of that world, on a port of its own."""
    server = LiveServer(0, world.snapshot)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        if world.store is not None:
            world.store.unlock()


def photograph(folder: Path) -> None:
    """PNG files live-MOMENT-WIDTH-SCHEME.png in `folder`."""
    from chrome import Chrome
    from pages import WIDTHS_PX

    binary = shutil.which("chromium")
    assert binary, "run it in the image pqlab/browser"
    (folder / "profile").mkdir(parents=True, exist_ok=True)
    with Chrome(binary, folder / "profile") as browser:
        for moment in MOMENTS:
            world = World(folder / moment)
            arrange(world, moment)
            with served(world) as server:
                for width in WIDTHS_PX:
                    for dark in (False, True):
                        tab = browser.open(server.url, width, dark=dark)
                        tab.wait("document.body.dataset.ready === 'yes'")
                        scheme = "dark" if dark else "light"
                        tab.photograph(folder / f"live-{moment}-{width}-{scheme}.png", whole=True)
                        tab.close()


if __name__ == "__main__":
    photograph(Path(sys.argv[1]))
