"""Loading liboqs through liboqs-python, quietly and without surprises.

liboqs-python prints at import, warns when versions differ, and clones and builds liboqs when it finds none.
None of that may happen on a measuring endpoint: the library is looked for first, under the same rules, and
the import is only tried when it will succeed.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib
import logging
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Final

from pqtunnel.errors import ProviderMissing

_REQUIRED_SYMBOL: Final = "OQS_SIG_supports_ctx_str"
"""liboqs-python 0.16 asks for it at import; liboqs 0.13 lacks it, so images/liboqs supplies it."""


def _candidates() -> list[str]:
    """Library paths in the order in which liboqs-python tries them."""
    found = [path for path in map(ctypes.util.find_library, ("oqs", "liboqs")) if path]
    prefix = Path(os.environ.get("OQS_INSTALL_PATH") or Path.home() / "_oqs")
    if sys.platform == "win32":
        return found + [str(prefix / "bin" / name) for name in ("oqs.dll", "liboqs.dll")]
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    return found + [str(prefix / folder / f"liboqs{suffix}") for folder in ("lib", "lib64")]


def _check_library() -> None:
    """Raise ProviderMissing unless the library that liboqs-python would load exists and is complete."""
    tried = _candidates()
    for path in tried:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        if not hasattr(library, _REQUIRED_SYMBOL):
            raise ProviderMissing(
                f"{path} lacks {_REQUIRED_SYMBOL}, which liboqs-python needs",
                hint="Use the library of the tunnel image (make images), which supplies that function.",
            )
        return
    raise ProviderMissing(f"no liboqs shared library found (tried {', '.join(tried)})")


@functools.cache
def load_oqs() -> ModuleType:
    """The `oqs` module over a present liboqs. Raises ProviderMissing; prints nothing."""
    _check_library()
    # The module logs to stdout from its first line on; a filter set before the import silences it for good.
    logging.getLogger("oqs.oqs").addFilter(lambda record: False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("oqs")
    except ImportError as error:
        raise ProviderMissing(f"liboqs-python is not installed ({error})") from error
    except AttributeError as error:
        raise ProviderMissing(f"liboqs-python does not fit this liboqs ({error})") from error


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file_name", ctypes.c_char_p),
        ("file_base", ctypes.c_void_p),
        ("symbol_name", ctypes.c_char_p),
        ("symbol_address", ctypes.c_void_p),
    )


_MAX_PATH: Final = 32_768
"""Characters of the longest path that Windows gives (MSDN, "Maximum Path Length Limitation")."""


def library_path() -> Path | None:
    """The file that holds the code of OQS_KEM_keypair, or None where the platform cannot tell (no dladdr)."""
    native = load_oqs().native()
    if sys.platform == "win32":
        return _module_path(native._handle)
    dladdr = getattr(ctypes.CDLL(None), "dladdr", None)
    if dladdr is None:
        return None
    info = _DlInfo()
    address = ctypes.cast(native.OQS_KEM_keypair, ctypes.c_void_p)
    if not dladdr(address, ctypes.byref(info)) or not info.file_name:
        return None
    return Path(os.fsdecode(info.file_name)).resolve()


def _module_path(handle: int) -> Path | None:
    """The file of a loaded module; None where Windows does not tell (MSDN, GetModuleFileNameW)."""
    if sys.platform != "win32":
        return None
    ask = ctypes.WinDLL("kernel32").GetModuleFileNameW
    ask.argtypes = [ctypes.c_void_p, ctypes.c_wchar_p, ctypes.c_uint32]
    name = ctypes.create_unicode_buffer(_MAX_PATH)
    length = ask(handle, name, _MAX_PATH)
    return Path(name.value) if 0 < length < _MAX_PATH else None
