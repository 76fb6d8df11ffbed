"""A plan as the settings of training frameworks, as far as each can express it."""

from dse.plan.export.deepspeed import deepspeed_json
from dse.plan.export.maxtext import maxtext_settings
from dse.plan.export.megatron import megatron_arguments
from dse.plan.export.torchtitan import torchtitan_toml
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan

_EXPORTS = {
    "megatron.args": megatron_arguments,
    "torchtitan.toml": torchtitan_toml,
    "maxtext.yml": maxtext_settings,
    "deepspeed.json": deepspeed_json,
}


def exports(problem: PlanProblem, plan: TrainingPlan) -> dict[str, str]:
    """By file name, the settings of each framework that can express the plan.

    Only those of DeepSpeed say nothing of the model; the others are of decoders.
    """
    decodes = problem.model.head == "causal_lm"
    names = _EXPORTS if decodes else ["deepspeed.json"]
    made = {name: _EXPORTS[name](problem, plan) for name in names}
    return {name: text for name, text in made.items() if text is not None}
