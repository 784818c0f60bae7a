"""The service host under wine: services started, killed, stopped, orphaned and booted, as a station has them.

    service_test.py FOLDER_OF_PROGRAMS [--rounds N] [--json FILE]

FOLDER_OF_PROGRAMS holds pq-station.exe and standin.exe (station/examples). Each assertion is one line, `[x]`
or `[ ]`; a closing line counts them. Exits 1 when one did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PORT = 46100
UP_LIMIT_S = 60.0
"""For what has no promise: wine's own start, a machine that is busy."""
BACK_LIMIT_S = 3.0
"""A program that lived is back within this."""
GRACE_S = 2.0
POLL_S = 0.02
HOST, PROGRAM = "pq-station.exe", "standin.exe"


@dataclass
class Account:
    """What held and what did not; each is printed as it is found."""

    held: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def check(self, what: str, is_so: bool, why: str = "") -> None:
        print(f"[{'x' if is_so else ' '}] {what}{f' ({why})' if why else ''}", flush=True)
        if is_so:
            self.held += 1
        else:
            self.failed.append(what)

    def took(self, what: str, seconds: float) -> None:
        self.seconds.setdefault(what, []).append(round(seconds, 3))


class Wine:
    """One prefix with drive C in the given folder."""

    def __init__(self, scratch: Path) -> None:
        (scratch / "prefix").mkdir()
        self.drive = scratch / "prefix" / "drive_c"
        self.environment = {
            **os.environ,
            "WINEPREFIX": str(scratch / "prefix"),
            "WINEDEBUG": "-all",
            "HOME": str(scratch),
            "WINEDLLOVERRIDES": "mscoree=;mshtml=",
            "XDG_RUNTIME_DIR": str(scratch),
        }

    def run(self, *words: str) -> tuple[int, str]:
        """(exit code, what was printed). Through a file: wine's services inherit a pipe and keep it."""
        with tempfile.TemporaryFile() as out:
            done = subprocess.run(
                ["wine", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                check=False,
                timeout=180,
                env=self.environment,
            )
            out.seek(0)
            return done.returncode, out.read().decode("utf-8", errors="replace")

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            ["wine", *words], env=self.environment, stdin=quiet, stdout=quiet, stderr=quiet
        )

    def server(self, *words: str) -> None:
        subprocess.run(["wineserver", *words], check=False, timeout=180, env=self.environment)

    def boot(self) -> None:
        """A session that stays, as a machine's does; services of start type auto are started by it."""
        self.server("-p")
        self.run("wineboot")

    def shut_down(self) -> None:
        self.server("-k")
        self.server("-w")


def processes(of: str) -> list[int]:
    """Linux process numbers of the Windows programs whose command line names `of`."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:  # it ended meanwhile
                continue
            if of.encode() in words and not words.startswith(b"wine\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def is_listening(port: int = PORT) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_free(port: int = PORT) -> bool:
    """Nobody listens, and it can be bound at once."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def until(condition: Callable[[], bool], limit_s: float = UP_LIMIT_S) -> float | None:
    """Seconds until it holds, None when it did not within the limit."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > limit_s:
            return None
        time.sleep(POLL_S)
    return time.monotonic() - begun


class Station:
    """A service of the prefix with the stand-in as its program."""

    def __init__(self, wine: Wine, name: str, mode: str) -> None:
        self.wine, self.name = wine, name
        self.folder = wine.drive / name
        self.folder.mkdir()
        self.inside = f"C:\\{name}"
        self.log = self.folder / "log.txt"
        words = json.dumps([str(PORT), self.inside, mode])
        (self.folder / "settings.toml").write_text(
            f"program = 'C:\\{PROGRAM}'\narguments = {words}\ndirectory = '{self.inside}'\n"
            f"log = '{self.inside}\\log.txt'\nstop_grace_s = {GRACE_S}\n"
            "[environment]\nSTANDIN_WORD = 'Zürich …'\n",
            encoding="utf-8",
        )

    def install(self, start: str) -> bool:
        command = f"C:\\{HOST} service {self.name} {self.inside}\\settings.toml"
        return self.wine.run("sc", "create", self.name, "binPath=", command, "start=", start)[0] == 0

    def start(self) -> bool:
        return self.wine.run("sc", "start", self.name)[0] == 0

    def stop(self) -> bool:
        return self.wine.run("sc", "stop", self.name)[0] == 0

    def remove(self) -> bool:
        return self.wine.run("sc", "delete", self.name)[0] == 0

    def state(self) -> str:
        """The word after STATE, like RUNNING."""
        for line in self.wine.run("sc", "query", self.name)[1].splitlines():
            if "STATE" in line:
                return line.split()[-1]
        return "none"

    def exit_code(self) -> str:
        for line in self.wine.run("sc", "query", self.name)[1].splitlines():
            if "SERVICE_EXIT_CODE" in line:
                return line.split()[2]
        return "none"

    def said(self, words: str) -> bool:
        return self.log.exists() and words in self.log.read_text(encoding="utf-8")


def programs() -> list[int]:
    """The service's program and what it started."""
    return processes(PROGRAM)


def is_second(pid: int) -> bool:
    """The one that the program started: it was told to be the second."""
    try:
        return b"grandchild" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return False


def program() -> int:
    """The one that holds the port."""
    return next(pid for pid in programs() if not is_second(pid))


def is_complete(but: Collection[int] = ()) -> bool:
    """The program and its second, and none of `but`, which may be dying: all is asked of one look. While wine
    starts the second, a copy of the program's process stands for it: such a pair is not whole yet."""
    found = programs()
    return not set(but) & set(found) and is_listening() and sorted(map(is_second, found)) == [False, True]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def sweep() -> None:
    """End what a part left behind, so that one that is red does not make the next one red."""
    for pid in [*processes(HOST), *programs()]:
        try:
            kill(pid)
        except ProcessLookupError:  # it ended with the one before it
            continue
    until(lambda: not programs() and not processes(HOST))


def rounds(account: Account, station: Station, count: int) -> None:
    """Started, its program killed, back, stopped: nothing of it is left."""
    for number in range(1, count + 1):
        label = f"round {number} of {count}"
        account.check(f"{label}: it starts", station.start() and until(is_complete) is not None)
        before = set(programs())
        kill(program())
        back = until(lambda gone=before: is_complete(gone), BACK_LIMIT_S)  # type: ignore[misc]
        shown = "not within 3 s" if back is None else f"{back:.1f} s"
        account.check(
            f"{label}: killed, its program is back and what was left is not", back is not None, shown
        )
        account.took("back_s", back if back is not None else -1.0)
        begun = time.monotonic()
        account.check(f"{label}: it is told to stop", station.stop())
        gone = until(lambda: not programs() and not processes(HOST))
        account.took("stop_s", time.monotonic() - begun)
        account.check(f"{label}: its program ended when asked", station.said("ended when asked"))
        account.check(f"{label}: no process and no port is left", gone is not None and is_free())


def log_is_kept(account: Account, station: Station) -> None:
    text = station.log.read_text(encoding="utf-8")
    account.check("the log is UTF-8, with the program's own words", "größer als ASCII: Zürich …" in text)
    account.check("the program said that it ended cleanly", "clean end" in text)
    names = sorted(path.name for path in station.folder.glob("log*"))
    account.check("one older log is kept", names == ["log.txt", "log.txt.1"], ", ".join(names))
    account.check("the program has its working directory", f"here: {station.inside}" in text)


def host_is_killed(account: Account, station: Station) -> None:
    account.check("host: it starts", station.start() and until(is_complete) is not None)
    kill(processes(HOST)[0])
    gone = until(lambda: not programs(), 5.0)
    account.check("host: it was killed and left no orphan", gone is not None)
    account.check("host: the port is free", is_free())


def is_up(station: Station) -> bool:
    return station.install("demand") and station.start() and until(is_complete) is not None


def deaf_is_sent_break(account: Account, wine: Wine) -> None:
    station = Station(wine, "deaf", "deaf")
    account.check("deaf: it is created and starts", is_up(station))
    account.check("deaf: it is told to stop", station.stop())
    account.check("deaf: it stopped", until(lambda: not programs() and not processes(HOST)) is not None)
    heard = station.said("it is sent CTRL_BREAK") and station.said("ended when asked")
    account.check("deaf: its program did not hear the end of its input, and did CTRL_BREAK", heard)
    account.check("deaf: it is removed", station.remove())


def hung_is_ended(account: Account, wine: Wine) -> None:
    station = Station(wine, "hung", "obey")
    account.check("hung: it is created and starts", is_up(station))
    stuck = program()
    os.kill(stuck, signal.SIGSTOP)
    account.check("hung: it is told to stop", station.stop())
    account.check("hung: it is stopping while its program hears nothing", station.state() == "STOP_PENDING")
    ended = until(lambda: not processes(HOST))
    forced = ended is not None and station.said("stopped by force")
    account.check("hung: its program was ended by force", forced)
    account.check("hung: its program's child was ended", until(lambda: programs() == [stuck]) is not None)
    os.kill(stuck, signal.SIGCONT)
    gone = until(lambda: not programs())
    account.check("hung: its program goes once it may", gone is not None and is_free())
    account.check("hung: it is removed", station.remove())


def brief_waits_longer(account: Account, wine: Wine) -> None:
    station = Station(wine, "brief", "brief")
    account.check("brief: it is created and starts", station.install("demand") and station.start())
    waits = ["started again in 1.0 s", "started again in 2.0 s", "started again in 4.0 s"]
    grown = until(lambda: all(station.said(wait) for wait in waits), 30.0)
    account.check("brief: a program that dies at once waits longer each time", grown is not None)
    account.check("brief: its code is told", station.said("ended by itself with code 3"))
    account.check("brief: it is told to stop while none runs", station.stop())
    account.check("brief: it stopped", until(lambda: not processes(HOST)) is not None)
    account.check("brief: it is removed", station.remove())


def wrong_settings_are_told(account: Account, wine: Wine) -> None:
    station = Station(wine, "wrong", "obey")
    file = f"{station.inside}\\settings.toml"
    account.check("wrong: right settings are taken", wine.run(f"C:\\{HOST}", "check", file)[0] == 0)
    text = (station.folder / "settings.toml").read_text(encoding="utf-8")
    (station.folder / "settings.toml").write_text(text.replace(PROGRAM, "none.exe"), encoding="utf-8")
    code, printed = wine.run(f"C:\\{HOST}", "check", file)
    lines = [line for line in printed.splitlines() if line.startswith("pq-station")]
    account.check(
        "wrong: a program that is not there is one line, and code 4",
        code == 4 and len(lines) == 1 and "none.exe is not there; next: " in lines[0],
    )
    account.check("wrong: it is created", station.install("demand"))
    station.start()  # the manager may call a service that ended at once a failed start
    ended = until(lambda: station.exit_code() == "4", 20.0)
    account.check("wrong: the service ends with that code", ended is not None)
    account.check("wrong: its log says why", station.said("none.exe does not start"))
    account.check("wrong: it is removed", station.remove())


def foreground_ends_with_its_program(account: Account, wine: Wine) -> None:
    station = Station(wine, "front", "obey")
    words = (f"C:\\{HOST}", "run", f"{station.inside}\\settings.toml")
    running = wine.begin(*words)
    account.check("front: it runs in the foreground", until(is_complete) is not None)
    running.send_signal(signal.SIGINT)
    gone = until(lambda: not programs() and running.poll() is not None)
    clean = gone is not None and station.said("ended when asked") and station.said("clean end")
    account.check("front: Ctrl-C stops it cleanly", clean)
    running = wine.begin(*words)
    account.check("front: it runs once more", until(is_complete) is not None)
    kill(processes(HOST)[0])
    account.check("front: it was killed and left no orphan", until(lambda: not programs(), 5.0) is not None)
    running.wait(timeout=30)


def station_boots(account: Account, wine: Wine) -> None:
    station = Station(wine, "boot", "obey")
    account.check("boot: it is created with start type auto", station.install("auto"))
    for number in (1, 2):
        wine.shut_down()
        account.check(f"boot {number}: the station is down", not programs() and not processes(HOST))
        wine.boot()
        up = until(is_complete)
        account.check(f"boot {number}: the service is back by itself", up is not None)
    account.check("boot: it is stopped", station.stop() and until(lambda: not programs()) is not None)
    account.check("boot: it is removed", station.remove())


@contextmanager
def prefix(folder: Path) -> Iterator[Wine]:
    with tempfile.TemporaryDirectory(prefix="station-") as scratch:
        wine = Wine(Path(scratch))
        wine.boot()
        try:
            for name in (HOST, PROGRAM):
                shutil.copy(folder / name, wine.drive)
            yield wine
        finally:
            wine.shut_down()


def own_rounds(account: Account, wine: Wine, count: int) -> None:
    """The service that runs as it should, `count` times, then without its host."""
    station = Station(wine, "round", "obey")
    account.check("it is created", station.install("demand"))
    rounds(account, station, count)
    log_is_kept(account, station)
    host_is_killed(account, station)
    account.check("it is removed", station.remove())


def test(folder: Path, count: int) -> Account:
    """Everything, with `count` rounds of start, kill and stop. A part that breaks off is one that failed."""
    account = Account()
    parts: list[Callable[[Account, Wine], None]] = [
        lambda account, wine: own_rounds(account, wine, count),
        deaf_is_sent_break,
        hung_is_ended,
        brief_waits_longer,
        wrong_settings_are_told,
        foreground_ends_with_its_program,
        station_boots,
    ]
    with prefix(folder) as wine:
        for part in parts:
            try:
                part(account, wine)
            except (OSError, LookupError, StopIteration, subprocess.TimeoutExpired) as error:
                account.check("this part ran to its end", False, f"{type(error).__name__}: {error}")
            sweep()
    return account


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="The service host under wine.")
    parser.add_argument("programs", type=Path)
    parser.add_argument("--rounds", type=int, default=20, help="2 or more: the first one's log is kept")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    account = test(args.programs, args.rounds)
    for what, values in account.seconds.items():
        print(f"{what}: least {min(values)}, most {max(values)}, of {len(values)}")
    if args.json is not None:
        found = {"held": account.held, "failed": account.failed, "seconds": account.seconds}
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"service host: {account.held} held, {len(account.failed)} failed")
    return 1 if account.failed else 0


if __name__ == "__main__":
    sys.exit(main())
