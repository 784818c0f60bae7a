#!/usr/bin/env python3
"""One campaign on this host that outlives whoever began it: begun once, waited for, attached to again.

    campaign.py begin FOLDER [--heal JSON] [--results DIR] -- COMMAND…   begin COMMAND, unless one runs
    campaign.py wait FOLDER SECONDS    return when it has ended, or after SECONDS
    campaign.py state FOLDER           what it does now
    campaign.py stop FOLDER            end it as Ctrl-C would, and wait for that

Each prints one line of JSON, the state. FOLDER holds a lock that the campaign's process keeps (the
kernel lets go of it however that process dies), what was ordered, both outputs, and how it ended. The same
process heals after the command (--heal, a JSON list of words), or systemd where that process was killed;
whoever asked may be gone.

In scope: life and death of one command. Not in scope: what it does; pqlab writes its own status file.
Only the standard library: it runs with the host's own python3.
"""

from __future__ import annotations

import calendar
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

Json = dict[str, Any]
UNIT = "pqlab-campaign"
BEGIN_LIMIT_S = 20.0
HEAL_LIMIT_S = 180.0
STOP_LIMIT_S = 180.0
TAIL_BYTES = 4000


class TimeIsOver(Exception):
    """A wait that was bounded."""


def write(path: Path, document: Json) -> None:
    """A reader sees the old document or the new."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(document))
    fresh.replace(path)


def read(path: Path) -> Json:
    """The document, or an empty one."""
    try:
        found: Json = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def runs(folder: Path) -> bool:
    """Does a campaign's process hold the lock?"""
    if not (folder / "lock").exists():
        return False
    with (folder / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeIsOver in whatever call is blocked after so many seconds."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise TimeIsOver

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def wait(folder: Path, seconds: float) -> None:
    """Blocked in the kernel, so that waiting costs the measured machine nothing."""
    if not runs(folder):
        return
    with contextlib.suppress(TimeIsOver), at_most(seconds), (folder / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)


# --- what it does now --------------------------------------------------------------------------


def tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""


def last_document(path: Path) -> Json:
    """The JSON object that `--json` ends with."""
    for line in reversed(tail(path).splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
    return {}


def progress(folder: Path) -> Json:
    """pqlab's own status of this run, found by the process that writes it; empty before its first cell. That
    of a campaign on several pairs lies in a folder of its own."""
    begun = read(folder / "begun.json")
    for place in (".work/*/status.json", "pairs/*/status.json"):
        for status in sorted(Path(begun.get("results", ".")).glob(place), reverse=True):
            found = read(status)
            if found.get("pid") == begun.get("pid"):
                return found
    return {}


def sentence(status: Json, unix_s: float) -> str:
    """`12 of 72 cells (11 pass, 1 fail), about 10:20 left; now cs-… rekey, repetition 2`; of several pairs a
    line each, with the pair's name."""
    if "pairs" in status:
        written = {"updated_utc": status.get("updated_utc")}
        return "\n".join(
            f"{row['pair']}: {row['state']}, {sentence({**row, **written}, unix_s)}"
            for row in status["pairs"]
        )
    if status.get("total") is None:
        return "no cell has begun yet"
    by_verdict = (status.get("verdict_counts") or {}).items()
    counts = ", ".join(f"{count} {verdict}" for verdict, count in by_verdict)
    told = f"{status.get('done', 0)} of {status['total']} cells" + (f" ({counts})" if counts else "")
    if status.get("eta_s") is not None:
        age_s = max(0.0, unix_s - written_s(status, unix_s))
        told += f", about {clock(max(0.0, status['eta_s'] - age_s))} left"
    if cell := status.get("current"):
        told += f"; now {cell['suite_id']} {cell['condition']}, repetition {cell['repetition']}"
    return told


def written_s(status: Json, unix_s: float) -> float:
    """When the status was written, Unix time; now where it does not say."""
    try:
        parsed = time.strptime(str(status.get("updated_utc"))[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return unix_s
    return float(calendar.timegm(parsed))


def clock(seconds: float) -> str:
    """mm:ss, or h:mm:ss from an hour on."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def state(folder: Path) -> Json:
    """{"state": none | running | ended | killed, …}; `killed`: its process died without a last word."""
    order, begun, ended = (read(folder / f"{name}.json") for name in ("order", "begun", "ended"))
    if runs(folder):
        word = "running"
    elif not order:
        return {"state": "none"}
    else:
        word = "ended" if ended.get("code") is not None else "killed"
    said = last_document(folder / "out.log") if word != "running" else {}
    status = progress(folder) if word == "running" else None
    return {
        "state": word,
        "how": begun.get("how"),
        "begun_utc": begun.get("begun_utc"),
        "command": order.get("command"),
        "code": ended.get("code"),
        "result": said if "bundle" in said else None,
        "error": said.get("error"),
        "healed": ended.get("healed"),
        "status": status,
        "said": None if status is None else sentence(status, time.time()),
        "told": tail(folder / "err.log").splitlines()[-12:],
    }


# --- begin and end -----------------------------------------------------------------------------


def begin(folder: Path, command: list[str], heal: list[str], results: Path) -> None:
    """Raises SystemExit with a sentence when it does not begin."""
    folder.mkdir(parents=True, exist_ok=True)
    if runs(folder):
        return
    for name in ("begun.json", "ended.json", "out.log", "err.log"):
        (folder / name).unlink(missing_ok=True)
    write(
        folder / "order.json",
        {"command": command, "heal": heal, "cwd": str(Path.cwd()), "results": str(results.resolve())},
    )
    body = [sys.executable, str(Path(__file__).resolve()), "body", str(folder.resolve())]
    if manager := systemd_options():
        # systemd takes words apart as a shell does: a checkout may lie in a folder with blanks
        after = shlex.join([sys.executable, str(Path(__file__).resolve()), "after", str(folder.resolve())])
        unit = [
            "systemd-run",
            *manager,
            "--quiet",
            "--collect",
            f"--unit={UNIT}",
            f"--working-directory={Path.cwd()}",
            "--property=KillMode=mixed",
            f"--property=TimeoutStopSec={STOP_LIMIT_S:.0f}",
            f"--property=ExecStopPost={after}",
            f"--setenv=PATH={os.environ['PATH']}",
            "--",
            *body,
            f"transient systemd unit {UNIT}.service",
        ]
        done = subprocess.run(unit, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"systemd-run did not begin the campaign: {done.stderr.strip()}")
    else:
        subprocess.Popen(
            [*body, "process of a session of its own (setsid): systemd does not run this host"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    deadline_s = time.monotonic() + BEGIN_LIMIT_S
    while not (folder / "begun.json").exists() and not (folder / "ended.json").exists():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the campaign's process did not come up within {BEGIN_LIMIT_S:.0f} s")
        time.sleep(0.05)


def systemd_options() -> list[str] | None:
    """How this user reaches a service manager; None where there is none."""
    if not Path("/run/systemd/system").is_dir() or shutil.which("systemd-run") is None:
        return None
    if os.geteuid() == 0:
        return ["--system"]
    # without lingering a user's manager ends with the last login, and the campaign with it
    lingers = Path("/var/lib/systemd/linger", os.environ.get("USER", "nobody")).exists()
    return ["--user"] if lingers and os.environ.get("XDG_RUNTIME_DIR") else None


def body(folder: Path, how: str) -> int:
    """The process that holds the lock: command, then heal, then how it ended."""
    with (folder / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        order = read(folder / "order.json")
        with (folder / "out.log").open("wb") as out, (folder / "err.log").open("wb") as err:
            try:
                child = subprocess.Popen(
                    order["command"], cwd=order["cwd"], stdin=subprocess.DEVNULL, stdout=out, stderr=err
                )
            except OSError as error:
                err.write(f"{order['command'][0]} cannot be started: {error}\n".encode())
                err.flush()
                write(folder / "ended.json", {"code": 4, "healed": None, "ended_utc": now()})
                return 4
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda *_: child.terminate())
            write(
                folder / "begun.json",
                {
                    "pid": child.pid,
                    "body_pid": os.getpid(),
                    "how": how,
                    "begun_utc": now(),
                    "results": order["results"],
                },
            )
            code = child.wait()
        write(folder / "ended.json", {"code": code, "healed": heal(folder), "ended_utc": now()})
    return code


def heal(folder: Path) -> Json | None:
    """Run the ordered heal; what it said, whole."""
    order = read(folder / "order.json")
    if not order.get("heal"):
        return None
    try:
        done = subprocess.run(
            order["heal"],
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HEAL_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"code": None, "told": str(error), "at_utc": now()}
    return {"code": done.returncode, "told": done.stdout.strip()[-TAIL_BYTES:], "at_utc": now()}


def after(folder: Path) -> None:
    """systemd calls this when the unit is over: heals for a process that could not do it any more."""
    if not read(folder / "ended.json"):
        write(folder / "ended.json", {"code": None, "healed": heal(folder), "ended_utc": now()})


def stop(folder: Path) -> None:
    """SIGTERM to the campaign, which pqlab takes as Ctrl-C: work is kept, agents are released."""
    pid = read(folder / "begun.json").get("body_pid")
    if runs(folder) and pid:
        os.kill(int(pid), signal.SIGTERM)
        wait(folder, STOP_LIMIT_S)


def main(words: list[str]) -> int:
    """Exit code 0 whatever the campaign's own is; 2 for a wrong call."""
    if len(words) < 2 or words[0] not in ("begin", "wait", "state", "stop", "body", "after"):
        print(__doc__, file=sys.stderr)
        return 2
    verb, folder, rest = words[0], Path(words[1]), words[2:]
    if verb == "body":
        return body(folder, " ".join(rest))
    if verb == "after":
        after(folder)
        return 0
    if verb == "begin":
        options, command = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
        given = dict(zip(options[::2], options[1::2], strict=True))
        begin(folder, command, json.loads(given.get("--heal", "[]")), Path(given.get("--results", "results")))
    elif verb == "wait":
        wait(folder, float(rest[0]))
    elif verb == "stop":
        stop(folder)
    print(json.dumps(state(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
