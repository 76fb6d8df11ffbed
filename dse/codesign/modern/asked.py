"""The problem that options pose with ``--plans modern``."""

from collections.abc import Iterator
from dataclasses import replace

from dse.codesign.modern.problem import PRECISION, ModernProblem
from dse.codesign.options import WITHOUT_TIME_UNIT, CodesignOptions, require_unique
from dse.plan.attention_forms import fuses_attention
from dse.plan.kernels import HALF_BYTES
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.plan.problem import PlanProblem
from dse.plan.rules import faults as plan_faults
from dse.plan.rules import like_precision
from dse.plan.stack import stack, template_stack
from dse.plan.stack_range import usual_stack
from dse.plan.training_plan import read_plan
from hardware.chips import system
from hardware.cost_model import cost_model
from hardware.inputs import InputError, fail
from hardware.machines import Machines
from hardware.network_specs import network
from hardware.space import space_spec
from hardware.specs import Accelerator, accelerator, accelerator_or_estimate


def modern_problem(options: CodesignOptions) -> ModernProblem:
    """The problem of the first model; raises as :func:`modern_problems`."""
    return modern_problems(options)[0]


def modern_problems(options: CodesignOptions) -> tuple[ModernProblem, ...]:
    """The problem that the options pose with ``--plans modern``, of each model.

    Raises:
        InputError: as :meth:`CodesignOptions.problem`; an option that belongs to other plans; a fixed part of a plan
            that breaks a rule.
    """
    _refuse_what_is_not_modern(options)
    options.refuse_contradictions()
    if not options.models:
        raise fail("dse codesign", "MODEL", "", "at least one model must be named")
    problems = tuple(_modern_problem(options, transformer(source)) for source in options.models)
    require_unique([each.name for each in problems])
    return problems


def _modern_problem(options: CodesignOptions, model: Transformer) -> ModernProblem:
    rules = cost_model(options.cost_model)
    fixed = None if options.fixed is None else accelerator_or_estimate(options.fixed, rules)
    if fixed is not None:
        _refuse_real_chip(fixed)
    given = read_plan(options.plan)
    given.setdefault("precision", PRECISION)
    space = space_spec(options.space or rules.hardware.space.name)
    joined = network(options.network or (rules.training.network.name if fixed is None else fixed.network))
    problem = ModernProblem(
        model=model,
        cost_model=rules,
        network=joined.spanning(options.accelerators),
        accelerators=options.accelerators,
        global_batch=options.global_batch,
        sequence=options.sequence or model.sequence,
        hbm_bytes=options.hbm_bytes(fixed),
        stack=template_stack(
            joined, options.ideal, _is_fused(options, model, None if fixed is None else fixed.machines)
        ),
        fixed_plan=tuple(sorted(given.items())),
        space=space,
        area_budget_mm2=None if fixed is not None else options.largest_mm2(space),
        fixed=fixed,
    )
    if problem.precision not in problem.formats:
        owner = f"space {space.name}" if fixed is None else fixed.name
        rule = f"must be one of {', '.join(problem.formats)}, in which the template computes ({owner})"
        raise fail("--plan", "precision", problem.precision, rule, like_precision(problem.precision, problem.formats))
    problem = replace(problem, chips=tuple(_chip_problems(options, problem)))
    faults = plan_faults(problem.plan_problem(problem.machines().one(0), max(problem.hbm_bytes)))
    if faults:
        raise InputError(faults)
    return problem


def _chip_problems(options: CodesignOptions, problem: ModernProblem) -> Iterator[PlanProblem]:
    """The training on each chip to compare with: real ones with the usual stack of each, templates derated.

    Of the usual ones, those that have the precision and can train so.
    """
    if options.is_shared:
        return
    for name in options.compared:
        machine = system(name)
        if options.on is None and problem.precision not in machine.chip.peak_flops:
            continue
        precision, known = problem.precision, machine.chip.peak_flops
        if precision not in known:
            nearest = like_precision(precision, known)
            rule = (
                f"must have a rate for {precision}, in which the template computes; its formats: "
                f"{', '.join(known)} (nearest in bytes: {nearest})"
            )
            raise fail("dse codesign", "--on", name, rule)
        if machine.chip.is_template:
            cores = accelerator(name).machines
            own = template_stack(machine.network, options.ideal, _is_fused(options, problem.model, cores))
        else:
            shape = problem.model.key_width, problem.sequence, precision
            own, cores = stack(usual_stack(machine.chip)).on_chip(machine.chip, *shape), None
        sizes = problem.accelerators, problem.global_batch, problem.sequence
        posed = PlanProblem(problem.model, machine, *sizes, own, problem.fixed_plan, cores)
        faults = plan_faults(posed)
        if faults and options.on is not None:
            raise InputError(faults)
        if not faults:
            yield posed


def _is_fused(options: CodesignOptions, model: Transformer, template: Machines | None) -> bool:
    """Whether attention is fused: as the options say, else as ``dse plan`` takes it on the template."""
    if options.attention is not None:
        return options.attention == "fused"
    return template is not None and fuses_attention(template, model)


def _refuse_what_is_not_modern(options: CodesignOptions) -> None:
    """InputError at options that ``--plans modern`` has no use for."""
    alone = "applies to the throughput of one model, without --pareto"
    rules = {"sensitivity": alone} if options.is_shared else {}
    rules |= {"on": alone} if options.is_shared and options.on != "none" else {}
    if len(options.models) < 2:
        rules |= dict.fromkeys(("mean", "weights"), "requires several models")
    rules |= {
        "cost_model": f"must be consistent with --plans modern: {WITHOUT_TIME_UNIT} mixes units",
        "search": "must be exhaustive with --plans modern; other searches require --plans phaze",
        "granularity": "trace requires --plans phaze",
        "microbatch": "--plans modern tries every size; --plan microbatch=N fixes one",
        "tensor_parallel": "--plans modern tries every width; --plan tensor=N fixes one",
        "pipeline_schedule": "must not be given with --plans modern; use --plan schedule=gpipe",
    }
    options.refuse(rules)


def _refuse_real_chip(fixed: Accelerator) -> None:
    """InputError at an accelerator whose kernels are not those of the template."""
    machines = fixed.machines
    if not fixed.is_template or machines.kernels or machines.element_bytes != HALF_BYTES:
        rule = "is a real chip, but --plans modern models only the template; use dse plan --on for real chips"
        raise fail("dse codesign", "--fixed", fixed.name, rule)
