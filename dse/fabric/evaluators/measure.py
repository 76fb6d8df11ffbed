"""Throughput and latency of a placement, from departures that the simulator finds.

Departures are seldom periodic: a mean over a window of samples has an error, which a longer window makes smaller.
"""

from dataclasses import dataclass

from dse.fabric.evaluators.outcome import Outcome
from dse.fabric.evaluators.simulator import Simulator, Waits
from dse.fabric.model import Pipeline, Placement

WINDOW_SAMPLES = 16
"""Samples over which throughput is measured."""

BRIEF_SAMPLES, BRIEF_FIRST = 12, 4
"""Samples of a brief simulation, and how many of them depart before anything is measured."""

WARM_UP_SAMPLES = 5
"""Samples before the window, in addition to one for each stage of the pipeline."""


@dataclass(frozen=True)
class Throughput:
    """Throughput of a placement in its steady state.

    Attributes:
        interval_slots: mean time between departures; None in a deadlock.
        ideal_slots: slots of work of the slowest unit (:attr:`dse.fabric.model.Pipeline.ideal_slots`).
        slot_s: of the fabric.
        outcome: the departures.
    """

    interval_slots: float | None
    ideal_slots: int
    slot_s: float
    outcome: Outcome

    @property
    def samples_per_s(self) -> float:
        """Samples per second; 0 in a deadlock."""
        return 0.0 if self.interval_slots is None else 1 / (self.interval_slots * self.slot_s)

    @property
    def normalized(self) -> float:
        """Ideal over measured slots (paper, section IV-A), 0 in a deadlock; above 1 only by the error of the window."""
        return 0.0 if self.interval_slots is None else self.ideal_slots / self.interval_slots


def throughput(simulator: Simulator, placement: Placement, window_samples: int = WINDOW_SAMPLES) -> Throughput:
    """Mean time between departures over ``window_samples`` samples, after the warm-up, of a stream without end.

    Raises:
        ValueError: as :meth:`Simulator.simulate`, or a window without a sample.
    """
    if window_samples < 1:
        raise ValueError(f"`window_samples >= 1` must hold, but got {window_samples}")
    warm_up = _warm_up_samples(simulator.pipeline)
    return _throughput(simulator, simulator.simulate(placement, warm_up + window_samples), warm_up)


def throughput_and_waits(simulator: Simulator, placement: Placement) -> tuple[Throughput, Waits]:
    """As :func:`throughput`, with what the stream waits for in the same window: the causes sum to its slots.

    Raises:
        ValueError: as :meth:`Simulator.simulate`.
    """
    warm_up = _warm_up_samples(simulator.pipeline)
    waits = simulator.waits(placement, simulated_samples(simulator.pipeline), warm_up)
    return _throughput(simulator, waits.outcome, warm_up), waits


def simulated_samples(pipeline: Pipeline) -> int:
    """Samples that are simulated to measure throughput over :data:`WINDOW_SAMPLES`."""
    return _warm_up_samples(pipeline) + WINDOW_SAMPLES


def _warm_up_samples(pipeline: Pipeline) -> int:
    return pipeline.stages + WARM_UP_SAMPLES


def _throughput(simulator: Simulator, outcome: Outcome, warm_up: int) -> Throughput:
    """Of the departures after the warm-up."""
    interval_slots = None
    if not outcome.is_deadlock:
        window = outcome.departures[warm_up - 1 :]
        interval_slots = (window[-1] - window[0]) / (len(window) - 1)
    return Throughput(interval_slots, simulator.pipeline.ideal_slots, simulator.fabric.slot_s, outcome)


def latency_s(simulator: Simulator, placement: Placement, batch: int = 1) -> float | None:
    """Seconds from the start of an empty pipeline to the end of the last of ``batch`` samples; None in a deadlock.

    Raises:
        ValueError: as :meth:`Simulator.simulate`.
    """
    outcome = simulator.simulate(placement, batch, fed_samples=batch)
    return None if outcome.is_deadlock else (outcome.departures[-1] + 1) * simulator.fabric.slot_s
