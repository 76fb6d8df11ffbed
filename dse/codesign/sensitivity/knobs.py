"""What a sensitivity analysis turns: each knob makes one co-search problem into another.

A knob is turned by a factor of today's setting. Whole-numbered ones (batch, accelerators) take the nearest setting that
is allowed, so the factor that they really have is ``value(turned) / value(problem)``.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

from dse.codesign.problem import CodesignProblem
from hardware.area import area_model
from hardware.cost_model import CostModel, HardwareRules
from hardware.machines import Machines
from hardware.network import Network
from hardware.space import architecture_space
from hardware.units import UM2_PER_MM2

_ROUNDING = 1e-12


class Knob(ABC):
    """One quantity of a problem that can be turned up and down."""

    key: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[str]

    @abstractmethod
    def value(self, problem: CodesignProblem) -> float:
        """Today's setting, in ``unit``."""

    @abstractmethod
    def turned(self, problem: CodesignProblem, factor: float) -> CodesignProblem:
        """The problem with ``factor`` times the setting, or the nearest allowed one."""

    def applies(self, problem: CodesignProblem) -> bool:
        """Whether the problem has such a setting."""
        return True

    def never_lowers(self, problem: CodesignProblem) -> bool:
        """Whether more of it never lowers the score of any architecture: every plan stays, and none gets slower."""
        # A faster plan may draw more power, so nothing is said of samples per joule.
        return problem.objective.per != "per-watt"

    def widest(self, problem: CodesignProblem, machines: Machines, factor: float) -> Machines:
        """Architectures that hold all those at any factor up to ``factor``; ``machines`` are the problem's."""
        return machines

    def space(self, problem: CodesignProblem, machines: Machines, factor: float) -> Machines:
        """Those of ``machines`` (all or part of :meth:`widest`) that there are at ``factor``, as they are then."""
        return machines


class HbmBandwidth(Knob):
    """The bandwidth of the memory of one accelerator."""

    key, title, unit = "hbm_bandwidth", "HBM bandwidth", "bytes/s"

    def value(self, problem: CodesignProblem) -> float:
        """The fixed accelerator's own, else the cost model's."""
        if problem.fixed is not None:
            return problem.fixed.machines.hbm_bytes_per_s
        return problem.cost_model.hardware.hbm_bytes_per_s.value

    def turned(self, problem: CodesignProblem, factor: float) -> CodesignProblem:
        """The cost model of every job, and the fixed accelerator, with another bandwidth."""
        jobs = tuple(replace(job, cost_model=_with_bandwidth(job.cost_model, factor)) for job in problem.jobs)
        fixed = problem.fixed
        if fixed is not None:
            fixed = replace(fixed, machines=self.space(problem, fixed.machines, factor))
        return replace(problem, jobs=jobs, fixed=fixed)

    def never_lowers(self, problem: CodesignProblem) -> bool:
        """Where interfaces take area, faster ones take more."""
        grows = problem.objective.per == "per-mm2" and problem.cost_model.hardware.interfaces_take_area.value
        return super().never_lowers(problem) and not grows

    def space(self, problem: CodesignProblem, machines: Machines, factor: float) -> Machines:
        """The same machines with another bandwidth."""
        bytes_per_s = self.value(problem) * factor
        rules = problem.fixed.machines.rules if problem.fixed is not None else problem.cost_model.hardware
        return replace(machines, hbm_bytes_per_s=bytes_per_s, rules=with_hbm_bandwidth(rules, factor))


class HbmSize(Knob):
    """The memory of one accelerator: every size that is offered."""

    key, title, unit = "hbm_size", "HBM size", "bytes"

    def value(self, problem: CodesignProblem) -> float:
        """The largest size that is offered."""
        return float(problem.hbm_bytes[-1])

    def turned(self, problem: CodesignProblem, factor: float) -> CodesignProblem:
        """Every job with other sizes."""
        sizes = tuple(round(size * factor) for size in problem.hbm_bytes)
        return replace(problem, jobs=tuple(replace(job, hbm_bytes=sizes) for job in problem.jobs))


class NetworkBandwidth(Knob):
    """The bandwidth of the network at every level; latencies stay."""

    key, title, unit = "network_bandwidth", "network bandwidth", "bytes/s"

    def value(self, problem: CodesignProblem) -> float:
        """The rate of one accelerator in one direction."""
        return problem.network.bytes_per_s

    def turned(self, problem: CodesignProblem, factor: float) -> CodesignProblem:
        """Every job on another network."""
        return replace(
            problem, jobs=tuple(replace(job, network=faster_links(job.network, factor)) for job in problem.jobs)
        )

    def never_lowers(self, problem: CodesignProblem) -> bool:
        """Where interfaces take area, faster ones take more."""
        grows = problem.objective.per == "per-mm2" and problem.cost_model.hardware.interfaces_take_area.value
        return super().never_lowers(problem) and not grows


class AreaBudget(Knob):
    """The largest area of an architecture.

    The smallest one stays: the published space holds no machine of several cores below a share of the budget, and a
    larger budget must not take any away. So a budget that grows only adds architectures, and one that shrinks only
    removes some.
    """

    key, title, unit = "area_budget", "area budget", "mm2"

    def value(self, problem: CodesignProblem) -> float:
        """The budget; the area model's reference where none is given."""
        if problem.area_budget_mm2 is not None:
            return problem.area_budget_mm2
        return area_model().reference_um2 / UM2_PER_MM2

    def turned(self, problem: CodesignProblem, factor: float) -> CodesignProblem:
        """The problem of another budget."""
        return replace(problem, area_budget_mm2=self.value(problem) * factor)

    def applies(self, problem: CodesignProblem) -> bool:
        """A fixed accelerator has the area that it has."""
        return problem.fixed is None

    def never_lowers(self, problem: CodesignProblem) -> bool:
        """The score of an architecture does not depend on the budget."""
        return True

    def widest(self, problem: CodesignProblem, machines: Machines, factor: float) -> Machines:
        """The space of the larger budget, with the smallest area (where there is one) of the problem's own."""
        if factor <= 1:
            return machines
        budget_mm2 = self.value(problem)
        larger_mm2 = budget_mm2 * factor
        return architecture_space(larger_mm2, problem.cost_model, floor_budget_mm2=budget_mm2, space=problem.space)

    def space(self, problem: CodesignProblem, machines: Machines, factor: float) -> Machines:
        """The machines within the budget."""
        return machines.take(machines.area_mm2 <= self.value(problem) * factor * (1 + _ROUNDING))


class GlobalBatch(Knob):
    """Samples per batch, in multiples of every microbatch."""

    key, title, unit = "global_batch", "global batch", "samples"

    def value(self, problem: CodesignProblem) -> float:
        """Samples of the first job's batch."""
        return float(problem.jobs[0].global_batch)

    def never_lowers(self, problem: CodesignProblem) -> bool:
        """Ends of batches that fill no round of the pipelines make throughput a saw-tooth."""
        return False

    def turned(self, problem: CodesignProblem, factor: float) -> CodesignProblem:
        """Every job with another batch: the nearest multiple of every microbatch of every job."""
        step = math.lcm(*(size for job in problem.jobs for size in job.microbatch_sizes))
        jobs = (
            replace(job, global_batch=max(1, round(job.global_batch * factor / step)) * step) for job in problem.jobs
        )
        return replace(problem, jobs=tuple(jobs))


class Accelerators(Knob):
    """The number of accelerators."""

    key, title, unit = "accelerators", "accelerators", "accelerators"

    def value(self, problem: CodesignProblem) -> float:
        """Accelerators of a job."""
        return float(problem.accelerators)

    def turned(self, problem: CodesignProblem, factor: float) -> CodesignProblem:
        """Every job on another number of accelerators; of a network with levels, those that they need."""
        count = max(1, round(problem.accelerators * factor))
        jobs = (replace(job, accelerators=count, network=job.network.spanning(count)) for job in problem.jobs)
        return replace(problem, jobs=tuple(jobs))

    def never_lowers(self, problem: CodesignProblem) -> bool:
        """On several levels, more accelerators may need a slower network."""
        return problem.network.inner is None and super().never_lowers(problem)


KNOBS: dict[str, Knob] = {
    knob.key: knob
    for knob in (HbmBandwidth(), HbmSize(), NetworkBandwidth(), AreaBudget(), GlobalBatch(), Accelerators())
}
"""Every knob by its key, in the order in which they are shown."""


def faster_links(network: Network, factor: float) -> Network:
    """The network with ``factor`` times the bandwidth at every level; latencies stay."""
    inner = None if network.inner is None else faster_links(network.inner, factor)
    return replace(network, bytes_per_s=network.bytes_per_s * factor, inner=inner)


def with_hbm_bandwidth(rules: HardwareRules, factor: float) -> HardwareRules:
    """The rules with ``factor`` times the bandwidth of memory."""
    quantity = rules.hbm_bytes_per_s
    scaled = quantity.model_copy(update={"value": quantity.value * factor})
    return rules.model_copy(update={"hbm_bytes_per_s": scaled})


def _with_bandwidth(model: CostModel, factor: float) -> CostModel:
    return model.model_copy(update={"hardware": with_hbm_bandwidth(model.hardware, factor)})
