"""The co-search problem (paper section 3) and its solution.

Given a model, an area budget and a number of accelerators: over every architecture of the space, every microbatch size,
HBM size, tensor-parallel width, and recomputing or stashing activations, find the highest training throughput::

    throughput(architecture) = global_batch / min batch_s(placement of the model's scheduled layers)

Each HBM size h has its own optimum over the space, T(h), and T does not fall as h grows. The answer is the optimum at
the smallest h with T(h) ≥ 0.99 · max T: memory that buys less than one per cent is not bought.

Ties are broken by smaller area, then by position in the space.
"""

import math
from dataclasses import dataclass, field

from dse.models.hyperparameters import Hyperparameters
from dse.models.recipe import TrainingRecipe, recipe_for
from dse.placement.problem import Placement
from dse.schedule.problem import ScheduleSolution
from hardware.cost_model import CostModel
from hardware.network import Network

HBM_TOLERANCE = 0.01
"""The smallest HBM whose throughput is within this share of the best is chosen (paper section 6.1)."""


@dataclass(frozen=True)
class CodesignProblem:
    """What is searched: one model, the machine around the accelerator, and the choices of the training job.

    ``area_budget_mm2`` is None for the space's own budget (the area of the TPUv4-like machine). ``hbm_bytes`` and
    ``microbatches`` are ascending.
    """

    model: Hyperparameters
    cost_model: CostModel
    network: Network
    accelerators: int = 1024
    global_batch: int = 4096
    microbatches: tuple[int, ...] = (1, 2, 4, 8)
    hbm_bytes: tuple[int, ...] = ()
    tensor_parallel: tuple[int, ...] = (1,)
    area_budget_mm2: float | None = None

    @property
    def recipe(self) -> TrainingRecipe:
        """How the cost model trains, as the model builders take it."""
        return recipe_for(self.cost_model)

    @property
    def network_bytes_per_s(self) -> float:
        """The bandwidth that placement sees: the network's, in the cost model's own clock (see network_time_factor)."""
        return self.network.bytes_per_s / self.cost_model.hardware.network_time_factor.value


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

    ``bound_s`` has a lower bound on the batch time for each HBM size (infinite where nothing fits).
    """

    architecture: int
    plans: tuple[TrainingPlan | None, ...]
    bound_s: tuple[float, ...]

    @property
    def proven(self) -> bool:
        """Whether the plans are optimal: every bound is reached."""
        return all(
            bound_s == (math.inf if plan is None else plan.placement.batch_s)
            for plan, bound_s in zip(self.plans, self.bound_s, strict=True)
        )


@dataclass(frozen=True)
class SearchOutcome:
    """What a search over the space found.

    ``best`` is the answer's architecture, ``plan`` its plan at the chosen HBM size; ``bound_per_s`` an upper bound on
    the throughput of every architecture at that HBM size; ``proven`` tells whether the bound is reached at every HBM
    size, so that the choice of the size is proven too. ``upper_per_s`` has the bound of every architecture, by
    position in the space, ``evaluated`` the throughput of those evaluated exactly, both at the chosen HBM size.
    """

    best: int | None
    plan: TrainingPlan | None
    bound_per_s: float
    upper_per_s: tuple[float, ...]
    evaluated: dict[int, float]
    evaluations: int
    proven: bool
    optimum_by_hbm_per_s: dict[int, float] = field(default_factory=dict)
    stopped: str | None = None

    @classmethod
    def nothing_fits(cls, architectures: int) -> "SearchOutcome":
        """The outcome where no placement fits the memory, on any of the ``architectures``."""
        return cls(None, None, 0.0, (0.0,) * architectures, {}, 0, proven=True)
