"""The trainings of Figures 16 and 17 for ``dse reproduce automap``; torch is imported when one begins."""

from typing import TYPE_CHECKING, Any

from dse.parallel.pipeline.methods import PipelineContext
from dse.reproduce.automap.convergence import CurveTrial, Learned
from dse.reproduce.automap.pipelines import problem_of as pipeline_problem_of
from dse.reproduce.automap.study import problem_of
from policies.parallel.extra import ask_for_extra

if TYPE_CHECKING:
    from policies.parallel.training import QTraining


def learned() -> Learned:
    """What :func:`dse.reproduce.automap.parts.paper` is given."""
    return Learned(curve, {"form": 1})


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


def _rounds(training: "QTraining", rounds: int) -> dict[str, Any]:
    scores, losses, episodes = list[float](), list[float | None](), 0
    for _ in range(rounds):
        iteration = training.iterate()
        episodes += iteration.samples
        scores.append(iteration.scalars["reward"])
        losses.append(iteration.scalars.get("loss"))
    return {"scores": scores, "losses": losses, "episodes": episodes}
