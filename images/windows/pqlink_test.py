"""`pqlink.exe` under wine against `pqlink` of Linux: keys, traffic both ways, status, strangers, clean stops.

    pqlink_test.py LINUX_PQLINK [--exe PQLINK_EXE] [--host PQ_STATION_EXE]

Each assertion is one line, `[x]` or `[ ]`; a closing line counts them. Exits 1 when one did not hold. No
time is judged: what is waited for has a limit that only ends a hang.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("WINEPREFIX", "/wine")) / "drive_c/Program Files/pqlab"
EXE, HOST = PROGRAMS / "pqlink.exe", PROGRAMS / "pq-station.exe"
LIMIT_S = 240.0
POLL_S = 0.1
SUITES = ("cs-mlkem768-aesgcm-mldsa65", "cs-classicmceliece8192128-ascon128a-falcon1024")
STATUS_NAMES = {"gcs": "gcs.sock", "drone": "drone.sock"}


class Account:
    """What held and what did not; each is printed as it is found."""

    def __init__(self) -> None:
        self.held, self.failed = 0, 0

    def check(self, what: str, is_so: bool, why: str = "") -> None:
        print(f"[{'x' if is_so else ' '}] {what}{f' ({why})' if why and not is_so else ''}", flush=True)
        if is_so:
            self.held += 1
        else:
            self.failed += 1


def waited(check: Callable[[], bool]) -> bool:
    """Whether this came to hold before a hang is assumed."""
    end = time.monotonic() + LIMIT_S
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def free_port(kind: socket.SocketKind = socket.SOCK_DGRAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class End:
    """One `pqlink up`, by wine or not, with the application beside it."""

    def __init__(
        self, command: list[str], role: str, folder: Path, ports: dict[str, int], suite: str
    ) -> None:
        self.command, self.role, self.folder = command, role, folder
        self.application = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.application.bind(("127.0.0.1", 0))
        self.application.settimeout(0.2)
        self.plaintext = free_port()
        is_gcs = role == "gcs"
        values = {
            "role": role,
            "suite": suite,
            "handshake": f"localhost:{ports['handshake']}" if not is_gcs else f"[::]:{ports['handshake']}",
            "sealed": f"[::]:{ports[role]}",
            "plaintext": f"127.0.0.1:{self.plaintext}",
            "application": f"127.0.0.1:{self.application.getsockname()[1]}",
            "gcs_key": "keys/gcs.key" if is_gcs else "keys/gcs.pub",
            "drone_key": "keys/drone.key",
        }
        lines = [f'{key} = "{value}"' for key, value in values.items()]
        lines.append(f"peer_port = {ports['drone' if is_gcs else 'gcs']}")
        (folder / f"{role}.toml").write_text("\n".join(lines) + "\n", "utf-8")
        self.status_file = folder / STATUS_NAMES[role]
        with (folder / f"{role}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "up", f"{role}.toml", "--stop-with-stdin"],
                cwd=folder,
                stdin=subprocess.PIPE,
                stderr=log,
            )

    def status(self) -> dict[str, str]:
        told = subprocess.run(
            [*self.command, "status", f"{self.role}.toml"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        pairs = (line.split(" = ", 1) for line in told.stdout.splitlines() if " = " in line)
        return {name: value.strip('"') for name, value in pairs}

    def log(self) -> str:
        return (self.folder / f"{self.role}.log").read_text("utf-8", errors="replace")[-600:]

    def stop(self) -> int | None:
        """End its standard input; its exit code, None where it did not end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT_S)
        self.application.close()


def passes(sender: End, receiver: End, payload: bytes) -> bool:
    """Does this datagram come out at the other end? Sent again until it does, as traffic goes on."""
    came: set[bytes] = set()

    def comes() -> bool:
        sender.application.sendto(payload, ("127.0.0.1", sender.plaintext))
        try:
            came.add(receiver.application.recv(65_536))
        except TimeoutError:
            return False
        return payload in came

    return waited(comes)


def stranger_gets_nothing(status_file: Path) -> bool:
    """Whoever has not read the file is told nothing."""
    port = int(status_file.read_text("ascii").split()[0])
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as sock:
        sock.sendall(bytes(32))
        try:
            return sock.recv(64) == b""
        except ConnectionResetError:
            return True


def judge_pair(account: Account, windows: list[str], linux: list[str], windows_role: str, suite: str) -> None:
    """One link between both systems from start to stop."""
    what = f"{windows_role} on Windows, {suite}"
    ports = {"handshake": free_port(socket.SOCK_STREAM), "gcs": free_port(), "drone": free_port()}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = subprocess.run(
            [*windows, "keygen", "keys"], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S
        )
        account.check(f"{what}: keygen", made.returncode == 0, made.stderr[-300:])
        for name in ("gcs.key", "drone.key"):
            (folder / "keys" / name).chmod(0o600)  # as a user would after copying them to Linux
        ends = {
            role: End(windows if role == windows_role else linux, role, folder, ports, suite)
            for role in ("gcs", "drone")
        }
        here, there = ends[windows_role], ends["drone" if windows_role == "gcs" else "gcs"]
        try:
            for sender, receiver in ((here, there), (there, here)):
                came = passes(sender, receiver, f"from the {sender.role}".encode())
                account.check(
                    f"{what}: traffic from the {sender.role}", came, f"{here.log()} | {there.log()}"
                )
            told = here.status()
            account.check(
                f"{what}: status", told.get("state") == "up" and told.get("suite") == suite, str(told)
            )
            account.check(
                f"{what}: a stranger is told nothing by the status port",
                stranger_gets_nothing(here.status_file),
            )
            account.check(f"{what}: … and status answers on", here.status().get("role") == windows_role)
            second = subprocess.run(
                [*windows, "up", f"{windows_role}.toml"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
            account.check(f"{what}: a second one is refused", second.returncode == 1, second.stderr[-300:])
            for end in (here, there):
                code = end.stop()
                account.check(
                    f"{what}: the {end.role} stops with its input", code == 0, f"{code}: {end.log()}"
                )
            account.check(f"{what}: the status file is gone", not here.status_file.exists())
        finally:
            for end in ends.values():
                end.close()


def judge_service(account: Account, windows: list[str], host: Path) -> None:
    """Under the service host in the foreground, with the settings that ship: it starts, and ends with it."""
    settings = (ROOT / "tunnel/link/service/pqlink-station.toml").read_text("utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        drive = "Z:" + str(folder).replace("/", "\\")
        settings = settings.replace(
            r"C:\Program Files\pqlink\pqlink.exe", "Z:" + windows[-1].replace("/", "\\")
        )
        (folder / "station.toml").write_text(settings.replace(r"C:\ProgramData\pqlink", drive), "utf-8")
        subprocess.run([*windows, "keygen", "keys"], cwd=folder, check=True, timeout=LIMIT_S)
        port, sealed = free_port(socket.SOCK_STREAM), free_port()
        (folder / "gcs.toml").write_text(
            f'role = "gcs"\nhandshake = "127.0.0.1:{port}"\nsealed = "127.0.0.1:{sealed}"\n'
            f'plaintext = "127.0.0.1:{free_port()}"\napplication = "127.0.0.1:{free_port()}"\n'
            'gcs_key = "keys/gcs.key"\ndrone_key = "keys/drone.key"\n',
            "utf-8",
        )

        def answers() -> bool:
            told = subprocess.run(
                [*windows, "status", "gcs.toml"], cwd=folder, capture_output=True, timeout=LIMIT_S
            )
            return told.returncode == 0

        service = subprocess.Popen(
            [windows[0], str(host), "run", "station.toml"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            log = folder / "pqlink.log"
            told = "no log" if not log.exists() else log.read_text("utf-8", errors="replace")[-300:]
            account.check("service host: pqlink answers", waited(answers), told)
        finally:
            service.kill()
            service.wait(LIMIT_S)
        account.check("service host: pqlink ends with its host", waited(lambda: not answers()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("linux", type=Path)
    parser.add_argument("--exe", type=Path, default=EXE)
    parser.add_argument("--host", type=Path, default=HOST)
    given = parser.parse_args()
    wine = shutil.which("wine")
    if wine is None or not given.exe.exists():
        print(
            f"error: {'there is no wine' if wine is None else f'{given.exe} is not there'}\n"
            "  next: ./images/build.sh windows-test",
            file=sys.stderr,
        )
        return 4
    account = Account()
    for role, suite in zip(("gcs", "drone"), SUITES, strict=True):
        judge_pair(account, [wine, str(given.exe)], [str(given.linux)], role, suite)
    judge_service(account, [wine, str(given.exe)], given.host)
    print(f"{account.held} held, {account.failed} did not")
    return 1 if account.failed else 0


if __name__ == "__main__":
    sys.exit(main())
