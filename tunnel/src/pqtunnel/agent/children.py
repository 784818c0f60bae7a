"""Children that die with the agent, however it dies. On Windows by a job object; on Linux they ask for it
themselves (`pqtelemetry sample --exit-with-parent`).

A job object with JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE ends its processes when its last handle closes, which the
system does for an agent that was killed (Win32, "Job Objects").
"""

from __future__ import annotations

import sys

if sys.platform != "win32":

    def hold() -> None:
        """Nothing to do."""

else:
    import ctypes
    from ctypes import wintypes

    _EXTENDED_LIMIT_INFORMATION = 9
    _KILL_ON_JOB_CLOSE = 0x2000

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
    _kernel32.SetInformationJobObject.argtypes = [
        wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD,
    ]  # fmt: skip
    _kernel32.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]

    def hold() -> None:
        """Everything that this process starts from now on ends with it. Call it once. Raises OSError."""
        job = _kernel32.CreateJobObjectW(None, None)
        limits = _Limits(flags=_KILL_ON_JOB_CLOSE)
        made = job and _kernel32.SetInformationJobObject(
            job, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
        )
        # The handle stays open: the system closes it when we end.
        if not made or not _kernel32.AssignProcessToJobObject(job, _kernel32.GetCurrentProcess()):
            raise ctypes.WinError(ctypes.get_last_error())
