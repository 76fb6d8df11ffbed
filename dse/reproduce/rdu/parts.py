"""What of the paper on learned cost models can be reproduced, and with which options."""

from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

from dse.reproduce.paper import Paper, Part, Posed
from dse.reproduce.rdu import SUMMARY, tables
from dse.reproduce.rdu.published import read_published
from dse.reproduce.rdu.study import Budget, Learned, Study
from dse.run.options import Option, Options
from dse.run.run import Run

NAME = "rdu"

NEEDS_LEARNING = "requires the extra `learn`, which is not installed"

_SAMPLE_S, _PASS_S, _FOLDS = 0.1, 1e-3, 5
"""Seconds to collect a sample, and of a pass over one; how many folds."""

_NETWORKS = {
    "table1": 2,
    "table2": 1,
    "fig2": 2,
    "table3": 6,
    "annotations": 4,
    "left-out": 4,
    "effort": 2,
    "placement": 0,
}
"""Networks that a part needs, in five folds."""


QUICK = {"graphs": 20, "placements": 4, "epochs": 4, "placed": 2, "moves": 5_000, "seeds": 1}


@dataclass(frozen=True)
class RduOptions(Options):
    """The options of ``dse reproduce rdu``; the paper has 5,878 samples: ``--graphs 1176``."""

    COMMAND: ClassVar[str] = "reproduce rdu"

    graphs: Annotated[
        int, Option("Graphs from which placements are sampled; 1176 gives 5,880 samples.", min=20, max=10**6)
    ] = 120
    placements: Annotated[int, Option("Placements per graph.", min=2, max=1000)] = 5
    epochs: Annotated[int, Option("Training epochs of networks.", min=1, max=10_000)] = 10
    placed: Annotated[int, Option("Graphs to place with every cost model.", min=1, max=10**5)] = 16
    moves: Annotated[int, Option("Annealing moves per placement.", min=1, max=10**9)] = 50_000
    seeds: Annotated[int, Option("Seeds with which Table II places.", min=1, max=1000)] = 3


def paper(learned: Learned | None = None) -> Paper[RduOptions, Study]:
    """The paper; nothing of it can be made without the learned cost models."""
    missing = NEEDS_LEARNING if learned is None else None
    makers = {name: getattr(tables, name.replace("-", "_")) for name in tables.TITLES}
    parts: dict[str, Part[Study]] = {}
    for name, title in tables.TITLES.items():
        parts[name] = Part(title, makers[name], missing)
    return Paper(
        NAME,
        SUMMARY,
        read_published().citation,
        RduOptions,
        parts,
        lambda options, _: _posed(options, learned),
        quick=QUICK,
    )


def _posed(options: RduOptions, learned: Learned | None) -> Posed[Study]:
    budget = Budget(
        options.graphs,
        options.placements,
        options.epochs,
        options.placed,
        options.moves,
        options.seeds,
    )
    samples = options.graphs * options.placements

    def context(run: Run) -> Study:
        assert learned is not None, "parts are missing without learned models"
        return Study(budget, run, learned.open(budget, run))

    network_s = _FOLDS * options.epochs * _PASS_S
    predicted_s = {part: samples * (_SAMPLE_S + count * network_s) for part, count in _NETWORKS.items()}
    return Posed(
        settings=asdict(budget),
        budget=f"{samples:,} samples from {options.graphs:,} graphs; networks train for {options.epochs} epochs.",
        identity=None if learned is None else learned.identity(),
        predicted_s=predicted_s,
        context=context,
    )


PAPER = paper()
