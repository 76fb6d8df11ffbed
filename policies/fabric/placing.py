"""Whether a student places better than the rules that it corrects, on graphs held out from its training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import Pipeline
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.run.progress import ProgressCallback, StopSignal, ask
from hardware.fabrics import Fabric
from policies.fabric.student_checkpoint import TrainedStudent
from policies.fabric.study.intervals import MIN_GRAPHS, Interval, mean_interval

_PROGRESS = "held-out graphs placed"

MAX_GRAPHS = 40
"""So that a comparison takes about a minute on a small fabric."""

STUDENT_MOVES, RULE_MOVES = 220, 330
"""Of a chain for each unit: with as many moves for all graphs, those of many units would be compared long before their
chains are cold. A move with the student takes about 1.4 times as long as one under tuned rules
(`benchmarks.fabric_moves`)."""


@dataclass(frozen=True)
class Placing:
    """A chain guided by a student, compared with a longer one under rules alone, on the same graphs with the same seed.

    Attributes:
        graphs: that were placed; those beyond the student's range, which are left to the rules in use, are not.
        gain: throughput over that under the rules, less 1, on average over graphs, with its 90 % interval over graphs
            (bootstrap); None with fewer than :data:`~policies.fabric.study.intervals.MIN_GRAPHS`.
    """

    graphs: int
    gain: Interval | None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Placing":
        """What :func:`dataclasses.asdict` wrote, possibly with other keys."""
        gain = document["gain"]
        ends = None if gain is None else {name: float(gain[name]) for name in ("value", "low", "high")}
        return cls(document["graphs"], None if ends is None else Interval(**ends))

    @property
    def is_worse(self) -> bool:
        """Whether the student places worse, with the whole interval."""
        return self.gain is not None and self.gain.high < 0

    @property
    def verdict(self) -> str:
        """What this says, in a sentence."""
        if self.gain is None:
            return f"It is unknown whether the learned cost places better: too few unseen graphs ({self.graphs})."
        low, high = self.gain.low, self.gain.high
        says = (
            "places better than" if low > 0 else "places worse than" if high < 0 else "shows no clear difference from"
        )
        size = f"{self.gain.value:+.1%} [{low:+.1%}, {high:+.1%}]"
        return (
            f"The learned cost {says} the rules in about the same time: throughput {size} on {self.graphs} unseen "
            "graphs."
        )


def placing(
    trained: TrainedStudent,
    pipelines: Sequence[Pipeline],
    fabric: Fabric,
    seed: int,
    stop: StopSignal,
    progress: ProgressCallback,
) -> Placing:
    """Place the first :data:`MAX_GRAPHS` of the graphs that are within the student's range.

    Graphs that end in a deadlock under the rules are left out; a deadlock under the student is a throughput of 0.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    gains, ended, out_of_range = [], 0, 0
    for pipeline in pipelines:
        if ended == MAX_GRAPHS:
            break
        if trained.out_of_range(pipeline, fabric):
            out_of_range += 1
            continue
        progress(_PROGRESS, ended, min(len(pipelines) - out_of_range, MAX_GRAPHS))
        gain = _gain(trained, pipeline, fabric, seed, stop)
        ask(stop)  # a chain that is stopped ends early, and says nothing
        ended += 1
        if gain is not None:
            gains.append(gain)
    if ended:
        progress(_PROGRESS, ended, ended)
    return Placing(len(gains), mean_interval(np.array(gains), seed) if len(gains) >= MIN_GRAPHS else None)


def _gain(trained: TrainedStudent, pipeline: Pipeline, fabric: Fabric, seed: int, stop: StopSignal) -> float | None:
    simulator, rules = Simulator(pipeline, fabric), trained.rules

    def interval_slots(moves: int, guided: bool) -> float | None:
        student = trained.student if guided else None
        schedule = rules.schedule(AnnealSettings(moves * len(pipeline.units)))
        annealing = Annealing(pipeline, fabric, rules.weights, schedule, stop, student)
        return throughput(simulator, annealing(Chain(seed)).placement).interval_slots

    under_rules = interval_slots(RULE_MOVES, guided=False)
    if under_rules is None:
        return None
    under_student = interval_slots(STUDENT_MOVES, guided=True)
    return -1.0 if under_student is None else under_rules / under_student - 1
