"""The parts of the PHAZE paper that can be reproduced, and the run over those asked for."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from dse.reproduce.phaze.common import common
from dse.reproduce.phaze.context import Context
from dse.reproduce.phaze.convergence import figure8, figure9
from dse.reproduce.phaze.figure4 import figure4
from dse.reproduce.phaze.published import Paper
from dse.reproduce.phaze.search_time import figure6, figure7
from dse.reproduce.phaze.table2 import table2
from dse.reproduce.phaze.table4 import table4
from dse.reproduce.phaze.table5 import table5
from dse.reproduce.section import Reproduction, Section
from hardware.inputs import choose

PARTS: dict[str, Callable[[Context], Section]] = {
    "table2": table2,
    "common": common,
    "table4": table4,
    "table5": table5,
    "fig4": figure4,
    "fig6": figure6,
    "fig7": figure7,
    "fig8": figure8,
    "fig9": figure9,
}
"""What makes each part, in the order of printing."""

WITHOUT_SEARCH = ("table4",)
"""Parts that take no time."""


def chosen_parts(asked: Sequence[str]) -> tuple[str, ...]:
    """The parts asked for, in the order of printing; all of them when none is named.

    Raises:
        InputError: no part of this name (the nearest one is offered).
    """
    for name in asked:
        choose("dse reproduce", "TABLE", name, PARTS, "table or figure of phaze")
    return tuple(name for name in PARTS if not asked or name in asked)


def chosen_models(paper: Paper, asked: str | None) -> tuple[str, ...]:
    """The models asked for (names separated by commas), in the paper's order; all of them for None.

    Raises:
        InputError: no model of this name in the paper (the nearest one is offered).
    """
    names = list(paper.models) if asked is None else [name.strip() for name in asked.split(",")]
    for name in names:
        choose("dse reproduce", "--models", name, paper.models, f"model of {paper.name}")
    return tuple(name for name in paper.models if name in names)


def reproduce(
    context: Context, parts: Sequence[str], settings: dict[str, Any], done: Callable[[Section], None] | None = None
) -> Reproduction:
    """Every part in turn; ``done`` is told of each as it is finished. What is not reached says so.

    Args:
        context: models, cost models, budget and searches.
        parts: names of :data:`PARTS`.
        settings: what was asked, for the document.
        done: called with each finished section.
    """
    started = time.monotonic()
    sections = []
    stopped = None
    for name in parts:
        stopped = stopped or context.stopped
        if stopped is not None and name not in WITHOUT_SEARCH:
            section = Section(name, name, (), (f"not reached: {stopped}",))
        else:
            section = PARTS[name](context)
        sections.append(section)
        if done is not None:
            done(section)
    return Reproduction(
        paper=context.paper.name,
        citation=context.paper.citation,
        settings=settings,
        sections=tuple(sections),
        seconds=time.monotonic() - started,
        stopped=stopped or context.stopped,
    )
