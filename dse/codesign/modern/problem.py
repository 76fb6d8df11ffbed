"""The co-search over accelerators whose plans have the vocabulary of :mod:`dse.plan`, and what it has found.

Over every architecture of the space and every HBM size, the model is trained by the fastest plan that fits::

    throughput(architecture) = global_batch / min step_s(plan on the architecture)

with steps as docs/method/plan.md counts them, and kernels priced on the architecture's own cores
(:mod:`dse.plan.template_kernels`). HBM size and ties are chosen as in :mod:`dse.codesign.problem`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dse.plan.model import Transformer
from dse.plan.problem import PlanProblem, machine_document
from dse.plan.stack import Stack
from dse.plan.training_plan import TrainingPlan
from hardware.area import area_model
from hardware.chips import Chip, System
from hardware.cost_model import CostModel, vector_cycles
from hardware.machines import Machines
from hardware.network import Network
from hardware.packed_words import WORD_BYTES, word_rate
from hardware.precisions import ELEMENT_BYTES, PRECISIONS
from hardware.space import SpaceSpec, architecture_space
from hardware.specs import Accelerator

PRECISION = "bf16"
"""Of plans that state none: the template has words of 16 bits."""


@dataclass(frozen=True)
class ModernProblem:
    """What is searched.

    Attributes:
        model: what trains.
        cost_model: of the template.
        network: what joins the accelerators.
        accelerators: how many there are; a plan uses all of them.
        global_batch: samples of a step.
        sequence: tokens of a sample.
        hbm_bytes: the HBM sizes to choose from, ascending.
        stack: the software.
        fixed_plan: (key, value) of what is given of the plan.
        space: the sizes of the architectures to choose from.
        area_budget_mm2: None for the budget of the space.
        fixed: the one accelerator, where there is nothing to choose.
        chips: the training plan on each of the real chips that are compared with the answer.
    """

    model: Transformer
    cost_model: CostModel
    network: Network
    accelerators: int
    global_batch: int
    sequence: int
    hbm_bytes: tuple[int, ...]
    stack: Stack
    fixed_plan: tuple[tuple[str, Any], ...]
    space: SpaceSpec
    area_budget_mm2: float | None = None
    fixed: Accelerator | None = None
    chips: tuple[PlanProblem, ...] = ()

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def precision(self) -> str:
        """Of the operands of linear layers."""
        precision: str = dict(self.fixed_plan)["precision"]
        return precision

    @property
    def formats(self) -> Mapping[str, float]:
        """Rates of products by the format of their operands, over those of words of 16 bits."""
        if self.fixed is None:
            return {"fp16": 1.0, "bf16": 1.0} | {each: times.value for each, times in self.space.formats.items()}
        rates = dict(self.fixed.products.flops_per_s)
        words = word_rate(rates)
        return {
            each: 1.0 if ELEMENT_BYTES[each] == WORD_BYTES else rates[each] / words
            for each in PRECISIONS
            if each in rates
        }

    def machines(self) -> Machines:
        """The architectures to choose from."""
        if self.fixed is not None:
            return self.fixed.machines
        return architecture_space(self.area_budget_mm2, self.cost_model, space=self.space)

    def interface_mm2(self, machines: Machines) -> float:
        """Area of the interfaces to HBM and network, which ``area_mm2`` of ``machines`` is without.

        0 for a template of a node, whose area is that of whole dies.
        """
        if machines.process_nm is not None:
            return 0.0
        return area_model().interface_mm2(machines.hbm_bytes_per_s, self.network.all_bytes_per_s)

    def plan_problem(self, machine: Machines, hbm_bytes: int) -> PlanProblem:
        """The problem of the plan on one architecture with so much memory."""
        chip = Chip(
            name="template",
            title="An accelerator of the template",
            peak_flops={each: times * float(machine.peak_flops[0]) for each, times in self.formats.items()},
            hbm_bytes=hbm_bytes,
            hbm_bytes_per_s=machine.hbm_bytes_per_s,
            network=self.network.name,
        )
        system = System(chip, self.network)
        sizes = self.accelerators, self.global_batch, self.sequence
        return PlanProblem(self.model, system, *sizes, self.stack, self.fixed_plan, machine)

    def document(self) -> dict[str, Any]:
        """Everything that decides the answer, in JSON types."""
        optional: dict[str, Any] = {"chips": [each.document() for each in self.chips]} if self.chips else {}
        if ELEMENT_BYTES[self.precision] != WORD_BYTES:
            optional["formats"] = dict(self.formats)
        return optional | {
            "model": self.model.model_dump(mode="json"),
            "cost_model": self.cost_model.model_dump(mode="json"),
            "vector_cycles": vector_cycles(self.cost_model.hardware.vector_cycles).model_dump(mode="json"),
            "area_model": area_model().model_dump(mode="json"),
            "network": self.network.document(),
            "accelerators": self.accelerators,
            "global_batch": self.global_batch,
            "sequence": self.sequence,
            "hbm_bytes": list(self.hbm_bytes),
            "stack": self.stack.model_dump(mode="json"),
            "fixed_plan": dict(self.fixed_plan),
            "space": self.space.model_dump(mode="json"),
            "area_budget_mm2": self.area_budget_mm2,
            "fixed": None if self.fixed is None else machine_document(self.fixed.machines),
        }


@dataclass(frozen=True)
class ModernSpace:
    """The problem and its architectures."""

    problem: ModernProblem
    machines: Machines


@dataclass(frozen=True)
class ModernOptimum:
    """The best at one HBM size: an architecture by position, the plan on it, its step and its fullest rank."""

    architecture: int
    plan: TrainingPlan
    step_s: float
    memory_bytes: float
