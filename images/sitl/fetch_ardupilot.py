"""Fetch the official ArduCopter SITL binary into a folder, if it can be had now.

Not reachable, or no build for this machine: the folder stays empty and the reason is printed.
Other bytes than the pinned ones: the image build fails.
"""

from __future__ import annotations

import hashlib
import sys
import urllib.error
import urllib.request
from pathlib import Path

VERSION = "4.7.1"
SHA256 = "011627d41dd95640c3aca02d45283474be48721c8b1bb7a4b234d38b69063482"
URL = f"https://firmware.ardupilot.org/Copter/stable-{VERSION}/SITL_x86_64_linux_gnu/arducopter"
TIMEOUT_S = 10


def main(folder: Path, architecture: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    if architecture != "amd64":
        print(f"ArduPilot skipped: no official build for {architecture}; the embedded vehicle is used")
        return 0
    try:
        with urllib.request.urlopen(URL, timeout=TIMEOUT_S) as answer:
            data: bytes = answer.read()
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        print(f"ArduPilot skipped: {URL} cannot be read ({error}); the embedded vehicle is used")
        print("Run the build again on an open network, or start the lab with SITL_BINARY=path")
        return 0
    digest = hashlib.sha256(data).hexdigest()
    if digest != SHA256:
        print(f"ArduPilot {VERSION} has SHA-256 {digest}, pinned is {SHA256}: refusing it")
        return 1
    target = folder / "arducopter"
    target.write_bytes(data)
    target.chmod(0o755)
    (folder / "VERSION").write_text(f"{VERSION} {SHA256}\n", encoding="ascii")
    print(f"ArduPilot {VERSION}: {len(data)} bytes, SHA-256 as pinned")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
