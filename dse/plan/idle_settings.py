"""What is fixed of communication and sharing that a plan does not have."""

from dse.plan.groups import replica_groups
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import AS_STACK, AXES, USUAL_ORDER, TrainingPlan


def idle_settings(problem: PlanProblem, plan: TrainingPlan) -> dict[str, str]:
    """Why fixed communication settings have no effect on a plan, by key; keys with an effect are not there.

    It is not a fault: such a key says how the software does something wherever a plan does it, and holds for plans that
    do not.
    """
    groups = replica_groups(PlanArrays.of([plan]), problem.model.experts is not None)
    has_replicas = any(each.sharing.members[0] * each.copies.members[0] > 1 for each in groups)
    shares = plan.zero > 0 and any(each.sharing.members[0] > 1 for each in groups)
    several = [axis for axis in plan.order.split("-") if getattr(plan, axis) > 1]
    few = "fewer than two axes have more than one rank"
    once, whole = "there is only one replica", "weights are not sharded"
    usual = "the axes with more than one rank are in the usual order" if len(several) > 1 else few
    alone = f"each of the {plan.zero_copies} copies is a single replica" if has_replicas else once
    without = {
        "zero": (plan.zero > 0 and not shares, alone),
        "order": (several == sorted(several, key=AXES.index), usual),
        "overlap_tensor": (plan.tensor == 1, "tensor=1"),
        "overlap_context": (plan.context == 1, "context=1"),
        "overlap_expert": (plan.expert == 1, "expert=1"),
        "overlap_pipeline": (plan.interleave == 1, "interleave=1"),
        "overlap_gradients": (not has_replicas, once),
        "overlap_weights": (not shares, whole),
        "gradient_transfer": (not has_replicas, once),
        "weight_transfer": (not shares, whole),
    }
    given = dict(problem.fixed)
    return {
        key: reason
        for key, (is_idle, reason) in without.items()
        if is_idle and given.get(key, AS_STACK) not in (AS_STACK, USUAL_ORDER)
    }
