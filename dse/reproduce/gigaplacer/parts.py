"""The parts of the paper that can be reproduced, and the run over those asked for."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from dse.reproduce.gigaplacer.figures import figure7, figure8
from dse.reproduce.gigaplacer.published import read_published
from dse.reproduce.gigaplacer.refinement import refinement, slicing_trees
from dse.reproduce.gigaplacer.study import Study
from dse.reproduce.gigaplacer.table1 import table1
from dse.reproduce.section import Reproduction, Section
from dse.run.progress import StoppedError, ask
from hardware.inputs import choose

NAME = "gigaplacer"

PARTS: Mapping[str, Callable[[Study], Section]] = MappingProxyType(
    {"table1": table1, "fig7": figure7, "fig8": figure8, "refinement": refinement, "slicing-tree": slicing_trees}
)
"""What makes each part, in the order of printing."""


def chosen_parts(asked: Sequence[str]) -> tuple[str, ...]:
    """The parts asked for, in the order of printing; all of them when none is named.

    Raises:
        InputError: no part of this name (the nearest one is offered).
    """
    for name in asked:
        choose("dse reproduce", "TABLE", name, PARTS, "table or figure of gigaplacer")
    return tuple(name for name in PARTS if not asked or name in asked)


def reproduce(parts: Sequence[str], study: Study) -> Reproduction:
    """The parts of the paper beside ours, from the searches of ``study``; what is not reached says so."""
    started, sections, stopped = time.perf_counter(), list[Section](), None
    names, paper = chosen_parts(parts), read_published()
    for name in names:
        try:
            ask(study.stop)
            sections.append(PARTS[name](study))
        except StoppedError as reason:
            stopped = str(reason)
            sections.append(Section(name, name, (), (f"not reached: {stopped}",)))
    asked = {
        "paper": NAME,
        "parts": list(names),
        "models": list(study.problems),
        "seed": study.seed,
        "moves": study.moves,
    }
    return Reproduction(NAME, paper.citation, asked, tuple(sections), time.perf_counter() - started, stopped)
