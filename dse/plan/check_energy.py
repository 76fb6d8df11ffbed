"""Joules of one plan on an accelerator of the template, in plain numbers: what the checker trusts.

It shares no code with :mod:`dse.plan.energy`: it lists the operators of every layer and adds up their joules, as
:mod:`dse.plan.check_costs` does with seconds. What a product moves comes from the hardware's mapping, which is part of
the problem's definition.
"""

import math
from dataclasses import dataclass, replace

from dse.plan.check_costs import plan_costs
from dse.plan.check_kernels import CoreShape, Rates, Scan
from dse.plan.check_layers import RankCosts
from dse.plan.check_mesh import Axes, members
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan
from hardware.cost_model import vector_cycles
from hardware.energy import static_w, tensor_energy
from hardware.energy_model import EnergyModel
from hardware.gemm import TensorWork
from hardware.machines import Machines
from hardware.operations import CollectiveKind, Gemm, VectorKind


def plan_joules(problem: PlanProblem, plan: TrainingPlan, step_s: float, energy: EnergyModel) -> float:
    """Of a step of ``step_s`` on all devices, static power included."""
    assert problem.machine is not None, "only templates have energies"
    shown = replace(
        plan,
        overlap_tensor="no",
        overlap_context="no",
        overlap_expert="no",
        overlap_gradients="no",
        overlap_weights="no",
        overlap_pipeline="no",
    )
    costs = plan_costs(problem, shown, _JouleCosts(problem, shown, energy))
    rounds = math.ceil(problem.global_batch / (plan.data * plan.microbatch))
    # Each stage counts a transfer to a next one, which the last one of the last chunk lacks, both ways.
    passes = sum(sum(each) for each in costs.passes_s) - 2 * costs.transfer_s
    dynamic = problem.devices / plan.pipeline * (rounds * passes + sum(costs.once_s))
    idle_w = float(static_w(problem.machine, problem.system.chip.hbm_bytes, energy)[0])
    return dynamic + problem.devices * idle_w * step_s


@dataclass(frozen=True)
class _JouleRates(Rates):
    """Joules of kernels in place of seconds."""

    energy: EnergyModel

    @property
    def _machine(self) -> Machines:
        assert self.problem.machine is not None, "only templates have energies"
        return self.problem.machine

    def _product_j(self, gemm: Gemm, more: tuple[float, float] = (0.0, 0.0), with_hbm: bool = True) -> float:
        return float(tensor_energy([TensorWork(gemm, *more)], self._machine, self.energy, with_hbm)[0, 0])

    def _lanes_j(self, elements: float, kinds: tuple[VectorKind, ...]) -> float:
        cycles = vector_cycles(self._machine.rules.vector_cycles).cycles
        return 1e-12 * self.energy.lane_cycle_pj * elements * sum(cycles[kind].value for kind in kinds)

    def product_s(
        self, m: float, n: float, k: float, size: float, is_expert: bool = False
    ) -> tuple[float, float, float]:
        """Joules; operands of fewer bytes than a word lie side by side along the inner dimension."""
        m, n, k = math.ceil(m), math.ceil(n), math.ceil(k)

        def words(inner: int) -> int:
            return math.ceil(inner * size / 2)

        wide = self.gradient_bytes / self._machine.element_bytes * k * n
        weight = self._product_j(Gemm(k, n, words(m)), (wide, wide - k * n))
        return self._product_j(Gemm(m, n, words(k))), self._product_j(Gemm(m, k, words(n))), weight

    def pass_s(self, size_bytes: float, elements: float, row: float, kinds: tuple[VectorKind, ...]) -> float:
        """Joules of bytes on their way between HBM and lanes, through buffer and L2, and of the lanes."""
        buffer_pj = float(self.energy.sram_pj_per_byte(self._machine.global_buffer_bytes)[0])
        core_pj = float(self.energy.sram_pj_per_byte(self._machine.vector_l2_bytes)[0])
        byte_pj = self.energy.hbm_pj_per_byte + 2 * buffer_pj + 2 * core_pj
        return 1e-12 * byte_pj * size_bytes + self._lanes_j(elements, kinds)

    def scan_s(self, scan: Scan) -> float:
        """Joules of a forward pass over a recurrence, whose scores stay on chip."""
        buffer_pj = float(self.energy.sram_pj_per_byte(self._machine.global_buffer_bytes)[0])
        products = (tuple(map(math.ceil, sides)) for sides in scan.products)
        joules = sum(self._product_j(Gemm(*sides), with_hbm=False) for sides in products)
        moved_j = 1e-12 * (self.energy.hbm_pj_per_byte + buffer_pj) * scan.moved_bytes
        return joules + self._lanes_j(scan.on_lanes, ("multiply",)) + moved_j

    def attention_s(
        self, samples: float, queries: float, heads: float, shape: CoreShape, seen: float
    ) -> tuple[float, float]:
        """Joules of attention's core by pass; fused, on what a mask leaves of its scores."""
        model, tokens, keys = self.problem.model, self.problem.sequence, shape.keys
        rows, batch = math.ceil(heads / keys * queries), int(samples * keys)
        k, v, pairs = int(shape.wide), int(shape.deep), float(rows * batch * tokens)
        scores, contexts = Gemm(rows, tokens, k, batch), Gemm(rows, v, tokens, batch)
        gradients = [Gemm(tokens, v, rows, batch), Gemm(rows, tokens, v, batch)]
        gradients += [Gemm(rows, k, tokens, batch), Gemm(tokens, k, rows, batch)]
        there: tuple[VectorKind, ...] = ("scale", "add", "softmax", *(("dropout",) if model.dropout else ()))
        back: tuple[VectorKind, ...] = ("softmax_backward", "scale", *(("dropout_backward",) if model.dropout else ()))
        if self.problem.stack.attention.value == "unfused":
            sizes = (9, 11) if model.dropout else (4, 6)
            passes = [([scores, contexts], there, sizes[0]), (gradients, back, sizes[1])]
            first, second = (
                sum(map(self._product_j, gemms)) + self.pass_s(size * pairs, pairs, tokens, kinds)
                for gemms, kinds, size in passes
            )
            return first, second
        buffer_pj = float(self.energy.sram_pj_per_byte(self._machine.global_buffer_bytes)[0])
        moved = self._machine.element_bytes * samples * (queries * heads + tokens * keys) * (k + v)
        moved_j = 1e-12 * (self.energy.hbm_pj_per_byte + buffer_pj) * moved
        share = seen / tokens
        forward = sum(self._product_j(gemm, with_hbm=False) for gemm in (scores, contexts))
        backward = sum(self._product_j(gemm, with_hbm=False) for gemm in (scores, *gradients))
        return (
            share * (forward + self._lanes_j(pairs, there)) + moved_j,
            share * (backward + self._lanes_j(pairs, (*there, *back))) + 2 * moved_j,
        )


class _JouleCosts(RankCosts):
    """What a plan makes of one rank in joules."""

    def __init__(self, problem: PlanProblem, plan: TrainingPlan, energy: EnergyModel) -> None:
        super().__init__(problem, plan)
        self._energy = energy
        self.rates = _JouleRates(problem, plan.precision, self.state.gradients, energy)

    def collective(self, kind: CollectiveKind, size: float, axes: Axes) -> float:
        """Of one participant: what a ring sends, and adds in words of two bytes."""
        ranks = members(axes)
        part = size * (ranks - 1) / ranks
        if kind == "all_to_all":
            return self.neighbour_s(part / ranks)
        if kind == "all_gather":
            return self.neighbour_s(part)
        added = self.rates.pass_s(3 * part, part / 2, 1, ("add",))
        return self.neighbour_s(2 * part if kind == "all_reduce" else part) + added

    def neighbour_s(self, size: float) -> float:
        """Of bytes over a link, read on one side and written on the other."""
        return 1e-12 * (self._energy.network_pj_per_byte + 2 * self._energy.hbm_pj_per_byte) * size
