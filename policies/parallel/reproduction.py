"""The trainings for ``dse reproduce automap``, and what they are compared with; torch is imported when one begins."""

from collections.abc import Callable, Sequence
from time import process_time
from typing import TYPE_CHECKING, Any

from dse.parallel.pipeline.methods import PipelineContext
from dse.reproduce.automap.contest import NOT_IMPROVED, ContestTrial
from dse.reproduce.automap.convergence import CurveTrial, Learned
from dse.reproduce.automap.pipelines import problem_of as pipeline_problem_of
from dse.reproduce.automap.study import problem_of
from policies.parallel.extra import ask_for_extra
from policies.parallel.pipeline.methods import answer_of

if TYPE_CHECKING:
    from policies.parallel.pipeline.online import Best
    from policies.parallel.training import QTraining


def learned() -> Learned:
    """What :func:`dse.reproduce.automap.parts.paper` is given."""
    return Learned(curve, contest, {"form": 5})


def curve(trial: CurveTrial) -> dict[str, Any]:
    """The rounds of a training, in JSON types."""
    ask_for_extra("dse reproduce automap", "PART", "figure16")
    return _operators(trial) if trial.operators is not None else _pipelines(trial)


def _operators(trial: CurveTrial) -> dict[str, Any]:
    """The first stage of training on the step itself, which decides every dimension of its trained tensors."""
    from policies.parallel.linkage.dimensions import dimensions_of
    from policies.parallel.linkage.episodes import DecisionSource
    from policies.parallel.linkage.search import Budget, settings_of
    from policies.parallel.training import QTraining

    assert trial.operators is not None
    source = DecisionSource(dimensions_of(problem_of(trial.operators), "variables"), True, trial.seed)
    training = QTraining(settings_of(source, "variables", Budget(rounds=trial.rounds)), source, trial.seed)
    made = _rounds(training, trial.rounds)
    best = None if source.best is None else float(source.best.dimensions)
    return made | {"best": best}


def _pipelines(trial: CurveTrial) -> dict[str, Any]:
    """Training as in the paper (4.4): pivots imply device cuts near the centre."""
    from policies.parallel.pipeline.online import PipelineTrainingSource
    from policies.parallel.pipeline.search import Budget
    from policies.parallel.settings import QSettings
    from policies.parallel.training import QTraining

    assert trial.pipelines is not None
    context = PipelineContext(pipeline_problem_of(trial.pipelines), trial.pipelines.device_cutting, trial.seed)
    source = PipelineTrainingSource(context.problem, context.device_cutting, "root")
    budget = Budget()
    settings = QSettings(
        source.layout, hidden=32, epsilon_steps=budget.steps, updates=budget.updates, lookahead=source.steps
    )
    made = _rounds(QTraining(settings, source, trial.seed), trial.rounds)
    return made | {"best": source.best.length_s if source.best.plan is not None else None}


def contest(trial: ContestTrial) -> dict[str, Any]:
    """All methods on a row with one seed, in JSON types."""
    ask_for_extra("dse reproduce automap", "PART", "contest")
    return _pipeline_contest(trial) if trial.pipelines is not None else _operator_contest(trial)


def _pipeline_contest(trial: ContestTrial) -> dict[str, Any]:
    """Seconds of a batch: those of the definition, after the plan's own check.

    Random plans and annealing are two searches, as deep Q-learning is two trainings, with as many plans each.
    """
    from policies.parallel.pipeline.contenders import annealed_as_it_is, drawn_plans, even
    from policies.parallel.pipeline.improvement import improved
    from policies.parallel.pipeline.inference import coarse
    from policies.parallel.pipeline.online import Best
    from policies.parallel.pipeline.search import Budget, trainings

    assert trial.pipelines is not None
    problem, cutting = pipeline_problem_of(trial.pipelines), trial.pipelines.device_cutting
    seen, context = coarse(problem, cutting), PipelineContext(problem, cutting, trial.seed)
    entries = dict[str, dict[str, Any]]()

    def enter(name: str, search: Callable[[], "Best"], *before: str) -> "Best":
        started = process_time()
        best = search()
        of = answer_of(best, context)
        spent_s = process_time() - started + sum(entries[each]["cpu_s"] for each in before)
        value = None if of.plan is None else of.length_s
        entries[name] = {"value": value, "plans": best.evaluations, "cpu_s": spent_s}
        return best

    def enter_both(name: str, search: Callable[[], Sequence["Best"]]) -> list[int]:
        """The plans of each search as they are."""
        alone, searches = f"{name}{NOT_IMPROVED}", list["Best"]()

        def begun() -> "Best":
            searches.extend(search())
            return Best.of_all(searches)

        enter(alone, begun)
        plans = [each.evaluations for each in searches]
        enter(name, lambda: improved(seen, searches).with_other(greedy), alone, "greedy")
        return plans

    greedy = enter("greedy", lambda: even(seen))
    plans = enter_both("dqn", lambda: trainings(context, budget=Budget(steps=_EPISODES * trial.rounds)))
    enter_both("random", lambda: [drawn_plans(seen, count, (trial.seed, n)) for n, count in enumerate(plans)])
    enter_both("annealing", lambda: [annealed_as_it_is(seen, count, (trial.seed, n)) for n, count in enumerate(plans)])
    return entries


_EPISODES = 50
"""Steps of the environment for each round: episodes of a round of the paper's."""


def _operator_contest(trial: ContestTrial) -> dict[str, Any]:
    """Dimensions that are split."""
    from policies.parallel.linkage import contenders
    from policies.parallel.linkage.dimensions import dimensions_of
    from policies.parallel.linkage.search import Budget, trained

    assert trial.operators is not None
    of = dimensions_of(problem_of(trial.operators), trial.decided)
    entries = dict[str, dict[str, Any]]()

    def enter(name: str, search: Callable[[], tuple[int | None, int]]) -> int:
        """The plans that the search made."""
        started = process_time()
        value, plans = search()
        entries[name] = {"value": value, "plans": plans, "cpu_s": process_time() - started}
        return plans

    def enter_both(name: str, search: Callable[[], tuple[int | None, int]]) -> int:
        alone = f"{name}{NOT_IMPROVED}"
        plans = enter(alone, search)
        own, greedy = entries[alone], entries["greedy"]
        value = max(own["value"] or 0, greedy["value"])
        entries[name] = {"value": value, "plans": plans + greedy["plans"], "cpu_s": own["cpu_s"] + greedy["cpu_s"]}
        return plans

    def training() -> tuple[int | None, int]:
        outcome = trained(of, trial.decided, seed=trial.seed, budget=Budget(rounds=trial.rounds))
        return outcome.second, outcome.evaluations

    enter("greedy", lambda: (contenders.greedy_plan(of).dimensions, 1))
    plans = enter_both("dqn", training)
    given = (of, trial.decided, plans, trial.seed)
    enter_both("random", lambda: (contenders.random_decisions(*given), plans))
    enter_both("annealing", lambda: (contenders.annealed(*given), plans))
    enter("exact", lambda: (contenders.max_dimensions(of), 0))
    return entries


def _rounds(training: "QTraining", rounds: int) -> dict[str, Any]:
    scores, losses, episodes = list[float](), list[float | None](), 0
    for _ in range(rounds):
        iteration = training.iterate()
        episodes += iteration.samples
        scores.append(iteration.scalars["reward"])
        losses.append(iteration.scalars.get("loss"))
    return {"scores": scores, "losses": losses, "episodes": episodes}
