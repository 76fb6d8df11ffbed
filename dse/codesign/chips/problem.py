"""The co-search over chips: what is chosen, what limits it, and what is maximised.

A chip has cores c (array, units, lanes, SRAM) at a clock f, a memory, a link rate and a domain, and is made in a node
and a number of dies. Of models m with the plan p on K packages::

    throughput_m = global_batch / min over plans that fit of step_s(c, f, memory, network, p)
    score        = mean over models of throughput_m / d(chip)

with steps as ``dse plan`` prices them on the chip's template, and d by objective:

    throughput   1
    per-watt     K · W at the clock, with all units, memory and links at work
    per-mm2      mm² of the dies of a package
    per-dollar, per-price    K · dollars a second of a package in a server, at what it costs or sells for
    per-kg       K · kg CO2e a second: what a package took to make, over the years of its use, and electricity

Limits: the area of a die with its interfaces, its edge, the power of a package, its cost. A cap on power allows every
clock at which demand is within it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dse.codesign.chips.silicon import Realisation, Silicon, silicon
from dse.codesign.objective import Objective, Per
from dse.plan.model import Transformer
from dse.plan.problem import PlanProblem
from dse.plan.stack import Stack
from hardware.area import area_model
from hardware.chip_space import ChipSpace, CoreDesigns, Memory
from hardware.chips import Chip, System
from hardware.cost_model import CostModel
from hardware.machines import Machines
from hardware.mapped_kernels import attention_tile_bytes
from hardware.network import Network
from hardware.precisions import ELEMENT_BYTES
from hardware.silicon.tables import Fitted
from hardware.units import KIB, MIB, bytes_from_gib

SECONDS_PER_HOUR = 3600.0

TRAINED_IN = ("fp16", "bf16", "fp8", "mxfp8")
"""Precisions of plans that are tried where none is fixed."""


class Limits(NamedTuple):
    """Of a package; infinite where there is none."""

    power_w: float = np.inf
    usd: float = np.inf


class Links(NamedTuple):
    """What joins packages: the peak rate of one inside a domain, and how many a domain has."""

    bytes_per_s: float
    domain: int


@dataclass(frozen=True)
class ChipProblem:
    """What is searched.

    Attributes:
        models: what trains, each with the tokens of a sample.
        objective: over the models.
        space: of chips.
        limits: of a package; that of a die is in the space.
        cost_model: of the template.
        scale_out: the network between domains.
        accelerators: packages; a plan uses all of them.
        global_batch: samples of a step.
        stack: the software.
        fixed_plan: (key, value) of what is given of the plan, without its precision.
        precisions: that plans may have, in the order of the formats of the space.
        within: share of the best score, by which chips that are listed beside the answer are below it at most.
        pareto: figures of a front next to the answer (:mod:`dse.codesign.chips.front_figures`).
        pareto_gap: share by which a chip that is not on the front may exceed one that is.
        constants: of area and power, where they are not the fitted ones.
        wider: the space that the space is like, if it is like one.
        chips: the training plans on each of the real chips that are compared with the answer, one of each model.
    """

    models: tuple[tuple[Transformer, int], ...]
    objective: Objective
    space: ChipSpace
    limits: Limits
    cost_model: CostModel
    scale_out: Network
    accelerators: int
    global_batch: int
    stack: Stack
    fixed_plan: tuple[tuple[str, Any], ...]
    precisions: tuple[str, ...]
    within: float = 0.0
    pareto: tuple[str, ...] = ()
    pareto_gap: float = 0.0
    constants: Fitted | None = None
    wider: ChipSpace | None = None
    chips: tuple[tuple[PlanProblem, ...], ...] = ()

    @property
    def realisations(self) -> tuple[Realisation, ...]:
        """Nodes and numbers of dies."""
        space = self.space
        return tuple(
            Realisation(node, dies) for node in sorted(space.nodes.values) for dies in sorted(space.dies.values)
        )

    def formats_of(self, precision: str) -> int:
        """How many formats of the space a chip has at least that computes in ``precision``, one of them."""
        formats = self.space.formats
        return max(formats.least, next(number for number, each in enumerate(formats.values, 1) if each == precision))

    def precisions_of(self, precision: str) -> tuple[str, ...]:
        """Of plans on chips with the fewest formats that have this one, of which others are left to others' chips.

        One model has its own; several may share a chip.
        """
        if len(self.models) == 1:
            return (precision,)
        formats = self.formats_of(precision)
        return tuple(each for each in self.precisions if self.formats_of(each) <= formats)

    def holds(self, cores: CoreDesigns) -> NDArray[np.bool_]:
        """Whether SRAM holds the operands of an array twice and, of fused attention, a tile of every model; [N]."""
        local, sides = cores.local_kib * KIB, cores.width + cores.depth
        word = self.cost_model.hardware.element_bytes.value
        enough = (local >= 2 * word * sides) & (
            cores.shared_mib * MIB >= 2 * word * (cores.width * cores.depth + sides)
        )
        if self.stack.attention.value == "fused":
            for model, _ in self.models:
                widths = model.key_width, model.context_width
                enough &= local >= attention_tile_bytes(cores.width, cores.depth, *widths, word)
        return enough

    def network(self, links: Links) -> Network:
        """What joins packages."""
        up = self.space.scale_up
        inner = Network(
            name="scale-up",
            bytes_per_s=links.bytes_per_s * up.efficiency.value,
            latency_s=up.latency_s.value,
            launch_s=up.launch_s.value,
            domain_accelerators=links.domain,
        )
        if self.accelerators <= links.domain:
            return inner
        return replace(self.scale_out, name="chip", inner=inner, inner_accelerators=links.domain)

    def machines(self, cores: CoreDesigns, clock_hz: float, memory: Memory, dies: int = 1) -> Machines:
        """Cores as kernels see them; areas are not needed."""
        rules = self.cost_model.hardware
        d2d_bytes_per_s = self.space.d2d_bytes_per_s.value if dies > 1 else 0.0
        return Machines(
            tensor_cores=cores.units.copy(),
            core_width=cores.width.copy(),
            core_depth=cores.depth.copy(),
            vector_cores=cores.units.copy(),
            vector_lanes=cores.lanes.copy(),
            tensor_l2_bytes=cores.local_kib * KIB,
            vector_l2_bytes=area_model().l2_bytes(cores.width),
            global_buffer_bytes=cores.shared_mib * MIB,
            area_mm2=np.zeros(len(cores)),
            clock_hz=clock_hz,
            hbm_bytes_per_s=memory.bytes_per_s,
            global_buffer_words_per_cycle=rules.global_buffer_words_per_cycle.value,
            element_bytes=rules.element_bytes.value,
            rules=rules,
            dies=dies,
            d2d_bytes_per_s=d2d_bytes_per_s or np.inf,
        )

    def plan_problem(self, model: int, precision: str, links: Links, machine: Machines, memory: Memory) -> PlanProblem:
        """The training plan of one model on a chip with these cores; ``machine`` is the first of them."""
        transformer, sequence = self.models[model]
        peak = float(machine.peak_flops[0])
        rates = {each: peak * 2.0 / ELEMENT_BYTES[each] for each in self.space.formats.values}
        chip = Chip(
            name="template",
            title="A chip of the space",
            peak_flops=rates | {"bf16": peak, "fp16": peak, precision: peak * 2.0 / ELEMENT_BYTES[precision]},
            hbm_bytes=bytes_from_gib(memory.total_gb),
            hbm_bytes_per_s=memory.bytes_per_s,
            network="chip",
        )
        fixed = tuple(sorted({**dict(self.fixed_plan), "precision": precision}.items()))
        system = System(chip, self.network(links))
        sizes = self.accelerators, self.global_batch, sequence
        return PlanProblem(transformer, system, *sizes, self.stack, fixed, machine)

    def silicon(
        self,
        cores: CoreDesigns,
        how: Realisation,
        memory: Memory,
        links: Links,
        precision: str,
        any_sram: bool = False,
    ) -> Silicon:
        """What designs take with the fewest formats that have ``precision``."""
        return silicon(
            self.space, cores, how, memory, links.bytes_per_s, self.formats_of(precision), any_sram, self.constants
        )

    def divisor(self, made: Silicon, clock_hz: Any, per: Per | None = None) -> Any:
        """What throughput is divided by for the objective, or for another one, [N]."""
        each_s = self.accelerators / SECONDS_PER_HOUR
        per = per or self.objective.per
        match per:
            case "per-watt":
                return self.accelerators * made.watts(clock_hz)
            case "per-mm2":
                return made.package_mm2
            case "per-dollar" | "per-price":
                return each_s * made.usd_per_hour(clock_hz, per == "per-price")
            case "per-kg":
                return each_s * made.kg_per_hour(clock_hz)
            case _:
                return np.ones(len(made.usd))

    def document(self) -> Mapping[str, Any]:
        """Everything that decides the answer, in JSON types."""
        weights = None if self.objective.weights is None else list(self.objective.weights)
        return {
            "models": [
                {"model": model.model_dump(mode="json"), "sequence": sequence} for model, sequence in self.models
            ],
            "objective": {"per": self.objective.per, "mean": self.objective.mean, "weights": weights},
            "space": self.space.model_dump(mode="json"),
            "limits": {name: None if np.isinf(each) else each for name, each in self.limits._asdict().items()},
            "cost_model": self.cost_model.model_dump(mode="json"),
            "scale_out": self.scale_out.document(),
            "accelerators": self.accelerators,
            "global_batch": self.global_batch,
            "stack": self.stack.model_dump(mode="json"),
            "fixed_plan": dict(self.fixed_plan),
            "precisions": list(self.precisions),
            "within": self.within,
            "pareto": list(self.pareto),
            "pareto_gap": self.pareto_gap,
            "chips": [[each.document() for each in chip] for chip in self.chips],
        }
