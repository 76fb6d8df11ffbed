"""The trainings for ``dse reproduce automap``, and what stands beside them; torch is imported when one begins."""

from collections.abc import Callable
from time import process_time
from typing import TYPE_CHECKING, Any

from dse.parallel.pipeline.methods import PipelineContext
from dse.reproduce.automap.contest import ContestTrial
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
    return Learned(curve, contest, {"form": 1})


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
    source = DecisionSource(dimensions_of(problem_of(trial.operators), "variables"), True, "decisions", trial.seed)
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
    """Seconds of a batch: those of the definition, after the plan's own check."""
    from policies.parallel.pipeline.contenders import annealed, even, random_plans
    from policies.parallel.pipeline.inference import coarse
    from policies.parallel.pipeline.search import Budget, trained

    assert trial.pipelines is not None
    problem, cutting = pipeline_problem_of(trial.pipelines), trial.pipelines.device_cutting
    seen, context = coarse(problem, cutting), PipelineContext(problem, cutting, trial.seed)

    def entry(search: Callable[[], "Best"]) -> dict[str, Any]:
        started = process_time()
        best = search()
        of = answer_of(best, context)
        value = None if of.plan is None else of.length_s
        return {"value": value, "plans": best.evaluations, "cpu_s": process_time() - started}

    dqn = entry(lambda: trained(context, budget=Budget(steps=_EPISODES * trial.rounds)))
    return {
        "dqn": dqn,
        "random": entry(lambda: random_plans(seen, dqn["plans"], trial.seed)),
        "greedy": entry(lambda: even(seen)),
        "annealing": entry(lambda: annealed(seen, dqn["plans"], trial.seed)),
    }


_EPISODES = 50
"""Steps of the environment for each round: episodes of a round of the paper's."""


def _operator_contest(trial: ContestTrial) -> dict[str, Any]:
    """Dimensions that are split."""
    from policies.parallel.linkage import contenders
    from policies.parallel.linkage.dimensions import dimensions_of
    from policies.parallel.linkage.search import Budget, trained

    assert trial.operators is not None
    of = dimensions_of(problem_of(trial.operators), trial.decided)
    started = process_time()
    outcome = trained(of, trial.decided, seed=trial.seed, budget=Budget(rounds=trial.rounds))
    spent_s = process_time() - started
    entries = {"dqn": {"value": outcome.second, "plans": outcome.evaluations, "cpu_s": spent_s}}
    others = {"random": contenders.random_decisions, "greedy": contenders.greedy, "annealing": contenders.annealed}
    for name, search in others.items():
        started = process_time()
        value = search(of, trial.decided, outcome.evaluations, trial.seed)
        plans = 1 if name == "greedy" else outcome.evaluations
        entries[name] = {"value": value, "plans": plans, "cpu_s": process_time() - started}
    started = process_time()
    proven = contenders.most_dimensions(of)
    return {**entries, "exact": {"value": proven, "plans": 0, "cpu_s": process_time() - started}}


def _rounds(training: "QTraining", rounds: int) -> dict[str, Any]:
    scores, losses, episodes = list[float](), list[float | None](), 0
    for _ in range(rounds):
        iteration = training.iterate()
        episodes += iteration.samples
        scores.append(iteration.scalars["reward"])
        losses.append(iteration.scalars.get("loss"))
    return {"scores": scores, "losses": losses, "episodes": episodes}
