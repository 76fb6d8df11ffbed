"""How ``dse fabric place`` searches, by the cost that judges placements; learned costs are added at the roof."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from dse.fabric.bound import bound
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import Integers, Pipeline, Placement, placement_faults
from dse.fabric.refining import Changed, Changing, Start, fastest
from dse.fabric.rules import Floats, RuleWeights, rule_cost
from dse.fabric.search.anneal import Annealed, Annealing, AnnealSettings, Chain
from dse.fabric.search.nearby import Nearby
from dse.fabric.search.ordered import ordered_sites
from dse.fabric.search.routing import routed
from dse.fabric.setting import ChosenRules, Setting
from dse.run.executor import Executor, Failed
from dse.run.journal import Journal
from dse.run.options import STRICT
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, ask
from hardware.fabrics import Fabric

COLD = 5e-4
"""Share of the initial temperature with which chains of few moves begin: hot ones would lose their order."""

SPREAD = RuleWeights(wirelength=0.1, squared_load=1.0, off_chip=0.1)
"""Rules for chains of few moves where none were tuned: nearly the sum of squared loads alone, which falls with every
detour that is taken out and with every flow that leaves a busy link. Few moves ever touch the busiest link or the worst
net, and to know these takes time in every move.
"""


def has_few_moves(pipeline: Pipeline, moves: int) -> bool:
    """Whether a chain has fewer moves than there are pairs of units: too few to anneal from sites at random."""
    return moves < len(pipeline.units) ** 2


@dataclass(frozen=True, eq=False)
class Candidate:
    """A placement that a search found.

    Attributes:
        chain: number of the chain that it comes from; −1 where none has ended.
        placement: legal.
        cost: by which it was annealed.
        moves: that its chain has tried.
        interval_slots: simulated; None where it was not simulated, or in a deadlock.
        is_simulated: whether the simulator has judged it.
        note: why another cost than the requested one has judged it, a sentence; empty where none has.
    """

    chain: int
    placement: Placement
    cost: float
    moves: int
    interval_slots: float | None = None
    is_simulated: bool = False
    note: str = ""


class _PlacementDocument(BaseModel):
    """A placement as it is in the journal, with its cost by the rules."""

    model_config = STRICT

    site: list[int]
    routes: list[list[int]]
    cost: float


class _ChainDocument(_PlacementDocument):
    """A chain that has ended."""

    kept: int


class _ChangedDocument(_PlacementDocument):
    """The fastest change in a round; no slots in a deadlock."""

    moves: int
    slots: float | None


Entry = TypeVar("Entry", bound=_PlacementDocument)


@dataclass(frozen=True)
class SearchContext:
    """What a search for the placement of one piece needs.

    Attributes:
        pipeline: what is placed.
        fabric: where.
        settings: of each chain of annealing, with the schedule that was not tuned.
        rounds: of refinement, where the simulator judges.
        tuned: the tuned rules with their schedule, or what stands in for them.
        chains: how many.
        seed: of all random choices: the run's and the number of the piece. A round of refinement spawns its own.
        label: of the piece in the journal.
        executor: where chains run.
        progress: called with the chains that have ended.
        stop: called between pieces of work.
        journal: chains and rounds of refinement that have ended; None where nothing is recorded.
    """

    pipeline: Pipeline
    fabric: Fabric
    settings: AnnealSettings
    rounds: int
    tuned: ChosenRules
    chains: int
    seed: tuple[int, ...]
    label: str
    executor: Executor
    progress: ProgressCallback
    stop: StopSignal
    journal: Journal | None = None

    @property
    def has_few_moves(self) -> bool:
        """As :func:`has_few_moves`, of each chain."""
        return has_few_moves(self.pipeline, self.settings.moves)

    def annealed(self, annealing: Callable[[Chain], Annealed], start: Integers | None = None) -> list[Candidate]:
        """The chains of ``annealing`` that have ended or were stopped, with the least cost first.

        They begin with the sites of ``start``, [U], or each with random ones.

        Where there are none, the placement with its sites in order, so that there always is one. One that was cut short
        while it had few moves behind it, from random sites, counts for none: the simulator likes sites in order better.
        Chains of the journal are not repeated; one that was cut short is not recorded.
        """
        seeds = self._seeds()
        ended = {number: chain for number in range(self.chains) if (chain := self._journalled(number)) is not None}
        waiting = [number for number in range(self.chains) if number not in ended]

        def arrived(outcomes: Sequence[tuple[Any, Any]]) -> None:
            for number, outcome in outcomes:
                if isinstance(outcome, Failed):
                    if outcome.error is not None:
                        raise outcome.error
                    continue  # the worker has died; the other chains go on
                is_whole = outcome.moves == self.settings.moves
                if not is_whole and start is None and has_few_moves(self.pipeline, outcome.moves):
                    continue
                ended[number] = outcome
                if is_whole and self.journal is not None:
                    self.journal.append(self._key(number), _chain_document(outcome))
                self.progress(f"annealing {self.label}", len(ended), self.chains)

        try:
            ask(self.stop)
            for _ in self.executor.outcomes(_Numbered(annealing, tuple(seeds), start), waiting, self.stop, arrived):
                pass
        except StoppedError:
            pass
        candidates = [
            Candidate(number, chain.placement, chain.cost, chain.moves) for number, chain in sorted(ended.items())
        ]
        return sorted(candidates, key=lambda each: each.cost) or [self.in_order()]

    def changed(
        self, changing: Callable[[tuple[Placement, Floats, int]], Changed], start: Start, number: int
    ) -> Changed | None:
        """The fastest change of ``start`` in a round, with the moves of all; None where none has ended.

        A round is recorded by the placement that it starts from, and only when all of its changes have ended: a resumed
        search, in which no worker dies, does not take over what another one found without a chain or a change.
        """
        # Not "round", which is in older journals: those were made in another way.
        key = f"{self.label}, changes {number + 1} from {_digest(start.placement)}"
        known = self._entry(key, _ChangedDocument)
        if known is not None:
            entry, placement = known
            return Changed(placement, entry.cost, entry.moves, np.inf if entry.slots is None else entry.slots)
        ended = []
        try:
            items = [(start.placement, start.shares, seed) for seed in self._seeds(number)]
            for outcome in self.executor.outcomes(changing, items, self.stop):
                if not isinstance(outcome, Failed):
                    ended.append(outcome)
                elif outcome.error is not None:
                    raise outcome.error
        except StoppedError:
            return None
        if not ended:
            return None
        best = replace(fastest(ended), moves=sum(each.moves for each in ended))
        if self.journal is not None and len(ended) == len(items):
            self.journal.append(key, _changed_document(best))
        return best

    def _seeds(self, *spawn_key: int) -> list[int]:
        """One for each chain; or one for each change in the round of ``spawn_key``.

        A number that is appended to the seed itself does not do: a sequence of seeds continues with zeros.
        """
        sequence = np.random.SeedSequence(self.seed, spawn_key=spawn_key)
        seeds: list[int] = np.random.default_rng(sequence).integers(2**63, size=self.chains).tolist()
        return seeds

    def in_order(self) -> Candidate:
        """The placement with its sites in order, which is simulated in half the time of a random one."""
        site = ordered_sites(self.pipeline, self.fabric)
        placement = routed(self.pipeline, site, self.fabric, self.settings.routing)
        return Candidate(-1, placement, rule_cost(self.pipeline, placement, self.fabric, self.tuned.setting.weights), 0)

    def _key(self, number: int) -> str:
        return f"{self.label}, chain {number}"

    def _journalled(self, number: int) -> Annealed | None:
        known = self._entry(self._key(number), _ChainDocument)
        if known is None:
            return None
        entry, placement = known
        return Annealed(placement, entry.cost, self.settings.moves, entry.kept)

    def _entry(self, key: str, kind: type[Entry]) -> tuple[Entry, Placement] | None:
        """An entry of the journal with its placement; None where there is none."""
        if self.journal is None or key not in self.journal:
            return None
        try:
            entry = kind.model_validate(self.journal[key])
            placement = Placement.of(entry.site, entry.routes)
            faults = placement_faults(self.pipeline, placement, self.fabric)
            if faults:
                raise ValueError(faults[0])
        except (ValidationError, ValueError) as error:
            raise self.journal.damaged(key, error) from error
        return entry, placement


@dataclass(frozen=True)
class _Numbered:
    """Chains by number, as a function for executors."""

    annealing: Callable[[Chain], Annealed]
    seeds: tuple[int, ...]
    start: Integers | None

    def __call__(self, number: int) -> Annealed:
        return self.annealing(Chain(self.seeds[number], self.start))


def _digest(placement: Placement) -> str:
    """Of the sites and routes, for keys."""
    parts = (placement.site.tolist(), placement.route_first.tolist(), placement.route_link.tolist())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _placement_document(placement: Placement, cost: float) -> dict[str, Any]:
    routes = [placement.route(net) for net in range(len(placement.route_first) - 1)]
    return {"site": placement.site.tolist(), "routes": routes, "cost": cost}


def _chain_document(chain: Annealed) -> dict[str, Any]:
    return {**_placement_document(chain.placement, chain.cost), "kept": chain.accepted}


def _changed_document(change: Changed) -> dict[str, Any]:
    slots = change.slots if np.isfinite(change.slots) else None
    return {**_placement_document(change.placement, change.cost), "moves": change.moves, "slots": slots}


Search = Callable[[SearchContext], list[Candidate]]
"""Candidates for the answer, the chosen one first; at least one."""


def by_rules(context: SearchContext) -> list[Candidate]:
    """Anneal under the untuned mixture of rules, and choose the chain whose placement has the least cost."""
    return _annealed_under(context, Setting.untuned())


def by_tuned(context: SearchContext) -> list[Candidate]:
    """As :func:`by_rules` under the tuned rules, or what stands in for them."""
    candidates = _annealed_under(context, _tuned_setting(context))
    return [replace(candidate, note=context.tuned.note) for candidate in candidates]


def by_simulator(context: SearchContext) -> list[Candidate]:
    """Anneal under the tuned rules, simulate the placement of each chain, and refine the fastest."""
    return refined(context, judged(context, by_tuned(context)))


def nearby_of(context: SearchContext) -> Nearby:
    """What changes placements in the rounds of a search."""
    weights = _tuned_setting(context).weights
    return Nearby(context.pipeline, context.fabric, weights, context.settings.routing)


def refined(context: SearchContext, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates and what becomes of the fastest one in some rounds, the fastest first.

    In each round as many changes of it as there are chains are simulated briefly, and the best one stays if it is
    faster (:mod:`dse.fabric.refining`), until it is as fast as the bound. Rounds of the journal are not repeated.
    """
    if not context.rounds:
        return list(candidates)
    changing = Changing(nearby_of(context), context.stop)
    min_slots, slots = bound(context.pipeline, context.fabric).slots, candidates[0].interval_slots
    if candidates[0].chain < 0 or context.stop() is not None or (slots is not None and slots <= min_slots):
        return list(candidates)
    try:
        slots = changing.slots(candidates[0].placement)
    except StoppedError:
        return list(candidates)
    first = best = Changed(candidates[0].placement, candidates[0].cost, 0, slots)
    start, tried = Start(changing, best.placement), 0
    for number in range(context.rounds):
        if best.slots <= min_slots or context.stop() is not None:
            break
        faster = context.changed(changing, start, number)
        if faster is None:
            break
        tried += faster.moves
        if faster.slots < best.slots:
            best, start = faster, Start(changing, faster.placement)
        context.progress(f"refining {context.label}", number + 1, context.rounds)
    if best is first:
        return list(candidates)
    last = Candidate(context.chains, best.placement, best.cost, tried, note=context.tuned.note)
    return _fastest_first([*candidates, *judged(context, [last])])


def _tuned_setting(context: SearchContext) -> Setting:
    """The tuned rules; or :data:`SPREAD`, where there are none for the fabric and moves are few."""
    setting = context.tuned.setting
    return replace(setting, weights=SPREAD) if context.tuned.note and context.has_few_moves else setting


def _annealed_under(context: SearchContext, setting: Setting) -> list[Candidate]:
    settings, start = setting.schedule(context.settings), None
    if context.has_few_moves:
        settings = replace(settings, initial_temperature=COLD * settings.initial_temperature)
        start = ordered_sites(context.pipeline, context.fabric)
    annealing = Annealing(context.pipeline, context.fabric, setting.weights, settings, context.stop)
    return context.annealed(annealing, start)


def judged(context: SearchContext, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates after simulation, the fastest first, ties in their order; some are not simulated if it is
    stopped, nor is one that has no rival and is not refined.
    """
    if len(candidates) == 1 and not context.rounds:
        return list(candidates)
    simulator = Simulator(context.pipeline, context.fabric, context.stop)
    judged = list(candidates)
    for number, each in enumerate(candidates):
        try:
            ask(context.stop)
            interval_slots = throughput(simulator, each.placement).interval_slots
        except StoppedError:
            break
        judged[number] = replace(each, interval_slots=interval_slots, is_simulated=True)
        context.progress(f"simulating {context.label}", number + 1, len(candidates))
    return _fastest_first(judged)


def _fastest_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda each: np.inf if each.interval_slots is None else each.interval_slots)


SIMULATOR = "simulator"
"""The cost that stands in for one from above where there is none for the fabric."""

COSTS: Mapping[str, Search] = MappingProxyType({"rules": by_rules, "tuned": by_tuned, SIMULATOR: by_simulator})
"""Searches by the name of their cost."""

LEARNED, LEARNED_SIMULATED = "learned", "learned+simulator"
"""The costs that come from a floor above."""

REFINED_COSTS = (SIMULATOR, LEARNED_SIMULATED)
"""The costs whose searches have rounds of refinement."""

AUTO = "auto"
"""Instead of the name of a cost: :data:`LEARNED_SIMULATED` where there is a student for the fabric."""
