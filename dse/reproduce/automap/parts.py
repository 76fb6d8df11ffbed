"""What of Auto-MAP can be reproduced, and with which options."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

from dse.parallel.mesh import mesh_of
from dse.reproduce.automap import SUMMARY
from dse.reproduce.automap.claims import TITLE as CLAIMS_TITLE
from dse.reproduce.automap.claims import claims
from dse.reproduce.automap.contest import TITLE as CONTEST_TITLE
from dse.reproduce.automap.contest import contest
from dse.reproduce.automap.convergence import CURVE_TITLES, Learned, operator_curve, pipeline_curve
from dse.reproduce.automap.models import BUILT_IN, PIPELINED, REPRODUCED, family_of, step_of, text_of_step
from dse.reproduce.automap.pipeline_tables import PIPELINE_TITLES, all_reduces, computing, inference, training
from dse.reproduce.automap.published import read_published
from dse.reproduce.automap.setup_tables import SETUP_TITLES, machines, models
from dse.reproduce.automap.study import Machine, Study
from dse.reproduce.automap.tables import TITLES, counts, data_parallel, plans
from dse.reproduce.paper import Paper, Part, Posed
from dse.reproduce.section import Section
from dse.results.result import digest
from dse.run.options import Option, Options
from hardware.chips import chip
from hardware.inputs import fail
from hardware.network_specs import network

NAME = "automap"

OPERATIONS_PER_S = 2_000
"""How many operations of a step are planned under one set of rules in a second, at the least."""

_PIPELINE_S = {"table7": 40.0, "table8": 6.0, "figure11": 1.0, "figure12": 1.0}
"""Seconds of each built-in step, about."""

_ROUND_S = {"figure16": 2.0, "figure17": 1.0}
"""Seconds of a round of training, about."""

_CONTEST_S = 0.2
"""Approximate seconds of one training round and of everything else."""

CONTEST = "contest"

NEEDS_LEARNING = "requires the extra `learn`, which is not installed"

_RULES = {"table3": 5, "table4": 5, "table5": 3, "table6": 2}
"""How many sets of rules a part needs."""


@dataclass(frozen=True)
class AutomapOptions(Options):
    """The options of ``dse reproduce automap``.

    Attributes:
        models: steps, separated by commas: built-in ones, or files of HLO text; None: all that are built in.
        mesh, accelerator, network: as of ``dse parallel``; by default one server of the paper.
        rounds: of episodes that networks are trained with.
        seeds: of each training next to search without learning.
    """

    COMMAND: ClassVar[str] = "reproduce automap"

    models: Annotated[
        str | None,
        Option(
            "Any of vgg19, t5-base, t5-6 (the published T5-small), t5-3b, t5-11b and bert-48 (only for pipelines), or "
            "HLO files of T5 or VGG steps (default: all but t5-6).",
            metavar="STEP,…",
        ),
    ] = None
    mesh: Annotated[
        str, Option("Number of devices, or axes from the outermost inwards, such as servers=4,model=8.", metavar="MESH")
    ] = "8"
    accelerator: Annotated[str, Option("Accelerator type of the devices.", metavar="SPEC")] = "v100"
    network: Annotated[str, Option("Network between devices.", metavar="SPEC")] = "v100-ethernet"
    rounds: Annotated[int, Option("Training rounds for Figures 16 and 17 and part contest.", metavar="N", min=1)] = 40
    seeds: Annotated[int, Option("Training seeds for part contest.", metavar="N", min=1, max=100)] = 5


@dataclass(frozen=True)
class Context:
    """What the parts are made from.

    Attributes:
        study: of plans.
        rounds, seeds: of training.
        learned: what trains; None without the extra.
    """

    study: Study
    rounds: int
    seeds: int
    learned: Learned | None


def _posed(options: AutomapOptions, parts: tuple[str, ...], learned: Learned | None) -> Posed[Context]:
    named = REPRODUCED if options.models is None else _names(options.models)
    pipelined = tuple(name for name in named if name in PIPELINED)
    steps = tuple(name for name in named if name in BUILT_IN or name not in PIPELINED)
    mesh_of(options.mesh, "dse reproduce automap")
    chosen, joined = chip(options.accelerator), network(options.network)
    for step in steps:
        family_of(step)
    machine = Machine(options.mesh, options.accelerator, options.network)
    seconds = sum(len(step_of(step).operations) for step in steps) / OPERATIONS_PER_S
    where = f"{options.mesh} × {chosen.name} on {joined.name}"
    return Posed(
        settings={"models": list(named), **machine._asdict(), "rounds": options.rounds, "seeds": options.seeds},
        budget=f"Steps: {', '.join(named)}; {where}; pipelines on servers with 8 devices; every plan is proven "
        "optimal.",
        identity=[
            [digest(text_of_step(step)) for step in named],
            repr(chosen),
            repr(joined),
            learned.identity if learned is not None and set(parts) & {*CURVE_TITLES, CONTEST} else None,
        ],
        predicted_s={
            **{part: 2 * count * seconds for part, count in _RULES.items()},
            **{part: each * len(pipelined) for part, each in _PIPELINE_S.items()},
            **{part: each * options.rounds for part, each in _ROUND_S.items()},
            CONTEST: _CONTEST_S * options.rounds * options.seeds * (3 * len(pipelined) + 2 * len(steps)),
            **dict.fromkeys(SETUP_TITLES, seconds),
            "claims": seconds + _PIPELINE_S["table8"] * len(pipelined),
        },
        context=lambda run: Context(Study(steps, machine, run, pipelined), options.rounds, options.seeds, learned),
    )


def _names(models: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in models.split(","))
    if "" in names or len(set(names)) < len(names):
        raise fail("dse reproduce automap", "--models", models, "steps must be unique")
    return names


PARTS = {
    "table1": Part(SETUP_TITLES["table1"], models),
    "table2": Part(SETUP_TITLES["table2"], machines),
    "claims": Part(CLAIMS_TITLE, claims),
    "table3": Part(TITLES["table3"], partial(plans, part="table3", name="T5")),
    "table4": Part(TITLES["table4"], partial(plans, part="table4", name="VGG")),
    "table5": Part(TITLES["table5"], counts),
    "table6": Part(TITLES["table6"], data_parallel),
    "table7": Part(PIPELINE_TITLES["table7"], training),
    "table8": Part(PIPELINE_TITLES["table8"], inference),
    "figure11": Part(PIPELINE_TITLES["figure11"], all_reduces),
    "figure12": Part(PIPELINE_TITLES["figure12"], computing),
}

QUICK = {"models": "vgg19,t5-base,bert-48", "rounds": 5, "seeds": 1}

CURVES = {"figure16": operator_curve, "figure17": pipeline_curve}


def paper(learned: Learned | None = None) -> Paper[AutomapOptions, Context]:
    """The paper; without learning all but the curves of training can be made."""
    missing = NEEDS_LEARNING if learned is None else None
    return Paper(
        NAME,
        SUMMARY,
        read_published().citation,
        AutomapOptions,
        {
            **{name: replace(part, make=partial(_of_study, part.make)) for name, part in PARTS.items()},
            CONTEST: Part(CONTEST_TITLE, _contest, missing),
            **{name: Part(title, partial(_curve, name), missing) for name, title in CURVE_TITLES.items()},
        },
        partial(_posed, learned=learned),
        quick=QUICK,
    )


def _of_study(make: Callable[[Study], Section], context: Context) -> Section:
    return make(context.study)


def _contest(context: Context) -> Section:
    assert context.learned is not None, "the part is missing without it"
    return contest(context.study, context.learned, context.rounds, context.seeds)


def _curve(name: str, context: Context) -> Section:
    assert context.learned is not None, "the part is missing without it"
    return CURVES[name](context.study, context.learned, context.rounds)


PAPER = paper()
