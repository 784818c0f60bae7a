"""The fast loop: one chip, one absolute schedule, every deadline accounted for, every gap with its reason.

    expected = got + late + lost            (schedule)
    got + late = stored + stale + failed    (what became of a sample that was taken)

Where the native loop is installed it takes all samples but the first of each tenth of a second; what a sample
is, which ones count and what is written is the same. Sans-IO but for the chip and the store that it is given;
time comes from the clock it is given, and the native loop's from the kernel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.ina219.bus import BusError
from pqtelemetry.ina219.device import Ina219, Reading, SensorRefused
from pqtelemetry.ina219.native import NativeLoop
from pqtelemetry.power.rawfile import CLIPPED, GAP, LATE
from pqtelemetry.sampler import Clock
from pqtelemetry.schedule import Schedule

if TYPE_CHECKING:
    import pq_sampler

CHECK_EVERY_S: Final = 1.0
"""How often the chip's mode is read back, and how often a lost chip is looked for."""
_HALF_MS_NS: Final = 500_000
_LOST_AFTER: Final = 3
"""Failed transfers in a row after which the chip counts as lost and is only looked for once a second."""


class Records(Protocol):
    """Where samples go."""

    def add(self, t_mono_ns: int, volts: float, amps: float, flags: int, lateness_ns: int) -> None: ...

    def add_records(self, data: bytes) -> None: ...

    def flush(self) -> None: ...


@dataclass
class Mean:
    """Mean of what one aggregation period held."""

    n: int = 0
    clipped: int = 0
    volts: float = 0.0
    amps: float = 0.0
    watts: float = 0.0

    def add(self, reading: Reading) -> None:
        """One more reading."""
        self.n += 1
        self.clipped += reading.clipped
        self.volts += reading.voltage_v
        self.amps += reading.current_a
        self.watts += reading.power_w

    def add_block(self, block: pq_sampler.Block) -> None:
        """The readings of one block of the native loop."""
        self.n += block.stored_count
        self.clipped += block.clipped_count
        self.volts += block.volts
        self.amps += block.amps
        self.watts += block.watts

    def line(self, t_mono_ns: int, reason: str | None) -> str:
        """The JSON line that the resident sampler turns into `pq_power`; null with a reason when empty."""
        if self.n == 0:
            return json.dumps({"t_mono_ns": t_mono_ns, "n": 0, "reason": reason or "no fresh conversion"})
        means = {
            "voltage_v": self.volts / self.n,
            "current_a": self.amps / self.n,
            "power_w": self.watts / self.n,
        }
        rounded = {name: round(value, 6) for name, value in means.items()}
        return json.dumps({"t_mono_ns": t_mono_ns, "n": self.n, "clipped": self.clipped, **rounded})


class PowerLoop:
    """Takes samples until the clock says stop. `told` gets one JSON line an aggregation period, `gap` one
    JSON object for each gap that opens or closes."""

    def __init__(
        self,
        chip: Ina219,
        schedule: Schedule,
        clock: Clock,
        records: Records,
        told: Callable[[str], None],
        gap: Callable[[dict[str, object]], None],
        *,
        aggregate_s: float = 0.1,
    ) -> None:
        self._chip = chip
        self.schedule = schedule
        self._clock = clock
        self._records = records
        self._told = told
        self._gap = gap
        self._every = max(1, round(aggregate_s * 1e9 / schedule.period_ns))
        self._check_every = max(1, round(CHECK_EVERY_S * 1e9 / schedule.period_ns))
        self.stored_count = self.stale_count = self.failed_count = 0
        self.within_half_ms_count = 0
        self._native = chip.native_loop(schedule.start_ns, schedule.period_ns)
        self._mean = Mean()
        self._round = -1
        self._checked = 0
        self._errors = 0
        self._unset = False
        self._reason: str | None = None

    def run(self) -> None:
        """Until the clock says stop; then the last gap is closed."""
        while self.step():
            if self._native is not None and self._reason is None:
                self._block(self._native)
        self._records.flush()
        if self._reason is not None:
            self._gap({"t_mono_ns": self._clock.monotonic_ns(), "end": True, "reason": self._reason})

    def step(self) -> bool:
        """Wait for the next deadline and take its sample; False when the clock says stop."""
        if not self._clock.wait_until(self.schedule.next_deadline_ns):
            return False
        now_ns = self._clock.monotonic_ns()
        tick = self.schedule.take(now_ns)
        if tick is None:
            return True
        self.within_half_ms_count += tick.lateness_ns <= _HALF_MS_NS
        reading, reason = self._reading(tick.index)
        if reading is not None:
            self.stored_count += 1
            self._mean.add(reading)
            flags = (LATE if tick.late else 0) | (CLIPPED if reading.clipped else 0)
            self._records.add(now_ns, reading.voltage_v, reading.current_a, flags, tick.lateness_ns)
            self._note_gap(now_ns, None)
        elif reason is None:
            self.stale_count += 1
        else:
            self._failed(now_ns, tick.late, tick.lateness_ns, reason)
        this_round = tick.index // self._every
        if this_round != self._round:
            if self._round >= 0:
                self._told(self._mean.line(now_ns, self._reason))
                self._records.flush()
            self._mean, self._round = Mean(), this_round
        return True

    def _block(self, native: NativeLoop) -> None:
        """The rest of this tenth of a second in the native loop, where the chip can be had for it."""
        chip, schedule = self._chip.fast, self.schedule
        if chip is None:
            return
        block = native.block(chip, schedule.next_index, (self._round + 1) * self._every)
        schedule.pass_over(block.next_index, block.got_count, block.late_count, block.lost_count)
        self.stored_count += block.stored_count
        self.stale_count += block.stale_count
        self.within_half_ms_count += block.within_half_ms_count
        self._mean.add_block(block)
        self._records.add_records(block.records)
        failure = block.failure
        if failure is not None:
            self._errors += 1
            late = 2 * failure.lateness_ns > schedule.period_ns
            self._failed(failure.now_ns, late, failure.lateness_ns, chip.read_failed(failure.errno))

    def _failed(self, now_ns: int, late: bool, lateness_ns: int, reason: str) -> None:
        self.failed_count += 1
        self._records.add(now_ns, math.nan, math.nan, (LATE if late else 0) | GAP, lateness_ns)
        self._note_gap(now_ns, reason)

    @property
    def accounting(self) -> dict[str, int]:
        """Both sums of the module's first lines."""
        schedule = self.schedule
        return {
            "expected_count": schedule.expected_count,
            "got_count": schedule.got_count,
            "late_count": schedule.late_count,
            "lost_count": schedule.lost_count,
            "stored_count": self.stored_count,
            "stale_count": self.stale_count,
            "failed_count": self.failed_count,
        }

    def _reading(self, index: int) -> tuple[Reading | None, str | None]:
        """(reading, None), (None, None) for a stale conversion, or (None, reason)."""
        due = index - self._checked >= self._check_every
        if (self._errors >= _LOST_AFTER or self._unset) and not due:
            return None, self._reason
        try:
            if due:
                self._checked = index
                self._chip.look_for()
                # until it is set up again, what it converts is of another range
                self._unset = not self._chip.is_set_up()
                if self._unset:
                    self._chip.set_up()
                    self._unset, self._errors = False, 0
                    return None, "the chip had lost its settings (brown-out?) and was set up again"
            reading = self._chip.take()
        except (BusError, SensorRefused) as error:
            self._errors += 1
            return None, str(error)
        except SensorUnavailable as error:
            return None, str(error)
        self._errors = 0
        return reading, None

    def _note_gap(self, now_ns: int, reason: str | None) -> None:
        if reason == self._reason:
            return
        if self._reason is not None:
            self._gap({"t_mono_ns": now_ns, "end": True, "reason": self._reason})
        if reason is not None:
            self._gap({"t_mono_ns": now_ns, "end": False, "reason": reason})
        self._reason = reason
