"""The problem that options pose with a space of chips."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dse.codesign.chips.front_figures import front_figures
from dse.codesign.chips.problem import TRAINED_IN, ChipProblem, Limits
from dse.codesign.options import CodesignOptions, require_unique
from dse.plan.model_sources import transformer
from dse.plan.problem import PlanProblem
from dse.plan.rules import faults as plan_faults
from dse.plan.rules import like_precision
from dse.plan.stack import stack, template_stack
from dse.plan.stack_range import usual_stack
from dse.plan.training_plan import read_plan
from hardware.chip_space import ChipSpace, chip_space
from hardware.chips import system
from hardware.cost_model import cost_model
from hardware.inputs import InputError, fail
from hardware.network_specs import network
from hardware.number_text import number_of
from hardware.spec_fields import Quantity

_PLANS = "must be left out: with a space of chips, plans are those of --plans modern"

_RULES: Mapping[str, str] = {
    "hbm_gb": "must be left out: a space of chips has its memories",
    "fixed": "must be left out: use --space with one value of each size",
    "cost_model": "must be consistent with a space of chips: phaze-2024 mixes units",
    "search": "must be exhaustive with a space of chips",
    **dict.fromkeys(("granularity", "microbatch", "tensor_parallel", "pipeline_schedule"), _PLANS),
}


def chip_problem(options: CodesignOptions) -> ChipProblem:
    """The problem that the options pose with a space of chips.

    Raises:
        InputError: an option that has no use there, an unknown name, a fault in a file, or a precision that no chip of
            the space has.
    """
    assert options.space is not None, "only called with a space of chips"
    if options.plans == "phaze-2024":
        raise fail("dse codesign", "--plans", options.plans, _PLANS)
    options.refuse(_RULES)
    if not options.pareto:
        options.refuse(dict.fromkeys(("pareto_of", "pareto_gap"), "requires --pareto"))
    space = _limited(chip_space(options.space), options.area_budget)
    models = tuple(transformer(source) for source in options.models)
    if not models:
        raise fail("dse codesign", "MODEL", "", "at least one model must be named")
    require_unique([each.name for each in models])
    given = read_plan(options.plan)
    scale_out = network(options.network or space.scale_out.name)
    problem = ChipProblem(
        models=tuple((each, options.sequence or each.sequence) for each in models),
        objective=options.objective_of(),
        space=space,
        limits=Limits(_lowest(options.power_cap, space.power_w), _lowest(options.cost_limit, space.usd)),
        cost_model=cost_model(options.cost_model),
        scale_out=scale_out,
        accelerators=options.accelerators,
        global_batch=options.global_batch,
        stack=template_stack(scale_out, options.ideal, options.attention != "unfused"),
        fixed_plan=tuple(sorted((key, each) for key, each in given.items() if key != "precision")),
        precisions=_precisions(space, given.get("precision")),
        within=options.within / 100,
        wider=None if space.like is None else chip_space(space.like),
        pareto=front_figures(options.pareto_of) if options.pareto else (),
        pareto_gap=options.pareto_gap / 100 if options.pareto else 0.0,
    )
    return replace(problem, chips=tuple(_compared(problem, options)))


def _compared(problem: ChipProblem, options: CodesignOptions) -> Iterator[tuple[PlanProblem, ...]]:
    """The same training on each of the real chips to compare with: of each model and precision that it has."""
    for name in options.compared:
        machine = system(name)
        if machine.chip.is_template:
            raise fail("dse codesign", "--on", name, "must be a real chip, but is a template")
        usual, asked = stack(usual_stack(machine.chip)), []
        sizes = problem.accelerators, problem.global_batch
        for model, sequence in problem.models:
            for precision in problem.precisions:
                if precision in machine.chip.peak_flops:
                    fixed = tuple(sorted({**dict(problem.fixed_plan), "precision": precision}.items()))
                    own = usual.on_chip(machine.chip, model.key_width, sequence, precision)
                    asked.append(PlanProblem(model, machine, *sizes, sequence, own, fixed))
        broken = [fault for each in asked for fault in plan_faults(each)]
        if options.on is not None and broken:
            raise InputError(broken)
        if options.on is not None and not asked:
            rule = f"must have a rate for {' or '.join(problem.precisions)}, in which chips of the space train"
            raise fail("dse codesign", "--on", name, f"{rule}; its formats: {', '.join(machine.chip.peak_flops)}")
        if asked and not broken:
            yield tuple(asked)


def _limited(space: ChipSpace, area_budget: str | None) -> ChipSpace:
    """The space with the largest die that is asked."""
    if area_budget is None:
        return space
    try:
        budget = number_of(area_budget)
    except ValueError:
        budget = math.nan
    if not 0 < budget <= space.largest_mm2:
        rule = f"must be a positive number of mm², at most {space.largest_mm2:g}, the largest die of the space"
        raise fail("dse codesign", "--area-budget", area_budget, rule)
    return space.model_copy(update={"area_mm2": Quantity(value=budget, source="--area-budget")})


def _lowest(asked: float | None, of_space: Quantity | None) -> float:
    """The lower of two limits; infinite without any."""
    limits = [] if asked is None else [asked]
    return min([*limits, *([] if of_space is None else [of_space.value])], default=math.inf)


def _precisions(space: ChipSpace, fixed: str | None) -> tuple[str, ...]:
    """Of plans: the one that is fixed, or those in which models train, from the widest to the narrowest."""
    known = space.formats.values
    if fixed is None:
        return tuple(each for each in known if each in TRAINED_IN)
    if fixed not in known:
        rule = f"must be one of {', '.join(known)}, in which chips of space {space.name} compute"
        raise fail("--plan", "precision", fixed, rule, like_precision(fixed, dict.fromkeys(known, 1.0)))
    return (fixed,)
