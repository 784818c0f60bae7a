"""The power sampler's inner loop, native: `pqtelemetry.power.loop` holds everything around it."""

from collections.abc import Sequence

__version__: str

class Model:
    """The software INA219 of `pqtelemetry.ina219.model`, in real time: 5.1 V; 0.6 A and 1.0 A in turn."""

    conversions: int
    def __init__(self, shunt_ohm: float, noise: Sequence[float]) -> None:
        """`noise`: standard normal numbers, an even count, two taken a conversion."""

    def hold(self, now_ns: int | None) -> None:
        """Let the model's time stand at `now_ns` of CLOCK_MONOTONIC; None lets it run."""

    def read(self, register: int) -> int: ...
    def write(self, register: int, word: int) -> None: ...

class I2c:
    """An INA219 on /dev/i2c-N, by SMBus word transfers with the bytes put right."""

    def __init__(self, path: str, address: int) -> None:
        """Raises OSError."""

    def read(self, register: int) -> int:
        """Raises OSError."""

class Scale:
    """From registers to volts and amperes: `calibration` is (gain, offset) of current, then of voltage."""

    def __init__(
        self,
        shunt_ohm: float,
        shunt_range_mv: int,
        current: tuple[float, float],
        voltage: tuple[float, float],
    ) -> None: ...

class Failure:
    """The transfer that ended a block; its sample was taken and has no value."""

    index: int
    now_ns: int
    lateness_ns: int
    errno: int

class Block:
    """What became of the deadlines of one block."""

    next_index: int
    got_count: int
    late_count: int
    lost_count: int
    stored_count: int
    stale_count: int
    within_half_ms_count: int
    clipped_count: int
    volts: float
    amps: float
    watts: float
    records: bytes
    failure: Failure | None

class Pace:
    """Deadline k is start_ns + k × period_ns of CLOCK_MONOTONIC."""

    def __init__(self, start_ns: int, period_ns: int) -> None:
        """Raises OSError."""

    def block(self, bus: Model | I2c | None, scale: Scale | None, from_index: int, end_index: int) -> Block:
        """Samples for deadlines from `from_index` up to `end_index`; sooner back at a signal or a failed
        transfer. Without a bus only the schedule is kept: every sample counts as stale. Raises OSError when
        the kernel's timers fail."""
