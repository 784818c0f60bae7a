"""Children that die with this process, however it dies: on Windows by a job object, on Linux by a signal that
the child asks for before it runs (prctl(2), PR_SET_PDEATHSIG).

A job object with JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE ends its processes when its last handle closes, which the
system does for a process that was killed (Win32, "Job Objects").
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypedDict


class Start(TypedDict, total=False):
    """Of the options of subprocess.Popen, those that a child here needs on either system."""

    start_new_session: bool
    preexec_fn: Callable[[], None]
    creationflags: int


if sys.platform != "win32":
    import ctypes
    import os
    import signal

    _PR_SET_PDEATHSIG = 1

    def _die_with_parent() -> None:
        """In the child: the kernel kills it when we are killed, whatever the way."""
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    START: Start = {"start_new_session": True, "preexec_fn": _die_with_parent}
    """What subprocess.Popen is told besides."""

    def hold() -> None:
        """Nothing to do: who starts children here tells them to look after their parent, or uses START."""

    def bind(pid: int) -> None:
        """Nothing to do: the child has asked for it."""

    def end(pid: int) -> None:
        """Ask the child and its group to end. Raises ProcessLookupError when they have gone."""
        os.killpg(pid, signal.SIGTERM)

    def kill(pid: int) -> None:
        """End the child and its group. Raises ProcessLookupError when they have gone."""
        os.killpg(pid, signal.SIGKILL)

else:
    import ctypes
    import subprocess
    from ctypes import wintypes

    _EXTENDED_LIMIT_INFORMATION = 9
    _KILL_ON_JOB_CLOSE = 0x2000
    _PROCESS_SET_QUOTA_AND_TERMINATE = 0x0101

    class _Limits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION: the basic limits, I/O counters, memory limits."""

        _fields_ = (
            ("process_time", ctypes.c_int64),
            ("job_time", ctypes.c_int64),
            ("flags", wintypes.DWORD),
            ("least_working_set", ctypes.c_size_t),
            ("most_working_set", ctypes.c_size_t),
            ("process_count", wintypes.DWORD),
            ("affinity", ctypes.c_size_t),
            ("priority_class", wintypes.DWORD),
            ("scheduling_class", wintypes.DWORD),
            ("io_counters", ctypes.c_uint64 * 6),
            ("memory_limits", ctypes.c_size_t * 4),
        )

    _kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel32.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel32.CreateJobObjectW.argtypes = [ctypes.c_void_p, wintypes.LPCWSTR]
    _kernel32.GetCurrentProcess.restype = wintypes.HANDLE
    _kernel32.OpenProcess.restype = wintypes.HANDLE
    _kernel32.OpenProcess.argtypes = [wintypes.DWORD, wintypes.BOOL, wintypes.DWORD]
    _kernel32.SetInformationJobObject.argtypes = [
        wintypes.HANDLE,
        ctypes.c_int,
        ctypes.c_void_p,
        wintypes.DWORD,
    ]
    _kernel32.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
    _kernel32.CloseHandle.argtypes = [wintypes.HANDLE]
    _kernel32.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]

    START: Start = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    """What subprocess.Popen is told besides: a Ctrl-Break sent to the child's group is not ours."""
    _jobs: dict[int, int] = {}
    """Child → its job, whose handle the system closes when this process ends."""

    def _new_job() -> int:
        job = _kernel32.CreateJobObjectW(None, None)
        limits = _Limits(flags=_KILL_ON_JOB_CLOSE)
        if not job or not _kernel32.SetInformationJobObject(
            job, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
        ):
            raise ctypes.WinError(ctypes.get_last_error())
        return int(job)

    def _assign(job: int, process: int) -> None:
        if not _kernel32.AssignProcessToJobObject(job, process):
            raise ctypes.WinError(ctypes.get_last_error())

    def hold() -> None:
        """Everything that this process starts from now on ends with it. Call it once. Raises OSError."""
        # The handle stays open: the system closes it when we end.
        _assign(_new_job(), _kernel32.GetCurrentProcess())

    def bind(pid: int) -> None:
        """End process `pid`, and what it starts, when this process ends. Raises OSError."""
        _jobs[pid] = _new_job()
        process = _kernel32.OpenProcess(_PROCESS_SET_QUOTA_AND_TERMINATE, False, pid)
        if not process:
            raise ctypes.WinError(ctypes.get_last_error())
        try:
            _assign(_jobs[pid], process)
        finally:
            _kernel32.CloseHandle(process)

    def kill(pid: int) -> None:
        """End the child and all that it started. Raises ProcessLookupError when there is no such child."""
        job = _jobs.pop(pid, None)
        if job is None:
            raise ProcessLookupError(pid)
        _kernel32.TerminateJobObject(job, 1)
        _kernel32.CloseHandle(job)

    end = kill
    """A process without a console can be asked nothing; what runs here keeps no state."""
