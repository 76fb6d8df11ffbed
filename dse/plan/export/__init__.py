"""A plan as the settings of training frameworks, as far as each can express it."""

from dse.plan.export.deepspeed import deepspeed_json
from dse.plan.export.expressible import NotExpressibleError
from dse.plan.export.left_out import left_out
from dse.plan.export.maxtext import maxtext_settings
from dse.plan.export.megatron import megatron_arguments
from dse.plan.export.requirements import FRAMEWORKS, broken_requirements
from dse.plan.export.torchtitan import torchtitan_toml
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan

_EXPORTS = {
    "megatron.args": megatron_arguments,
    "torchtitan.toml": torchtitan_toml,
    "maxtext.yml": maxtext_settings,
    "deepspeed.json": deepspeed_json,
}
REFUSALS_FILE = "not-exported.txt"
"""What is not exported: whole files, and of those without comments what they lack."""


def exports(problem: PlanProblem, plan: TrainingPlan) -> dict[str, str]:
    """By file name, the settings of each framework that can express the plan.

    All but those of DeepSpeed are of decoders. The first lines of a file, comments, say what it leaves out of the model
    and its training. JSON has no comments, so that another file says it of DeepSpeed's; the same file has a line for
    each framework that lacks or would refuse something of the plan.
    """
    texts, lacking = {}, []
    for name in _EXPORTS:
        said = left_out(name, problem, plan)
        try:
            text = _written(name, problem, plan)
        except NotExpressibleError as reason:
            lacking.append(f"{name}: not written: {reason}\n")
            continue
        if name.endswith(".json"):
            lacking.append(f"{name}: {said[0]} {'; '.join(line.removeprefix('- ') for line in said[1:])}\n")
        else:
            text = "".join(f"# {line}\n" for line in said) + text
        texts[name] = text
    return texts | ({REFUSALS_FILE: "".join(lacking)} if lacking else {})


def inexpressible(problem: PlanProblem, plan: TrainingPlan) -> str | None:
    """What the framework of the problem's stack lacks of the plan; none where it can have it, or is not known."""
    name = problem.stack.settings_file
    if name is None:
        return None
    try:
        _written(name, problem, plan)
    except NotExpressibleError as reason:
        return str(reason)
    return None


def _written(name: str, problem: PlanProblem, plan: TrainingPlan) -> str:
    if problem.model.head != "causal_lm" and name != "deepspeed.json":
        raise NotExpressibleError(f"{FRAMEWORKS[name]} can express only decoder models")
    broken = broken_requirements(name, problem, plan)
    try:
        text = _EXPORTS[name](problem, plan)
    except NotExpressibleError as lacking:
        raise NotExpressibleError("; ".join([f"{FRAMEWORKS[name]} cannot express {lacking}", *broken])) from lacking
    if broken:
        raise NotExpressibleError("; ".join(broken))
    return text
