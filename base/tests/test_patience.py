"""Files in use: tried again on Windows alone."""

from __future__ import annotations

import pytest

from pqbase import patience


def test_a_file_in_use_is_tried_again_on_windows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)
    tries: list[int] = []

    def third_time() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise PermissionError(13, "in use")
        return "done"

    assert patience.patiently(third_time, platform="win32") == "done"
    with pytest.raises(PermissionError):
        tries.clear()
        patience.patiently(third_time, platform="linux")
    assert len(tries) == 1

    def never() -> None:
        tries.append(1)
        raise PermissionError(13, "in use")

    tries.clear()
    with pytest.raises(PermissionError):
        patience.patiently(never, platform="win32")
    assert len(tries) == patience.TRIES
