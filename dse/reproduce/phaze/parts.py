"""What of the PHAZE paper can be reproduced, and with which options."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dse.reproduce.paper import Paper, Part, Posed
from dse.reproduce.phaze import SUMMARY
from dse.reproduce.phaze.common import common
from dse.reproduce.phaze.context import DEFAULT_BUDGET, Budget, Context
from dse.reproduce.phaze.convergence import figure8, figure9
from dse.reproduce.phaze.figure4 import figure4
from dse.reproduce.phaze.published import PublishedPaper, read_published
from dse.reproduce.phaze.search_time import figure6, figure7
from dse.reproduce.phaze.table2 import table2
from dse.reproduce.phaze.table3 import table3
from dse.reproduce.phaze.table4 import table4
from dse.reproduce.phaze.table5 import table5
from dse.run.options import Option, Options
from hardware.inputs import choose

NAME = "phaze"

COST_MODELS = ("consistent", "phaze-2024")

SEARCH_S = 60.0
"""Seconds of the searches of one model on one core."""


@dataclass(frozen=True)
class PhazeOptions(Options):
    """The options of ``dse reproduce phaze``.

    Attributes:
        models: some of the paper's models, separated by commas; None for all.
        cost_model: under which the searches price operators.
    """

    COMMAND: ClassVar[str] = "reproduce phaze"

    models: Annotated[str | None, Option("Models of the paper to use (default: all).", metavar="NAME,…")] = None
    cost_model: Annotated[
        Literal["consistent", "phaze-2024", "both"], Option("Cost model for operators, memory and training.")
    ] = "both"


PARTS = {
    "table2": Part("Table 2: architecture and placement for each model", table2),
    "common": Part("Common architecture for all models", common),
    "table3": Part("Table 3: core that runs each operator", table3),
    "table4": Part("Table 4: size of the models", table4),
    "table5": Part("Table 5: model FLOPs utilisation", table5),
    "fig4": Part("Figure 4: throughput relative to TPUv4 with expert placement", figure4),
    "fig6": Part("Figure 6: CPU time of a search", figure6),
    "fig7": Part("Figure 7: operator scheduling and placement", figure7),
    "fig8": Part("Figure 8: time by hysteresis level", figure8),
    "fig9": Part("Figure 9: architectures visited by hysteresis level", figure9),
}

WITHOUT_SEARCH = ("table3", "table4")
"""Parts that take no time."""


def chosen_models(paper: PublishedPaper, text: str | None) -> tuple[str, ...]:
    """The models that ``text`` names, separated by commas, in the paper's order; all of them for None.

    Raises:
        InputError: no model of this name in the paper (the nearest one is offered).
    """
    names = list(paper.models) if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        choose("dse reproduce", "--models", name, paper.models, f"model of {paper.name}")
    return tuple(name for name in paper.models if name in names)


def posed(
    paper: PublishedPaper, models: tuple[str, ...], cost_models: tuple[str, ...], budget: Budget
) -> Posed[Context]:
    """The searches of ``models`` under ``cost_models``, each with its limit of ``budget``."""
    limits = ", ".join(f"{name} {value:g} s" for name, value in budget.limits_s.items())
    searching_s = SEARCH_S * len(models)
    return Posed(
        settings={"models": list(models), "cost_models": list(cost_models), "limits_s": budget.limits_s},
        budget=(f"Models: {', '.join(models)}; cost models: {', '.join(cost_models)}; limit per search: {limits}."),
        identity=paper.model_dump(mode="json"),
        predicted_s={name: 0.0 if name in WITHOUT_SEARCH else searching_s for name in PARTS},
        context=lambda run: Context(paper, models, cost_models, run, budget),
    )


def _posed(options: PhazeOptions, _parts: tuple[str, ...]) -> Posed[Context]:
    paper = read_published()
    cost_models = COST_MODELS if options.cost_model == "both" else (options.cost_model,)
    return posed(paper, chosen_models(paper, options.models), cost_models, DEFAULT_BUDGET)


QUICK = {"models": "bert-large", "cost_model": "phaze-2024"}

PAPER = Paper(NAME, SUMMARY, read_published().citation, PhazeOptions, PARTS, _posed, quick=QUICK)
