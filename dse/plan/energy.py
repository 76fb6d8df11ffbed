"""Joules of training steps on accelerators of the template.

A step costs what its kernels and collectives do on every rank, and static power all the time::

    joules = ranks of a stage · (microbatches · Σ_stages (passes + what each microbatch exchanges)
                                 + Σ_stages (what a step exchanges once + optimizer)
                                 + 2 · microbatches · (stages · chunks − 1) · transfer)
             + devices · static power · step

It is the sum that :mod:`dse.plan.step` makes of seconds, with joules in their place and nothing hidden: a kernel costs
what :mod:`hardware.energy` says of its best mapping, its lanes and its bytes, regardless of what it sustains; a
collective costs the bytes that a ring sends, on any link, and its additions, as vector work. Fused attention spends on
what a mask leaves of its scores. Products of narrow operands are those of packed words.

Joules of products and of everything else are also there alone: products of a microbatch depend on few axes of a plan
(:data:`PRODUCT_KEYS`), everything else on few sizes of an accelerator.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dse.plan.end_work import EndWork
from dse.plan.kernels import Lanes
from dse.plan.plan_arrays import Floats, Integers, PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.stack import Stack
from dse.plan.step import OPTIMIZER_STEP_BYTES, Step
from dse.plan.template_kernels import MachineKernels, Products, distinct_rows, product_work
from hardware.cost_model import vector_cycles
from hardware.energy import memory_energy, pass_energy, sent_energy, static_w, tensor_energy
from hardware.energy_model import EnergyModel
from hardware.machines import Machines
from hardware.operations import REDUCING, CollectiveKind
from hardware.packed_words import PackedWords
from hardware.spec_fields import Choice

_J_PER_PJ = 1e-12

PRODUCT_KEYS = ("tensor", "sequence_parallel", "context", "expert", "microbatch")
"""Keys of a plan on which the products of a step depend; recomputation adds to them."""

_OVERLAPS = ("overlaps_tensor", "overlaps_data", "overlaps_pipeline", "overlaps_context", "overlaps_expert")


def step_joules(
    problem: PlanProblem, plans: PlanArrays, machines: Machines, model: EnergyModel, step_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Joules of a step of P plans on A machines whose steps take ``step_s``, [P, A]."""
    dynamic = dynamic_joules(problem, plans, machines, model)
    static = problem.devices * static_w(machines, problem.system.chip.hbm_bytes, model)
    joules: NDArray[np.float64] = dynamic + static * step_s
    return joules


def dynamic_joules(
    problem: PlanProblem, plans: PlanArrays, machines: Machines, model: EnergyModel
) -> NDArray[np.float64]:
    """Joules of a step of P plans on A machines without static power, [P, A]."""
    unhidden = _unhidden(problem)
    return _joules(unhidden, plans, JouleKernels(unhidden, machines, model))


def product_joules(
    problem: PlanProblem, plans: PlanArrays, machines: Machines, model: EnergyModel
) -> NDArray[np.float64]:
    """What products spend of :func:`dynamic_joules`, [P, A]."""
    unhidden = _unhidden(problem)
    every = _CountedProducts(unhidden, machines, model, 1)
    _joules(unhidden, plans.part([0]), every)
    products = _CountedProducts(unhidden, machines, model, len(every.priced))
    counts = _joules(unhidden, plans, products)
    joules = np.zeros((plans.count, len(machines)))
    for with_hbm in (True, False):
        kinds = [kind for kind, (_, each) in enumerate(products.priced) if each == with_hbm]
        if not kinds:
            continue
        shapes = np.concatenate([products.priced[kind][0] for kind in kinds])
        distinct, place = distinct_rows([*shapes.T])
        each_j = tensor_energy([product_work(*row) for row in distinct.tolist()], machines, model, with_hbm)
        for kind, places in zip(kinds, place.reshape(len(kinds), -1), strict=True):
            joules += counts[:, [kind]] * each_j[places]
    return joules


def other_joules(
    problem: PlanProblem, plans: PlanArrays, machines: Machines, model: EnergyModel
) -> NDArray[np.float64]:
    """What everything but products spends of :func:`dynamic_joules`, [P, A]."""
    unhidden = _unhidden(problem)
    return _joules(unhidden, plans, _OtherJoules(unhidden, machines, model))


def _joules(unhidden: PlanProblem, plans: PlanArrays, kernels: "JouleKernels") -> NDArray[np.float64]:
    joules = _JouleStep(unhidden, plans.repeated(kernels.machines), kernels).joules()
    return joules.reshape(plans.count, kernels.machines)


def _unhidden(problem: PlanProblem) -> PlanProblem:
    """The problem where no work hides another."""
    nothing = Choice(value=False, source="no joule hides behind another")
    stack: Stack = problem.stack.model_copy(update=dict.fromkeys(_OVERLAPS, nothing))
    fixed = tuple((key, value) for key, value in problem.fixed if not key.startswith("overlap_"))
    return replace(problem, stack=stack, fixed=fixed)


class JouleKernels(MachineKernels):
    """Joules of kernels on A machines, in place of seconds.

    Attributes:
        word_bytes: of a word.
        sent_byte_j: of a byte over a link, with its reading and writing.
    """

    def __init__(self, problem: PlanProblem, machines: Machines, model: EnergyModel) -> None:
        super().__init__(problem, len(machines), machines.element_bytes)
        self._product_share = self._vector_share = self._grouped_share = self._attention_share = 1.0
        self._machines, self._energy = machines, model
        self._cycles = vector_cycles(machines.rules.vector_cycles).cycles
        self._byte_j, self._passed_byte_j = memory_energy(machines, model), pass_energy(machines, model)
        self.word_bytes, self.sent_byte_j = machines.element_bytes, sent_energy(model)

    def _products_s(self, products: Products) -> Floats:
        return self._mapped_j(products, with_hbm=True)

    def _on_chip_s(self, products: Products) -> Floats:
        return self._mapped_j(products, with_hbm=False)

    def _packed_products_s(self, products: Products, packed: PackedWords) -> Floats:
        del packed
        return self._products_s(products)

    def _narrow_products_s(self, whole: Products, of_words: Products, packed: PackedWords) -> Floats:
        del whole
        return self._packed_products_s(of_words, packed)

    def _mapped_j(self, products: Products, with_hbm: bool) -> Floats:
        distinct, inverse = distinct_rows([each[:: self.machines] for each in products])
        work = [product_work(*row) for row in distinct.tolist()]
        joules = tensor_energy(work, self._machines, self._energy, with_hbm)
        return np.ascontiguousarray(joules[inverse]).ravel()

    def _together(self, first_s: Floats, second_s: Floats) -> Floats:
        return first_s + second_s

    def _memory_s(self, size_bytes: Floats) -> Floats:
        return self._on_each(self._byte_j, size_bytes)

    def _vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        cycle_j = _J_PER_PJ * self._energy.lane_cycle_pj
        joules = self._on_each(self._passed_byte_j, size_bytes)
        for kind, elements, _ in lanes:
            joules = joules + np.broadcast_to(elements, size_bytes.shape) * (self._cycles[kind].value * cycle_j)
        return joules

    def _on_each(self, joules: NDArray[np.float64], of: Floats) -> Floats:
        """``joules`` [A] of each machine, for ``of`` [P · A]."""
        return np.tile(joules, len(of) // self.machines) * of


class _CountedProducts(JouleKernels):
    """How often each product is done, in place of joules: the j-th "machine" counts those that are priced j-th.

    Attributes:
        priced: the products so far, and whether what passes between HBM and the global buffer counts.
    """

    def __init__(self, problem: PlanProblem, machines: Machines, model: EnergyModel, kinds: int) -> None:
        super().__init__(problem, machines, model)
        self.machines, self.sent_byte_j = kinds, 0.0
        self.priced: list[tuple[Floats, bool]] = []

    def _mapped_j(self, products: Products, with_hbm: bool) -> Floats:
        counts = np.zeros((len(products.m) // self.machines, self.machines))
        counts[:, len(self.priced) % self.machines] = 1.0
        self.priced.append((np.stack([each[:: self.machines] for each in products], axis=1), with_hbm))
        return counts.ravel()

    def _memory_s(self, size_bytes: Floats) -> Floats:
        return np.zeros(len(size_bytes))

    def _vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        return np.zeros(len(size_bytes))


class _OtherJoules(JouleKernels):
    """Joules of everything but products."""

    def _mapped_j(self, products: Products, with_hbm: bool) -> Floats:
        return np.zeros(len(products.m))


class _JouleWork(EndWork):
    """The work of plans on one rank in joules: collectives cost what they send and add."""

    def __init__(self, problem: PlanProblem, plans: PlanArrays, kernels: JouleKernels) -> None:
        super().__init__(problem, plans, kernels)
        self._joules = kernels

    def collective(self, kind: CollectiveKind, size_bytes: Floats, participants: Integers, stride: Integers) -> Floats:
        """Joules of one participant."""
        del stride
        share_bytes = np.broadcast_to(size_bytes, self.plans.count) * (participants - 1) / participants
        sent_bytes = share_bytes / participants if kind == "all_to_all" else share_bytes
        rounds = 2.0 if kind == "all_reduce" else 1.0
        joules = rounds * self.neighbour_s(sent_bytes)
        if kind in REDUCING:
            added = Lanes("add", share_bytes / self._joules.word_bytes)
            joules = joules + self._joules.vector_s(3.0 * share_bytes, added)
        return joules

    def neighbour_s(self, size_bytes: Floats) -> Floats:
        """Joules of a transfer, the receiver's included."""
        joules: Floats = size_bytes * self._joules.sent_byte_j
        return joules


class _JouleStep(Step):
    """A step whose parts are joules."""

    def __init__(self, problem: PlanProblem, plans: PlanArrays, kernels: JouleKernels) -> None:
        super().__init__(problem, plans, kernels)
        self.work = _JouleWork(problem, plans, kernels)

    def joules(self) -> Floats:
        """Of all ranks, without static power, [P]."""
        plans, stages = self.plans, self.stages
        each, once = self.replica_collectives
        updated = self.shared_out(self.sharing_from(1))
        update_bytes = OPTIMIZER_STEP_BYTES + 2.0 * self.problem.software.moment_bytes
        update = [self.work.kernels.vector_s(update_bytes * own, Lanes("adam", own)) for own in updated.T]
        transfers = 2.0 * (plans.pipeline * plans.interleave - 1) * self.transfer_s
        every = self.microbatches * ((stages.number * (sum(self.passes) + each)).sum(axis=1) + transfers)
        of_stages = every + (stages.number * (once + np.stack(update, axis=1))).sum(axis=1)
        joules: Floats = self.problem.devices / plans.pipeline * of_stages
        return joules
