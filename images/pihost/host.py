"""The emulated Pi as a host: `host.py save` boots it once and stores it, `host.py KEY_FILE` starts it again.

The processor is emulated (TCG) in real time, the network is QEMU's user-mode one: the guest reaches what this
container reaches, and is reached through the ports below. It has waited with its first login since it was
stored: the key and the time come over its serial line. Everything it writes is gone with the container.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from machine import BOOT_LIMIT_S, HERE, Machine, MachineError

STATE = HERE / "host-state"
#: what the guest writes; QEMU would take /var/tmp where it is told /tmp itself
DISK = Path("/tmp/disk")
#: (protocol, port of the container, port of the guest): ssh, the agent, sealed and plaintext datagrams
FORWARDS = (("tcp", 2222, 22), ("tcp", 48080, 48080), ("udp", 46012, 46012), ("udp", 47003, 47003))
#: what an emulated processor has no use for is off
KERNEL = "console=ttyS0 root=/dev/vda rw quiet panic=-1 random.trust_cpu=on mitigations=off audit=0 selinux=0"
FIRST_LOGIN_LIMIT_S = 180.0
SETTLE_S = 15.0
NTP_PORT = 123
_NTP_EPOCH_S = 2_208_988_800


def command(disk: str) -> list[str]:
    """QEMU with its serial line on the standard streams; `disk`: options of the drive."""
    forwards = "".join(f",hostfwd={kind}::{here}-:{there}" for kind, here, there in FORWARDS)
    return [
        "qemu-system-x86_64",
        "-accel",
        "tcg,tb-size=128",
        "-machine",
        "q35",
        "-cpu",
        "max,la57=off",
        "-smp",
        "1",
        "-m",
        "640",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-chardev",
        "stdio,id=line,signal=off",
        "-serial",
        "chardev:line",
        "-monitor",
        "unix:/tmp/monitor,server=on,wait=off",
        "-kernel",
        str(HERE / "host-vmlinuz"),
        "-initrd",
        str(HERE / "host-initrd"),
        # what the guest freed is zero, so the saved state is small
        "-append",
        f"{KERNEL} init_on_free=1",
        "-drive",
        f"file={HERE / 'host.qcow2'},if=virtio,format=qcow2{disk}",
        "-netdev",
        f"user,id=net,net=192.0.2.0/24,ipv6=off{forwards}",
        "-device",
        "virtio-net-pci,netdev=net,romfile=",
        "-device",
        "virtio-rng-pci",
        "-rtc",
        "base=utc,clock=host",
    ]


def answer(request: bytes, received_s: float, now_s: float) -> bytes | None:
    """Reply of an SNTP server of stratum 1 (RFC 4330, 48 bytes); None for what is no request of a client."""
    if len(request) < 48 or request[0] & 7 != 3:
        return None
    first = request[0] >> 3 << 3 & 0x38 | 4  # their version, mode server
    poll = request[2] if request[2] < 128 else 6
    head = struct.pack("!BBbbII4s", first, 1, poll, -20, 0, 66, b"HOST")
    return head + _stamp(now_s) + request[40:48] + _stamp(received_s) + _stamp(now_s)


def _stamp(unix_s: float) -> bytes:
    seconds = int(unix_s)
    return struct.pack("!II", seconds + _NTP_EPOCH_S & 0xFFFFFFFF, int((unix_s - seconds) * (1 << 32)))


def serve_time() -> None:
    """This machine's clock for the guest, which reaches it as 192.0.2.2."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", NTP_PORT))
        while True:
            request, sender = line.recvfrom(512)
            received_s = time.time()
            reply = answer(request, received_s, time.time())
            if reply is not None:
                line.sendto(reply, sender)


def save() -> None:
    """Boot, wait until the guest waits for its first login and is quiet, store its memory beside its disk."""
    begin_s = time.monotonic()
    machine = Machine(command(""), BOOT_LIMIT_S)
    try:
        machine.until("emulated-pi: ready")
        print(f"machine: booted in {time.monotonic() - begin_s:.1f} s", flush=True)
        time.sleep(SETTLE_S)
        machine.save(STATE)
    finally:
        machine.end()


def first_login(authorized: str, now_s: float) -> str:
    """The line the guest waits for: the time, and one line of an authorized_keys file."""
    return f"go {int(now_s)} {base64.b64encode(authorized.encode()).decode()}"


def run(key_file: Path) -> int:
    """Keep the guest until SIGTERM; QEMU's exit code."""
    authorized = key_file.read_text(encoding="ascii").strip()
    threading.Thread(target=serve_time, name="ntp", daemon=True).start()
    DISK.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(DISK)
    begin_s = time.monotonic()
    machine = Machine([*command(",snapshot=on"), "-incoming", f"file:{STATE}"], FIRST_LOGIN_LIMIT_S)
    signal.signal(signal.SIGTERM, lambda *_: machine.end())
    machine.go_on()
    machine.say(first_login(authorized, time.time()))
    machine.until("emulated-pi: host key ")
    print(f"machine: host of its own after {time.monotonic() - begin_s:.1f} s", flush=True)
    return machine.attend()


def main(arguments: list[str]) -> int:
    """Entry point."""
    if len(arguments) != 1:
        print("host.py: save, or the file with the public key that may log in", file=sys.stderr)
        return 2
    try:
        if arguments == ["save"]:
            save()
            return 0
        return run(Path(arguments[0]))
    except MachineError as error:
        print(f"host.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
