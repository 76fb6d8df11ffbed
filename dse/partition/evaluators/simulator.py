"""A simulator of a package in steady state: what a partition costs where the reference evaluator is too simple.

**Pipeline.** Time is cut into equal intervals. In each, every chip runs its stage on one input, while the links carry
what the stages made in the interval before: communication and computation overlap. The interval lasts as long as the
slowest stage or the last transfer; its reciprocal is the throughput.

**Chip.** An operator that may be fused (:mod:`dse.partition.evaluators.simulator_operators`) is, if its producer is on
its chip: one launch for a group, and no tensor inside it is written or read. Groups run one at a time. The compiler's
list schedule takes, of the groups whose inputs are there, the one that adds least to the outputs then held (as XLA's
list scheduler: bytes defined less bytes freed). A stage also takes a fixed time, and a launch for every tensor that is
sent or received. All times of groups are multiplied with the *compile effect* of the chip: lognormal, drawn with a hash
of the set of its operators. It stands for what tiling, layout and alignment make of one program or another: no model of
scheduling, overlap and contention on its own strays from the reference evaluator as far as the paper's hardware did.

**Weights.** Resident ones are always in memory. Streamed ones are loaded for every input: while one group with weights
runs, those of the next such group come, and after the last one those of the first; a group waits for its own. (A chip
with one such group keeps its weights.)

**Memory.** A chip's peak is that of its schedule: outputs that stay on the chip, from the group that makes them to the
last that reads them; the weights; and buffers for whole intervals. An output that leaves the chip (or the model) has
two copies, one that is being made and one that is being sent. An input has two for each level between its producer's
chip and its reader's, where a chip's level is the longest way of the chip graph to it: between neighbours one that is
being received and one that is being read, else more that wait until slower ways have caught up. Partitions whose peak
exceeds the memory cannot run (5).

**Links.** A tensor takes each link up to its farthest reader, once, for its bytes over the bandwidth, and is passed on
one hop after it began (cut-through). A link carries what its own chip made first, in the order of the schedule,
then what comes over the link before it, in order.

**One input alone**: a chip begins its stage when all that it reads has arrived; a link carries first what comes from
below. The orders of links are fixed, so a faster part never slows another down.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.partition.evaluators.simulator_kernels import Rates, simulate
from dse.partition.evaluators.simulator_operators import min_bytes, operators_of
from dse.partition.evaluators.simulator_reference import SimulatedChip, Simulation
from dse.partition.evaluators.simulator_reference import simulate as simulate_one
from dse.partition.problem import Chips, Floats, PartitionProblem
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace
from dse.report.units import time_text
from hardware.compiled import read_only
from hardware.packages import MAX_CHIPS, Package
from hardware.units import MEGA

_RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Overflow:
    """A chip whose memory does not hold its stage, at the step of its schedule that needs most.

    Attributes:
        chip: its number.
        operators: of the group that runs then, by name.
        needed_bytes: in use then: the sum of the next three.
        live_bytes: outputs that wait on the chip for their last reader.
        weight_bytes: weights.
        buffer_bytes: copies of what is received and sent.
        limit_bytes: what a chip has.
    """

    chip: int
    operators: tuple[str, ...]
    needed_bytes: float
    live_bytes: float
    weight_bytes: float
    buffer_bytes: float
    limit_bytes: float

    def __str__(self) -> str:
        held = [self.needed_bytes, self.limit_bytes, self.buffer_bytes, self.weight_bytes, self.live_bytes]
        needed, limit, buffers, weights, live = (f"{size / MEGA:.1f} MB" for size in held)
        return (
            f"(5) chip {self.chip} has {limit}, but needs {needed} when {self.operators[-1]} runs: {buffers} of "
            f"send and receive buffers, {weights} of weights, {live} of stored outputs"
        )


class SimulatorEvaluator:
    """Costs of partitions that satisfy (2) to (4) on a package, as simulated.

    Args:
        problem: graph and objective; also the limit on the weights of a chip, where it has one. Its bandwidth is that
            of the reference evaluator, which does not count here.
        package: at least as many chips.

    Raises:
        ValueError: the package has fewer chips than the problem.
    """

    is_reference = False

    def __init__(self, problem: PartitionProblem, package: Package) -> None:
        if problem.chips > package.chips:
            raise ValueError(f"`chips <= {package.chips}` must hold on {package.name}, but got {problem.chips}")
        self.package = package
        self._problem = problem
        self._for_throughput = problem.objective == "throughput"
        self._operators = operators_of(problem.graph, package)
        self._rates = Rates(
            package.launch_s,
            package.memory_bytes_per_s,
            package.link_bytes_per_s,
            package.hop_s,
            package.weight_bytes_per_s,
            package.weights == "streamed",
            package.stage_s,
            package.transfer_launch_s,
            package.effect_sigma,
        )
        self._last: tuple[tuple[tuple[int, ...], bytes], tuple[Floats, Floats, Floats]] | None = None

    def costs(self, chips: Chips) -> Floats:
        """Seconds of each partition, [B]; infinite where a chip's memory does not hold its stage (5)."""
        latency_s, busy_s, _ = self._simulated(chips)
        interval_s: Floats = busy_s.max(axis=(1, 2), initial=0.0)
        return np.where(np.isinf(interval_s), np.inf, interval_s if self._for_throughput else latency_s)

    def busy_s(self, chips: Chips) -> Floats:
        """Seconds of each chip's stage, infinite where its memory does not hold it (5), and until the last transfer on
        the link behind it ends, of each partition, [B, 2, C].
        """
        return self._simulated(chips)[1]

    def peak_bytes(self, chips: Chips) -> Floats:
        """Most memory that any chip uses at any time, of each partition, [B]."""
        return np.asarray(self._simulated(chips)[2].max(axis=1, initial=0.0))

    def simulation(self, chip: Sequence[int]) -> Simulation:
        """All that one partition does."""
        return simulate_one(self._problem.graph, self.package, chip)

    def overflows(self, chip: Sequence[int]) -> list[Overflow]:
        """Why a partition cannot run: the chips whose memory does not hold their stage; empty where it can."""
        stages = self.simulation(chip).stages
        return [self._overflow(stage) for stage in stages if stage.peak_bytes > self.package.sram_bytes]

    def never_fitting(self) -> list[tuple[str, float]]:
        """Operators that no partition has the memory for, and the bytes that each needs at least, largest first."""
        needed = min_bytes(self._operators)
        positions = [
            int(place) for place in np.argsort(-needed, kind="stable") if needed[place] > self.package.sram_bytes
        ]
        return [(self._problem.graph.labels[place], float(needed[place])) for place in positions]

    def trace(self, chip: Sequence[int], max_events: int = MAX_EVENTS) -> TraceEvents:
        """One interval of the steady state: a lane for each chip, its weights, and each link.

        Beyond ``max_events`` the shortest ones are left out.
        """
        simulation = self.simulation(chip)
        lanes, spans = _lanes(simulation), list(self._spans(simulation))
        shown = sorted(spans, key=lambda span: span.start_s - span.end_s)[:max_events]
        left_out = "" if len(shown) == len(spans) else f", longest {len(shown)} of {len(spans)} events shown"
        title = (
            f"{self._problem.graph.name} on {self.package.name}: one interval of {time_text(simulation.interval_s)} "
            f"({len(simulation.stages)} chips){left_out}"
        )
        return trace(title, lanes, shown)

    def _simulated(self, chips: Chips) -> tuple[Floats, Floats, Floats]:
        """(latency of one input [B], busy seconds [B, 2, C], peak bytes [B, C]) of each partition; read-only.

        The last batch is remembered: whoever asks for its costs and for what was busy pays for one simulation.
        """
        batch = np.ascontiguousarray(chips, dtype=np.int8)
        key = batch.shape, batch.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self._simulate(batch)
        return self._last[1]

    def _simulate(self, chips: Chips) -> tuple[Floats, Floats, Floats]:
        count = self._problem.chips
        latency_s, busy_s, peak_bytes = simulate(read_only(chips), self._operators, self._rates, MAX_CHIPS)
        busy_s, peak_bytes = busy_s[:, :, :count], peak_bytes[:, :count]
        busy_s[:, 0][(peak_bytes > self.package.sram_bytes) | self._too_heavy(chips)] = np.inf
        for each in (latency_s, busy_s, peak_bytes):
            each.flags.writeable = False
        return latency_s, busy_s, peak_bytes

    def _too_heavy(self, chips: Chips) -> npt.NDArray[np.bool_]:
        """Whether the weights of each chip are beyond the problem's own limit, of each partition, [B, C]."""
        count = self._problem.chips
        limit_bytes = self._problem.memory_bytes
        if limit_bytes is None:
            return np.zeros((len(chips), count), dtype=np.bool_)
        weight_bytes = self._problem.graph.weight_bytes
        held = np.stack([(chips == number) @ weight_bytes for number in range(count)], axis=1)
        return np.asarray(held > limit_bytes * (1 + _RELATIVE_TOLERANCE))

    def _overflow(self, stage: SimulatedChip) -> Overflow:
        step = stage.fullest
        return Overflow(
            stage.chip,
            tuple(self._problem.graph.labels[operator] for operator in step.operators),
            stage.peak_bytes,
            step.live_bytes,
            step.weight_bytes,
            stage.buffer_bytes,
            self.package.sram_bytes,
        )

    def _spans(self, simulation: Simulation) -> Iterator[Span]:
        names, chips = self._problem.graph.labels, len(simulation.stages)
        for stage in simulation.stages:
            lane = 3 * stage.chip
            yield Span(lane, "stage start", "start", 0.0, stage.steps[0].start_s)
            for step in stage.steps:
                yield Span(lane, _title(names, step.operators), "operators", step.start_s, step.end_s)
            for stream in stage.streams:
                yield Span(lane + 1, _title(names, stream.operators), "weights", stream.start_s, stream.end_s)
        for each in simulation.transfers:
            if each.link < chips - 1:
                yield Span(3 * each.link + 2, names[each.operator], "transfer", each.start_s, each.end_s)


def _lanes(simulation: Simulation) -> list[str]:
    """Names of three lanes per chip: its units, its weights, and the link to the next one."""
    return [
        name
        for stage in simulation.stages
        for name in (
            f"chip {stage.chip}: {time_text(stage.seconds)}, {stage.peak_bytes / MEGA:.1f} MB",
            f"chip {stage.chip}: weights",
            f"link {stage.chip} → {stage.chip + 1}",
        )
    ]


def _title(names: Sequence[str], operators: tuple[int, ...]) -> str:
    """A group by its operators."""
    first = names[operators[0]]
    return first if len(operators) == 1 else f"{first} + {len(operators) - 1} to {names[operators[-1]]}"
