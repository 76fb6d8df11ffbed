"""Online training as a search: a Q-network learns on one problem, and the best plan of all episodes counts."""

from dataclasses import dataclass

from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.methods import PipelineContext
from dse.parallel.pipeline.problem import PipelinePlan
from policies.parallel.pipeline.contenders import even
from policies.parallel.pipeline.improvement import improved
from policies.parallel.pipeline.inference import ProblemSource, coarse
from policies.parallel.pipeline.online import Best, PipelineTrainingSource
from policies.parallel.settings import QSettings, Reward
from policies.parallel.training import QTraining


@dataclass(frozen=True)
class Budget:
    """Of training on one problem.

    Attributes:
        steps: of the environment, over which ε falls to its end. Paper: 10,000.
        updates: after each round of 50 episodes.
    """

    steps: int = 10_000
    updates: int = 20


def trained(context: PipelineContext, reward: Reward = "root", budget: Budget | None = None) -> Best:
    """The shortest plan of :func:`trainings` and of equal computing, all of them improved.

    So it is never longer than that of :func:`even`. The shortest plans of each training are improved, not those of both
    together: where one training is ahead, all of these would be its own, and often lead to the same plan.
    """
    alone = trainings(context, reward, budget)
    if context.problem.stages == 1:
        return Best.of_all(alone)
    seen = coarse(context.problem, context.device_cutting)
    return improved(seen, alone).with_other(even(seen))


def trainings(context: PipelineContext, reward: Reward = "root", budget: Budget | None = None) -> tuple[Best, ...]:
    """The best plans of two trainings with half of the steps each, as they are; of one stage, its only plan.

    One is the paper's, which only finds plans whose stages have devices by their computing; in the other, pivots and
    devices are decided apart, as they are where communication takes longer than computing.
    """
    if context.problem.stages == 1:
        return (_only(context),)
    whole = budget or Budget()
    half = Budget(max(1, whole.steps // 2), whole.updates)
    first = trained_as_published(context, reward, half)
    source = ProblemSource(coarse(context.problem, context.device_cutting), reward)
    _train(source, context, half)
    return first, source.best


def trained_as_published(context: PipelineContext, reward: Reward = "root", budget: Budget | None = None) -> Best:
    """The best plan of training as in the paper (4.4): pivots imply device cuts near the centre."""
    if context.problem.stages == 1:
        return _only(context)
    source = PipelineTrainingSource(context.problem, context.device_cutting, reward)
    if source.is_open:
        _train(source, context, budget or Budget())
    return source.best


def _only(context: PipelineContext) -> Best:
    """The plan of one stage."""
    plan, problem = PipelinePlan((), ()), context.problem
    if faults(problem, plan):
        return Best(evaluations=1)
    return Best.of(plan, length(problem, plan).length_s, 1)


def _train(source: ProblemSource | PipelineTrainingSource, context: PipelineContext, budget: Budget) -> None:
    settings = QSettings(
        source.layout, hidden=32, epsilon_steps=budget.steps, updates=budget.updates, lookahead=source.steps
    )
    training = QTraining(settings, source, context.seed)
    made = 0
    while made < budget.steps and context.stop() is None:
        made += training.iterate().samples * source.steps
    training.sample(1, explore=False)
