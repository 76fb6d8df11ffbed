"""Operator and data plans by training on one step, in two stages (paper, 5.2.1)."""

from dataclasses import dataclass, replace

from dse.run.progress import StopSignal, never_stop
from policies.parallel.linkage.dimensions import Decided, Dimensions
from policies.parallel.linkage.episodes import DecisionSource, SplitPlan
from policies.parallel.settings import QSettings
from policies.parallel.training import QTraining

EPSILON_STEPS = {"variables": 2_000, "inputs": 500}
"""Over which ε falls to its end (5.1)."""

LEARNING_RATE = 5e-4
"""Of both (5.1)."""


@dataclass(frozen=True)
class Budget:
    """Of training on one step.

    Attributes:
        rounds: of episodes in each stage at most.
        stable: the first stage ends when the best plan has stayed the same for so many rounds after ε has fallen.
        episodes: of a round.
        updates: after each round.
    """

    rounds: int = 60
    stable: int = 15
    episodes: int = 16
    updates: int = 20


@dataclass(frozen=True)
class Outcome:
    """What training has found.

    Attributes:
        plans: without conflicts, those that split most first.
        first: dimensions that the first stage has split; None where it found no plan.
        second: those of both stages.
        evaluations: episodes, with those that ended in a conflict.
        conflicts: of these.
    """

    plans: tuple[SplitPlan, ...]
    first: int | None
    second: int | None
    evaluations: int
    conflicts: int


def trained(
    dimensions: Dimensions,
    decided: Decided,
    seed: int = 0,
    budget: Budget | None = None,
    stop: StopSignal = never_stop,
) -> Outcome:
    """The plans of both stages; a step with nothing to decide has one without any split."""
    source = DecisionSource(dimensions, decided == "variables", seed)
    if not len(dimensions.numbers):
        return Outcome((SplitPlan((), 0),), 0, 0, 0, 0)
    given = budget or Budget()
    settings = settings_of(source, decided, given)
    training = QTraining(settings, source, seed)
    _stage(training, source, given, stop)
    first = source.best
    if decided == "variables" and stop() is None and source.trace_back():
        # Exploration starts over with the share that is right for a plan that is nearly good.
        _stage(training, source, replace(given, rounds=given.rounds // 2), stop)
    best = source.best
    return Outcome(
        tuple(source.plans.values()),
        None if first is None else first.dimensions,
        None if best is None else best.dimensions,
        source.evaluations + source.conflicts,
        source.conflicts,
    )


def settings_of(source: DecisionSource, decided: Decided, budget: Budget) -> QSettings:
    """The paper's, for this source."""
    return QSettings(
        source.layout,
        network="vector",
        learning_rate=LEARNING_RATE,
        epsilon_steps=EPSILON_STEPS[decided],
        episodes=budget.episodes,
        updates=budget.updates,
    )


def _stage(training: QTraining, source: DecisionSource, budget: Budget, stop: StopSignal) -> None:
    """Rounds until ε has fallen and the best plan is stable. After every round the policy's own plan counts as well."""
    same, before, settings = 0, source.best, training.settings
    for made in range(budget.rounds):
        if stop() is not None:
            return
        training.iterate()
        training.sample(1, explore=False)
        has_explored = (
            made + 1
        ) * settings.episodes * source.steps >= settings.epsilon_steps or source.start is not None
        same = same + 1 if has_explored and source.best is not None and source.best == before else 0
        before = source.best
        if same >= budget.stable:
            return
