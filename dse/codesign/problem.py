"""The co-search problem (paper section 3) and its solution.

Given one model or several, an area budget and a number of accelerators: over every architecture of the space, every
microbatch size, HBM size, tensor-parallel width, and recomputing or stashing activations, every model is trained by its
fastest plan::

    throughput(architecture) = global_batch / min batch_s(placement of the model's scheduled layers)

What is maximised is a mean over models of throughput, throughput per watt or throughput per mm²
(:mod:`dse.codesign.objective`); for one model and throughput that is the throughput itself. All models share the
architecture and its HBM size; microbatch, placement and recomputing are each model's own.

Each HBM size h has its own optimum over the space, S(h). The answer is the optimum at the smallest h with
S(h) ≥ 0.99 · max S: memory that buys less than one per cent is not bought.

Ties are broken by smaller area, then by position in the space.
"""

import math
from dataclasses import dataclass, field

from dse.codesign.objective import THROUGHPUT, Objective
from dse.models.recipe import TrainingRecipe, recipe_for
from dse.models.workload import Workload
from dse.placement.problem import PipelineSchedule, Placement
from dse.schedule.problem import ScheduleSolution
from hardware.area import area_model
from hardware.cost_model import CostModel
from hardware.machines import Machines
from hardware.network import Network
from hardware.space import SpaceSpec, architecture_space, space_spec
from hardware.specs import Accelerator

HBM_TOLERANCE = 0.01
"""The smallest HBM whose throughput is within this share of the best is chosen (paper section 6.1)."""


@dataclass(frozen=True)
class TrainingJob:
    """One model, the machine around the accelerator, and the choices of its training.

    ``hbm_bytes`` and ``microbatch_sizes`` are ascending. At ``dropped_microbatch_sizes``, which were requested too, the
    model has no graph, for the reasons that are given.
    """

    workload: Workload
    cost_model: CostModel
    network: Network
    accelerators: int = 1024
    global_batch: int = 4096
    microbatch_sizes: tuple[int, ...] = (1, 2, 4, 8)
    hbm_bytes: tuple[int, ...] = ()
    tensor_parallel: tuple[int, ...] = (1,)
    pipeline_schedule: PipelineSchedule = "1f1b"
    dropped_microbatch_sizes: tuple[tuple[int, str], ...] = ()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.workload.name

    @property
    def recipe(self) -> TrainingRecipe:
        """How the cost model trains, as the model builders take it."""
        return recipe_for(self.cost_model)

    @property
    def network_bytes_per_s(self) -> float:
        """The bandwidth that placement sees: the network's, in the cost model's own clock (see network_time_factor)."""
        return self.network.accelerator_bytes_per_s / self.cost_model.hardware.network_time_factor.value

    @property
    def node_bytes_per_s(self) -> float:
        """The same of the network inside a node; 0 on a flat network."""
        return self.network.node_bytes_per_s / self.cost_model.hardware.network_time_factor.value


@dataclass(frozen=True)
class CodesignProblem:
    """What is searched: the jobs that one architecture has to serve, what is maximised, and the area it may take.

    All jobs have the same HBM sizes, cost model, network and number of accelerators, and different names.
    ``area_budget_mm2`` is None for the default budget (the area of the TPUv4-like machine), ``own_space`` for the space
    of the cost model. With ``fixed`` there is nothing to choose but the plans: the space is that accelerator alone.
    """

    jobs: tuple[TrainingJob, ...]
    objective: Objective = THROUGHPUT
    area_budget_mm2: float | None = None
    fixed: Accelerator | None = None
    own_space: SpaceSpec | None = None

    @property
    def space(self) -> SpaceSpec:
        """The sizes of the architectures to choose from."""
        return self.own_space or space_spec(self.cost_model.hardware.space.name)

    @property
    def name(self) -> str:
        """The models' names, joined."""
        return "+".join(job.name for job in self.jobs)

    @property
    def hbm_bytes(self) -> tuple[int, ...]:
        """The HBM sizes to choose from."""
        return self.jobs[0].hbm_bytes

    @property
    def cost_model(self) -> CostModel:
        """The cost model of all jobs."""
        return self.jobs[0].cost_model

    @property
    def network(self) -> Network:
        """The network of all jobs."""
        return self.jobs[0].network

    @property
    def accelerators(self) -> int:
        """Accelerators that each job has."""
        return self.jobs[0].accelerators

    def machines(self) -> Machines:
        """The architectures to choose from."""
        if self.fixed is not None:
            return self.fixed.machines
        return architecture_space(self.area_budget_mm2, self.cost_model, space=self.space)

    def interface_mm2(self, machines: Machines) -> float:
        """Area of the interfaces to HBM and network that the dies of ``machines`` have in addition to their
        ``area_mm2``.

        0 for real chips, whose area is that of the whole die, and under cost models that leave interfaces out.
        """
        if machines.process_nm is not None or not self.cost_model.hardware.interfaces_take_area.value:
            return 0.0
        return area_model().interface_mm2(machines.hbm_bytes_per_s, self.network.all_bytes_per_s)


@dataclass(frozen=True)
class LayerSchedules:
    """The proven (or bounded) schedules of one distinct layer on one architecture, and its optimizer step."""

    forward: ScheduleSolution
    backward: ScheduleSolution
    update: ScheduleSolution


@dataclass(frozen=True)
class TrainingPlan:
    """How the model is trained on one architecture: a placement at one microbatch, HBM size and recompute choice.

    ``bound_s`` is a lower bound on the batch time of any plan on this architecture at this HBM size: below
    ``placement.batch_s`` only where a layer's schedule is not proven optimal. ``schedule_nodes`` is the limit to which
    its layers' schedules were searched, which makes them again.
    """

    microbatch: int
    hbm_bytes: int
    recompute: bool
    placement: Placement
    bound_s: float
    schedule_nodes: int

    def throughput_per_s(self, global_batch: int) -> float:
        """Samples per second."""
        return global_batch / self.placement.batch_s


@dataclass(frozen=True)
class Evaluation:
    """One architecture, evaluated exactly: for each HBM size (same order as the problem's) its plan, if one fits.

    ``bound_s`` has a lower bound on the batch time for each HBM size (infinite where nothing fits), ``bound_j``, where
    energy is requested, one on the joules of a batch under the fastest plan.
    """

    architecture: int
    plans: tuple[TrainingPlan | None, ...]
    bound_s: tuple[float, ...]
    bound_j: tuple[float, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether the plans are optimal: every one has the time of its bound."""
        return all(
            bound_s == (math.inf if plan is None else plan.placement.batch_s)
            for plan, bound_s in zip(self.plans, self.bound_s, strict=True)
        )


@dataclass(frozen=True)
class SizeOptimum:
    """The best that a search has found at one HBM size: an architecture, its score, and the plan of each job on it."""

    architecture: int
    score: float
    plans: tuple[TrainingPlan, ...]

    @property
    def schedule_nodes(self) -> tuple[int, ...]:
        """The limit to which each job's schedules were searched."""
        return tuple(plan.schedule_nodes for plan in self.plans)


@dataclass(frozen=True)
class SearchOutcome:
    """What a search over the space found. Scores are values of the objective, by position in the space.

    Attributes:
        best: the answer's architecture; None before any answer, or where nothing fits.
        plans: the plan of each job on it, at the chosen HBM size.
        bound: no architecture scores more at that HBM size (infinite where not known).
        upper: an upper bound on the score of every architecture (empty where none was computed).
        evaluated: the scores of those evaluated exactly, in the order of evaluation.
        evaluations: exact evaluations of one architecture for one job.
        proven: whether the best score is the bound at every HBM size, so that the choice of the size is proven too.
        optima: the best found at each HBM size at which there is something, by the size in bytes.
        stopped: why the search ended early; None where it did not.
    """

    best: int | None
    plans: tuple[TrainingPlan, ...]
    bound: float
    upper: tuple[float, ...]
    evaluated: dict[int, float]
    evaluations: int
    proven: bool
    optima: dict[int, SizeOptimum] = field(default_factory=dict)
    stopped: str | None = None

    @property
    def optimum_by_hbm(self) -> dict[int, float]:
        """The best score found at each HBM size."""
        return {size: optimum.score for size, optimum in self.optima.items()}

    @classmethod
    def nothing_fits(cls, architectures: int) -> "SearchOutcome":
        """The outcome where some model has no placement that fits the memory, on any of the ``architectures``."""
        return cls(None, (), 0.0, (0.0,) * architectures, {}, 0, proven=True)
