"""The methods of strategy ``pipeline`` by name; learned ones are added at the roof (:mod:`dse.cli.methods`)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from types import MappingProxyType

from dse.parallel.pipeline.exact import Answer, DeviceCuts, every, near, server_cuts, solve
from dse.parallel.pipeline.problem import RADIUS, DeviceCutting, PipelineProblem
from dse.run.progress import StopSignal, never_stop


@dataclass(frozen=True)
class PipelineContext:
    """What a method is given.

    Attributes:
        problem: what is cut.
        device_cutting: which ways there are to cut the devices.
        seed: of all random choices.
        stop: checked between pieces of work.
    """

    problem: PipelineProblem
    device_cutting: DeviceCutting = "free"
    seed: int = 0
    stop: StopSignal = never_stop

    def device_cuts(self) -> Iterator[DeviceCuts]:
        """All ways to cut the devices that are allowed.

        Raises:
            ValueError: stages that do not divide the devices, unless devices are cut freely.
        """
        problem = self.problem
        match self.device_cutting:
            case "equal":
                return iter([server_cuts(problem)])
            case "near":
                return near(server_cuts(problem), RADIUS, problem.devices)
            case _:
                return every(problem.devices, problem.stages)


PipelineMethod = Callable[[PipelineContext], Answer]
"""The best plan that a method finds; ``bound_s`` is 0 where it proves nothing. Plans must be without faults
(:func:`dse.parallel.pipeline.length.faults`) and cut the devices in one of the ways of the context.
"""


def exact(context: PipelineContext, enough_s: float = inf) -> Answer:
    """The shortest plan with its proof: of equal stages first, which is often the shortest of all.

    The proof ends where no plan is shorter than ``enough_s``.
    """
    problem, start = context.problem, None
    if isfinite(enough_s):
        listed = solve(problem, context.device_cuts(), context.stop, enough_s=0.0)
        if listed.bound_s >= enough_s:
            return listed
    if problem.devices % problem.stages == 0 and context.device_cutting != "equal":
        start = solve(problem, [server_cuts(problem)], context.stop).plan
    return solve(problem, context.device_cuts(), context.stop, start, enough_s=enough_s)


METHODS: Mapping[str, PipelineMethod] = MappingProxyType({"exact": exact})
