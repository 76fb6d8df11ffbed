"""Online training as a search: a Q-network learns on one problem, and the best plan of all episodes counts."""

from dse.parallel.pipeline.length import faults
from dse.parallel.pipeline.methods import PipelineContext
from dse.parallel.pipeline.problem import PipelinePlan
from policies.parallel.pipeline.online import Best, PipelineTrainingSource
from policies.parallel.settings import QSettings, Reward
from policies.parallel.training import QTraining

STEPS = 10_000
"""Of the environment, over which ε falls (paper, 5.1)."""


def trained(context: PipelineContext, steps: int = STEPS, reward: Reward = "root") -> Best:
    """The best plan of ``steps`` steps of training, and of one round of the trained network's own choices."""
    problem = context.problem
    source = PipelineTrainingSource(problem, context.device_cutting, reward)
    if problem.stages == 1:
        plan = PipelinePlan((), ())
        if not faults(problem, plan):
            source.best.plan, source.best.length_s = plan, 0.0
        return source.best
    if not source.is_open:
        return source.best
    settings = QSettings(source.layout, hidden=32, epsilon_steps=steps)
    training = QTraining(settings, source, context.seed)
    made = 0
    while made < steps and context.stop() is None:
        made += training.iterate().samples * source.steps
    training.sample(1, explore=False)
    return source.best
