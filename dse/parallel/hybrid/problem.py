"""The problem of a hybrid plan, and a plan.

The forward part of a step is cut into stages, and the devices in a row are given to them, as in a pipeline. A stage has
whole servers, or one of the equal parts of a server, if that is no less than an equal share of all devices. Its devices
are replicas of T neighbours inside a server, T a divisor of both: with T = 1 they do equal shares of each microbatch,
as in a pipeline; otherwise the stage is sharded over the T devices of each replica
(:mod:`dse.parallel.hybrid.stage_problem`). The only stage of a step of one microbatch is a sharded step over all
devices, of which those T are the innermost axis. The pipelines that strategy ``pipeline`` chooses among are plans, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from dse.parallel.hybrid.stage_problem import StageProblem
from dse.parallel.hybrid.stage_step import Stages, StageStep
from dse.parallel.mesh import mesh_of
from dse.parallel.pipeline.methods import PipelineContext
from dse.parallel.pipeline.problem import DeviceCutting, PipelinePlan, PipelineProblem, StateName
from dse.parallel.plan import Plan
from dse.parallel.problem import Device
from dse.parallel.resharding import PICO
from dse.run.progress import StopSignal, never_stop


@dataclass(frozen=True, eq=False)
class HybridProblem:
    """A step to be cut and sharded.

    Attributes:
        base: the pipeline of equal shares with the optimizer's update counted; its number of stages is the largest
            that there may be.
        steps: the step, by stages.
        device: each device.
        state: what a device keeps of trained tensors.
        cuts: where stages may begin, rising; neither at the first point nor behind the last.
        device_cutting: of pipelines that are plans, too: of the largest number of stages, all of equal shares, which
            may begin anywhere and have any of these devices. None where there are none.
    """

    base: PipelineProblem
    steps: Stages
    device: Device
    state: StateName
    cuts: tuple[int, ...]
    device_cutting: DeviceCutting | None = None

    @cached_property
    def server(self) -> int:
        """Devices of a server; all of them on a flat network."""
        return self.base.network.node_accelerators or self.base.devices

    @property
    def rounding_s(self) -> float:
        """By how much the work of a batch on one device can be above that of all parts: they are whole picoseconds."""
        return 4 * PICO * len(self.steps.graph.operations) * self.base.devices * self.base.microbatches

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The numbers of devices that a stage may have."""
        least = self.base.devices / self.base.stages
        parts = [width for width in range(1, self.server) if self.server % width == 0 and width >= least]
        return (*parts, *range(self.server, self.base.devices + 1, self.server))

    def meshes(self, width: int) -> tuple[int, ...]:
        """The numbers of devices of a replica in a stage of ``width`` devices, from 1."""
        return tuple(size for size in range(1, self.server + 1) if self.server % size == 0 and width % size == 0)

    def pipeline(self, stages: int) -> PipelineProblem:
        """The pipeline of equal shares of so many stages."""
        return replace(self.base, stages=stages)

    @property
    def shards_whole_steps(self) -> bool:
        """Whether a plan of one stage is a sharded step over all devices (:mod:`dse.parallel.hybrid.stage_problem`).

        Only of one microbatch. A sharded step keeps all of its arguments, and computes nothing again.
        """
        return self.base.microbatches == 1 and self.state == "optimizer" and not self.base.recompute

    def pipelines(self, seed: int = 0, stop: StopSignal = never_stop) -> PipelineContext | None:
        """The pipelines that are plans, as posed to their search; None if there are none."""
        if self.device_cutting is None:
            return None
        return PipelineContext(self.base, self.device_cutting, seed, stop)

    def stage_problem(
        self, step: StageStep, width: int, mesh: int, in_flight: int, is_piece: bool = False
    ) -> StageProblem:
        """The sharding problem of a stage of ``width`` devices in replicas, or groups, of ``mesh`` devices."""
        base, replicas = self.base, width // mesh
        is_whole = self.shards_whole_steps and width == base.devices and not is_piece
        groups = f"replica={replicas},model={mesh}" if replicas > 1 else str(mesh)
        return StageProblem(
            step.graph,
            mesh_of(groups if is_whole else str(mesh)),
            self.device,
            base.network,
            activations=is_whole,
            rules=step.rules,
            state_bytes=base.memory_bytes,
            step=step,
            replicas=1 if is_whole else replicas,
            microbatches=base.microbatches,
            in_flight=in_flight,
            state=self.state,
            recompute=base.recompute,
            is_piece=is_piece,
        )


@dataclass(frozen=True)
class Sharding:
    """How a stage is sharded: T, more than one, and the plan."""

    mesh: int
    plan: Plan


@dataclass(frozen=True)
class HybridPlan:
    """A plan.

    Attributes:
        cuts, device_cuts: as of a pipeline.
        shardings: of each stage; None where its devices do equal shares.
    """

    cuts: tuple[int, ...]
    device_cuts: tuple[int, ...]
    shardings: tuple[Sharding | None, ...]

    @property
    def pipeline(self) -> PipelinePlan:
        """Its cuts."""
        return PipelinePlan(self.cuts, self.device_cuts)

    def stages(self, problem: HybridProblem) -> Iterator[tuple[range, range, Sharding | None]]:
        """The points, the devices and the sharding of every stage."""
        ranges = self.pipeline.ranges(problem.base)
        for (points, devices), sharding in zip(ranges, self.shardings, strict=True):
            yield points, devices, sharding
