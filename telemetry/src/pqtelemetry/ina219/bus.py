"""How registers are reached: the interface, and Linux's I²C through smbus2."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from pqtelemetry.errors import SensorUnavailable, TelemetryError
from pqtelemetry.ina219 import native
from pqtelemetry.ina219.native import FastChip

if TYPE_CHECKING:
    from smbus2 import SMBus

ADDRESSES: Final = tuple(range(0x40, 0x50))
"""The sixteen that the two address pins can select (SBOS448G Table 1)."""
STUB_ADAPTER: Final = "SMBus stub driver"
"""Name of the kernel's i2c-stub adapter: registers that are memory, not a chip."""


class BusError(SensorUnavailable):
    """A transfer failed; the message names the errno, so that equal failures read alike."""

    code = "i2c"
    hint = "check wiring, address and bus with: i2cdetect -y BUS"


class BusSetupError(TelemetryError):
    """The bus itself cannot be opened."""

    code = "i2c_setup"
    hint = "switch I²C on (raspi-config, or dtparam=i2c_arm=on) and join the group i2c"


class RegisterBus(Protocol):
    """Sixteen-bit registers of one chip, in the chip's own byte order already put right."""

    def read(self, register: int) -> int:
        """0 to 65535. Raises BusError."""
        ...

    def write(self, register: int, word: int) -> None:
        """Raises BusError."""
        ...

    def refresh(self) -> None:
        """Once a second: make good what happened to the bus itself. Raises BusError."""
        ...

    @property
    def fast(self) -> FastChip | None:
        """The same chip for the native loop, where there is one."""
        ...


class LinuxBus:
    """One chip on /dev/i2c-N, by SMBus word transfers.

    SMBus sends the low byte first and the INA219 the high one, so every word is swapped. `force` takes the
    chip from a bound kernel driver and is only for a person who asked for it.
    """

    def __init__(self, number: int, address: int, *, force: bool = False) -> None:
        if address not in ADDRESSES:
            raise BusSetupError(
                f"{address:#04x} is no INA219 address", code="i2c_address", hint="0x40 to 0x4f"
            )
        try:
            import smbus2
        except ImportError as error:
            raise BusSetupError(
                f"smbus2 is not installed ({error})", hint="install requirements/tunnel.txt, or use the image"
            ) from error
        self._address = address
        self._force = force
        self._path = Path(f"/dev/i2c-{number}")
        self._new = smbus2.SMBus
        self._bus: SMBus | None = None
        self._node = 0
        self.fast: FastChip | None = None
        self._open()

    def _open(self) -> None:
        try:
            self._bus = self._new(str(self._path))
            fd = self._bus.fd
            self._node = 0 if fd is None else os.fstat(fd).st_ino
        except OSError as error:
            self._bus = None
            raise BusSetupError(f"{self._path} cannot be opened: {error.strerror}") from error
        # a chip taken from a bound driver by force is read in Python alone
        self.fast = None if self._force else native.fast_i2c(str(self._path), self._address)

    def refresh(self) -> None:
        """Let go of an adapter that was removed, and take the one that came in its place. Raises BusError.

        An open file keeps a removed adapter half alive: its name in /dev tells that it is gone.
        """
        try:
            there = self._path.stat().st_ino
        except OSError:
            self.close()
            raise BusError(f"I²C adapter {self._path} is gone") from None
        if self._bus is None or there != self._node:
            self.close()
            try:
                self._open()
            except BusSetupError as error:
                raise BusError(str(error)) from error

    def read(self, register: int) -> int:
        """One word. Raises BusError."""
        if self._bus is None:
            raise BusError(f"I²C adapter {self._path} is gone")
        try:
            word = int(self._bus.read_word_data(self._address, register, force=self._force))
        except OSError as error:
            raise BusError(f"I²C read at {self._address:#04x} failed: {error.strerror}") from error
        return (word & 0xFF) << 8 | word >> 8

    def write(self, register: int, word: int) -> None:
        """One word. Raises BusError."""
        swapped = (word & 0xFF) << 8 | word >> 8
        if self._bus is None:
            raise BusError(f"I²C adapter {self._path} is gone")
        try:
            self._bus.write_word_data(self._address, register, swapped, force=self._force)
        except OSError as error:
            raise BusError(f"I²C write at {self._address:#04x} failed: {error.strerror}") from error

    def close(self) -> None:
        """Free the bus."""
        bus, self._bus = self._bus, None
        self.fast = None
        if bus is not None:
            bus.close()

    def __enter__(self) -> LinuxBus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def adapter_name(number: int, root: Path = Path("/")) -> str | None:
    """What the kernel calls the adapter, e.g. `bcm2835 (i2c@7e804000)`; None where it does not say."""
    try:
        return (root / f"sys/bus/i2c/devices/i2c-{number}/name").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def sensor_class(number: int, root: Path = Path("/")) -> str:
    """`stub-bus` for the kernel's stub adapter or an adapter that has no name, else `chip`.

    A nameless adapter proves nothing, and a claim of real watts needs a proof.
    """
    name = adapter_name(number, root)
    return "chip" if name is not None and STUB_ADAPTER not in name else "stub-bus"
