"""What of the wafer placement paper can be reproduced, and with which options."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dse.reproduce.gigaplacer import SUMMARY
from dse.reproduce.gigaplacer.cases import chosen_problems
from dse.reproduce.gigaplacer.figures import figure7, figure8
from dse.reproduce.gigaplacer.published import read_published
from dse.reproduce.gigaplacer.refinement import refinement, slicing_trees
from dse.reproduce.gigaplacer.study import Study
from dse.reproduce.gigaplacer.table1 import table1
from dse.reproduce.paper import Paper, Part, Posed
from dse.results.result import document_of
from dse.run.options import Option, Options
from dse.wafer.options import MOVES

NAME = "gigaplacer"


@dataclass(frozen=True)
class GigaplacerOptions(Options):
    """The options of ``dse reproduce gigaplacer``.

    Attributes:
        models: cases, files or folders, separated by commas (:func:`dse.reproduce.gigaplacer.cases.chosen_problems`);
            None: the paper's twenty cases.
        moves: of annealing in every search that anneals.
    """

    COMMAND: ClassVar[str] = "reproduce gigaplacer"

    models: Annotated[
        str | None,
        Option(
            "Cases (such as A,D), folders of .kgraph files, or any input of `dse wafer` (default: all cases).",
            metavar="CASE,…",
        ),
    ] = None
    moves: Annotated[int, Option("Annealing moves per search.", min=1, max=10**12)] = MOVES


def _posed(options: GigaplacerOptions, _parts: tuple[str, ...]) -> Posed[Study]:
    problems = chosen_problems(options.models)

    # Half a minute for a search with the default number of moves.
    seconds = len(problems) * (5 + 30 * options.moves / MOVES)
    return Posed(
        settings={"models": list(problems), "moves": options.moves},
        budget=f"Cases: {', '.join(problems)}; {options.moves:,} moves per search.",
        identity=document_of(problems),
        predicted_s=dict.fromkeys(PARTS, seconds),
        context=lambda run: Study(problems, run, options.moves),
    )


PARTS = {
    "table1": Part("Table 1: total cost, bound and seconds of each case", table1),
    "fig7": Part("Figure 7: final layouts", figure7),
    "fig8": Part("Figure 8: a case with and without refinement", figure8),
    "refinement": Part("Refinement: contribution of each step", refinement),
    "slicing-tree": Part("Section 1: annealing of slicing trees", slicing_trees),
}

QUICK = {"models": "E,K", "moves": MOVES // 160}
"""50 CPU seconds on one core, measured; adapters count in E, and Figure 7 shows it."""

PAPER = Paper(NAME, SUMMARY, read_published().citation, GigaplacerOptions, PARTS, _posed, quick=QUICK)
