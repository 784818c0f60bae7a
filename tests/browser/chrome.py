"""A headless Chromium driven over its debugging pipe: open a page, evaluate, press, photograph.

In scope: the few commands of the DevTools protocol that the tests of pages need. The protocol runs over two
pipes (file descriptors 3 and 4 of the browser, one JSON text and a NUL a message), so no port is opened and
no driver is installed.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]
TIMEOUT_S = 120.0
LEFT = "Inspected target navigated or closed"
"""What the browser says of a question to a page that is being left."""


class ChromeError(AssertionError):
    """The browser refused a command, or the page's own code failed."""


class Chrome:
    """One browser process; use as a context manager."""

    def __init__(self, binary: str, profile: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def place() -> None:
            # 3 and 4 may be ends of these very pipes, so both move out of the way first
            reading, writing = (fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (to_browser, from_browser))
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._log = (profile / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            [
                binary,
                "--headless=new",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                # the container has no privilege for the browser's own sandbox, and no network at all
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                "--lang=en-GB",
            ],
            preexec_fn=place,
            close_fds=False,
            stdout=self._log,
            stderr=self._log,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self.events: list[Json] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._in)
        os.close(self._out)
        self._log.close()

    def command(self, method: str, params: Json | None = None, session: str | None = None) -> Json:
        """Send one command, wait for its answer; events that come meanwhile are kept. Raises ChromeError."""
        self._number += 1
        message: Json = {"id": self._number, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._read(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise ChromeError(f"{method}: {answer['error'].get('message')}")
                result: Json = answer["result"]
                return result
            self.events.append(answer)

    def _read(self, end: float) -> Json:
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise ChromeError("the browser did not answer in time")
            got = os.read(self._in, 1 << 20)
            if not got:
                raise ChromeError("the browser has ended; its log is chromium.log in its profile")
            self._buffer += got
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: Json = json.loads(text)
        return message

    def open(self, url: str, width: int = 1280, height: int = 900, *, dark: bool = False) -> Tab:
        """A new tab, loaded."""
        return Tab(self, url, width, height, dark=dark)


class Tab:
    """One page at one size. What it logged, raised and fetched is in `problems` and `requests`."""

    def __init__(self, browser: Chrome, url: str, width: int, height: int, *, dark: bool) -> None:
        self._browser = browser
        target = browser.command("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = browser.command("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._target, self._session = target, attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")
        self.resize(width, height)
        self.media(dark=dark)
        self.command("Page.navigate", {"url": url})
        self.wait("document.readyState === 'complete'")

    def command(self, method: str, params: Json | None = None) -> Json:
        """One command to this page."""
        return self._browser.command(method, params, self._session)

    def close(self) -> None:
        """Give its memory back."""
        self._browser.command("Target.closeTarget", {"targetId": self._target})

    def resize(self, width: int, height: int) -> None:
        """Another window, in CSS pixels."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def media(self, *, dark: bool = False, medium: str = "") -> None:
        """Colour scheme and medium (`print`)."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", {"media": medium, "features": [scheme]})

    def evaluate(self, expression: str) -> Any:
        """Value of an expression in the page (promises are awaited). Raises ChromeError for an exception."""
        answer = self.command(
            "Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True}
        )
        if "exceptionDetails" in answer:
            raise ChromeError(json.dumps(answer["exceptionDetails"])[:400])
        return answer["result"].get("value")

    def wait(self, expression: str, timeout_s: float = 60.0) -> None:
        """Until the expression is true, of this page or of one that it is left for. Raises ChromeError."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                if self.evaluate(expression):
                    return
            except ChromeError as error:
                if LEFT not in str(error):
                    raise
            if time.monotonic() > end:
                raise ChromeError(f"never true: {expression}")
            time.sleep(0.05)

    def photograph(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        shot = self.command("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(shot["data"]))

    def _own(self, method: str) -> list[Json]:
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event.get("method") == method
        ]

    @property
    def problems(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and what the browser itself complains about."""
        found = [str(e["exceptionDetails"].get("text")) for e in self._own("Runtime.exceptionThrown")]
        found += [
            str(event["args"][0].get("value"))
            for event in self._own("Runtime.consoleAPICalled")
            if event["type"] in ("error", "warning", "assert")
        ]
        found += [
            f"{event['entry']['level']}: {event['entry']['text']}"
            for event in self._own("Log.entryAdded")
            if event["entry"]["level"] in ("error", "warning")
        ]
        return found

    @property
    def requests(self) -> list[str]:
        """Every address that the page asked for."""
        return [str(event["request"]["url"]) for event in self._own("Network.requestWillBeSent")]
