"""The question of strategy ``pipeline``: a profile to cut, and the names that its points have for users."""

from dataclasses import dataclass
from typing import Any

from dse.parallel.pipeline.methods import PipelineContext
from dse.parallel.pipeline.problem import DeviceCutting, PipelineProblem
from dse.parallel.pipeline.profiling import StepProfile
from dse.run.progress import StopSignal, never_stop

Edge = tuple[int, int, int]
"""(the point that makes an array, one that takes it, its bytes)"""


@dataclass(frozen=True, eq=False)
class Source:
    """What is cut, by its own names.

    Attributes:
        name: of the step.
        instructions: of each point the one that it begins with, [N]; all different.
        labels: of each point what the framework calls it, [N]; empty where it says nothing.
        update_s: of the update of trained tensors on one device, which the length does not count.
        notes: what the reader of the step assumed, for people.
        document: what was read, in JSON types.
        edges: what points hand on to points.
        given: where a plan in the file cuts the points; None without one.
        framework: as of :class:`dse.graph.step.StepGraph`.
    """

    name: str
    instructions: tuple[str, ...]
    labels: tuple[str, ...]
    update_s: float
    notes: tuple[str, ...]
    document: Any
    edges: tuple[Edge, ...] = ()
    given: tuple[int, ...] | None = None
    framework: str = ""


@dataclass(frozen=True, eq=False)
class PipelineQuestion:
    """A pipeline to be planned.

    Attributes:
        source: what is cut.
        problem: its profile, the devices, and what a plan has to keep.
        device_cutting: which ways there are to cut the devices.
        accelerator: each device, by name.
        step: the step whose profile is cut; None of a profile in a file.
    """

    source: Source
    problem: PipelineProblem
    device_cutting: DeviceCutting
    accelerator: str
    step: StepProfile | None = None

    def context(self, seed: int = 0, stop: StopSignal = never_stop) -> PipelineContext:
        """What a method is given."""
        return PipelineContext(self.problem, self.device_cutting, seed, stop)
