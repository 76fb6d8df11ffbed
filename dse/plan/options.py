"""The options of ``dse plan`` and ``dse predict``, and the problem that they pose."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from dse.plan.attention_forms import fuses_attention
from dse.plan.model_parts import Numerics
from dse.plan.model_sources import transformer
from dse.plan.problem import PlanProblem
from dse.plan.rules import faults, like_precision, no_mode_rule, recomputations
from dse.plan.stack import Stack, stack, template_stack
from dse.plan.stack_range import usual_stack
from dse.plan.training_plan import AS_STACK, DRAWN_SCHEDULES, read_plan
from dse.problem import Posed
from dse.results.result import Objective
from dse.run.options import Option, Options
from hardware.chips import System, system
from hardware.inputs import InputError, choose, fail
from hardware.precisions import PRECISIONS
from hardware.specs import accelerator
from hardware.units import GIB

USUAL_PRECISION = "bf16"
"""Of linear layers where none is given."""

EXPORTS = ("megatron", "torchtitan", "maxtext", "deepspeed", "chakra", "memory")
"""What a plan is written as: settings of frameworks, execution traces, memory over time."""

_DRAWN_EXPORTS = ("chakra", "memory")
"""Those that have every pass in its order."""


@dataclass(frozen=True)
class TrainingOptions(Options):
    """What both commands take."""

    model: Annotated[
        str,
        Option(
            "A transformer: a name, a config.json, or a YAML file.", metavar="MODEL", positional=True, is_source=True
        ),
    ] = ""
    on: Annotated[
        str, Option("The chip, or the system that it comes in; several for one table.", metavar="CHIP|SYSTEM,…")
    ] = "h100-sxm"
    network: Annotated[
        str | None, Option("Network between accelerators (default: that of the accelerator's system).", metavar="SPEC")
    ] = None
    accelerators: Annotated[int, Option("Number of accelerators; the plan uses all of them.", min=1, max=2**20)] = 8
    global_batch: Annotated[int, Option("Samples per training step.", min=1, max=2**24)] = 1024
    sequence: Annotated[
        int | None, Option("Tokens per sample (default: the model's usual length).", min=1, max=2**24)
    ] = None
    precision: Annotated[
        str | None,
        Option(
            "Precision of the operands of linear layers (default: bf16, or the nearest that the chip has).",
            metavar="|".join(PRECISIONS),
        ),
    ] = None
    ideal: Annotated[
        bool,
        Option(
            "Templates only: price kernels at the ideal times of their mappings, instead of derated ones.",
            group="Templates",
        ),
    ] = False
    stack: Annotated[
        str | None,
        Option(
            "Training framework, with its memory use, overlaps and sustained rates (default: the newest that was "
            "measured on the chip, else on chips of its platform).",
            metavar="SPEC",
        ),
    ] = None
    export: Annotated[
        str | None,
        Option(
            "Write only these files of the plan to --out DIR (default: the settings of every framework).",
            metavar="|".join(EXPORTS) + ",…",
            needs_out=True,
            group="Export",
        ),
    ] = None
    headroom: Annotated[
        float | None,
        Option(
            "GB (2³⁰ bytes) of each accelerator's memory kept free beside the tensors of a plan (default: what sources "
            "say of driver and context, buffers of collectives and the allocator, by accelerator and plan).",
            min=0,
            max=2**20,
            group="Memory",
        ),
    ] = None
    plan: Annotated[str, Option("Parts of the plan to fix; the rest is optimised.", metavar="FILE|KEY=VALUE,…")] = ""
    batch: Annotated[
        str | None,
        Option(
            "A table of plans to price in one go, one a row; columns are keys of a plan and options of this command. "
            "What a row leaves open is optimised.",
            metavar="PLANS.csv",
            group="Many plans",
        ),
    ] = None
    measured: Annotated[
        tuple[str, ...],
        Option(
            "Compare each part of the step with a profile of the run (`dse trace`); one file per rank.",
            metavar="FILE",
            group="Comparison",
        ),
    ] = ()


@dataclass(frozen=True)
class PlanOptions(TrainingOptions):
    """The options of ``dse plan``."""

    COMMAND: ClassVar[str] = "plan"

    sensitivity: Annotated[
        bool,
        Option(
            "Also show the gain from faster links, memory and matrix products, more memory and a larger batch.",
            group="Further analyses",
        ),
    ] = False
    constraints: Annotated[
        bool,
        Option(
            "Also show the cost of practical constraints: use of all devices, even division of widths and batch, "
            "equal stages.",
            group="Further analyses",
        ),
    ] = False


@dataclass(frozen=True)
class PredictOptions(TrainingOptions):
    """The options of ``dse predict``."""

    COMMAND: ClassVar[str] = "predict"


def posed_problem(options: TrainingOptions) -> Posed[Any, PlanProblem]:
    """The problem that the options pose.

    Raises:
        InputError: a name that nothing has, a file with a fault, or a fixed part of a plan that breaks a rule.
    """
    fixed = read_plan(options.plan)
    for name in export_names(options) or ():
        if name in _DRAWN_EXPORTS and (schedule := fixed.get("schedule", "1f1b")) not in DRAWN_SCHEDULES:
            rule = f"must not be given with schedule={schedule}, whose order of passes is not written"
            raise fail("--export", "", name, rule)
        if name in _DRAWN_EXPORTS and (kept := fixed.get("offload", AS_STACK)) != AS_STACK:
            rule = f"must not be given with offload={kept}, whose copies to the host are not written"
            raise fail("--export", "", name, rule)
    if options.precision is not None:
        choose("", "--precision", options.precision, PRECISIONS, "precision")
        if fixed.get("precision", options.precision) != options.precision:
            raise fail("--plan", "precision", fixed["precision"], f"must equal --precision ({options.precision})")
        fixed["precision"] = options.precision
    if not options.model:
        raise fail(options.command(), "", "", "MODEL must be given, or --batch with a column model")
    model = transformer(options.model)
    machine, sequence = system(options.on, options.network), options.sequence or model.sequence
    known = machine.chip.peak_flops
    of_chip = USUAL_PRECISION if USUAL_PRECISION in known or not known else like_precision(USUAL_PRECISION, known)
    fixed.setdefault("precision", of_chip)
    cores = accelerator(options.on).machines if machine.chip.is_template else None
    if model.positions == "learned" and sequence > model.position_rows:
        rule = f"must be at most the number of learned positions of the model ({model.position_rows:,})"
        raise fail("--sequence", "", sequence, rule, str(model.position_rows))
    problem = PlanProblem(
        model=model,
        system=machine,
        devices=options.accelerators,
        global_batch=options.global_batch,
        sequence=sequence,
        stack=_stack_on(machine, options, model.key_width, sequence, fixed["precision"])
        if cores is None
        else _template_stack(machine, options, fuses_attention(cores, model)),
        fixed=tuple(sorted(fixed.items())),
        machine=cores,
        headroom_bytes=None if options.headroom is None else round(options.headroom * GIB),
        stack_is_named=options.stack is not None or machine.chip.is_template,
    )
    if problem.usable_bytes <= 0:
        rule = f"must be less than the memory of {machine.chip.name} ({machine.chip.hbm_bytes / GIB:g} GB)"
        raise fail("--headroom", "", options.headroom, rule)
    if "recompute" not in fixed and not recomputations(problem):
        modes = ", ".join(problem.stack.recomputations.value)
        raise fail(options.stack or "--stack", "recomputations.value", modes, no_mode_rule(problem))
    broken = faults(problem)
    if broken:
        raise InputError(broken)
    goal = Objective(name="step_s", value=None, unit="s", sense="min")
    # What exports have and no cost depends on: a finished run is the answer to no other.
    numerics = None if model.numerics == Numerics() else {"numerics": model.numerics.model_dump(mode="json")}
    # On a real chip `ideal` changes nothing, and a result that states it is none of a run without it.
    document = problem.document() | ({"ideal": True} if options.ideal else {})
    return Posed(options, problem, problem.name, document, goal, numerics)


def export_names(options: TrainingOptions) -> tuple[str, ...] | None:
    """What ``--export`` names; None where it is not given.

    Raises:
        InputError: a name that is none of :data:`EXPORTS`.
    """
    if options.export is None:
        return None
    names = [name.strip() for name in options.export.split(",")]
    return tuple(dict.fromkeys(choose("", "--export", name, EXPORTS, "export") for name in names))


def _stack_on(machine: System, options: TrainingOptions, width: int, tokens: int, precision: str) -> Stack:
    """The stack on a real chip."""
    chip, name = machine.chip, options.stack
    own = stack(usual_stack(chip) if name is None else name)
    if not own.runs_on(chip):
        platforms = own.platforms.value if own.platforms else ()
        rule = f"must run on {chip.platform}, the platform of {chip.name}, but runs on {', '.join(platforms)}"
        raise fail("", "--stack", name, rule, usual_stack(chip))
    return own.on_chip(chip, width, tokens, precision)


def _template_stack(machine: System, options: TrainingOptions, fused: bool) -> Stack:
    """The stack on a template: it has the shares of ideal times that its kernels are derated to."""
    if options.stack is not None:
        rule = f"must be left out: {machine.chip.name} is a template, whose kernels are mapped to its cores"
        raise fail("", "--stack", options.stack, rule)
    return template_stack(machine.network, options.ideal, fused)


def opened(problem: PlanProblem, **fixed: Any) -> PlanProblem:
    """The same with only the settings, and ``fixed``, fixed."""
    given = {"precision": problem.precision, **problem.settings, **fixed}
    return replace(problem, fixed=tuple(sorted(given.items())))
