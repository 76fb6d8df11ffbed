"""Problems of training plans for tests."""

from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.plan.problem import PlanProblem
from dse.plan.stack import Recomputations, stack
from dse.plan.training_plan import TrainingPlan
from hardware.chips import system

GENERIC = stack("generic")


def with_facts(base=GENERIC, **facts):
    """A stack with other values."""
    changed = {name: getattr(base, name).model_copy(update={"value": value}) for name, value in facts.items()}
    return base.model_copy(update=changed)


def with_recomputations(*modes):
    """The generic stack, but with these modes of recomputation to try."""
    return GENERIC.model_copy(update={"recomputations": Recomputations(value=modes, source="a test")})


def problem(model, on="h100-sxm", devices=8, batch=16, sequence=2048, precision="bf16", software=GENERIC, **fixed):
    """A problem by names; ``model`` may be a transformer."""
    model = model if isinstance(model, Transformer) else transformer(model)
    given = tuple(sorted({"precision": precision, **fixed}.items()))
    return PlanProblem(model, system(on), devices, batch, sequence, software, given)


def plan(**values):
    """A plan on one device but for ``values``."""
    plain = {
        "tensor": 1, "sequence_parallel": False, "context": 1, "expert": 1, "data": 1, "pipeline": 1, "interleave": 1,
        "schedule": "1f1b", "zero": 0, "microbatch": 1, "recompute": "none", "precision": "bf16",
    }  # fmt: skip
    return TrainingPlan(**plain | values)
