"""What of the multi-chip partitioning paper can be reproduced, and with which options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from dse.partition.methods import Method
from dse.reproduce.mcm import SUMMARY, bert, figure7
from dse.reproduce.mcm.study import Study, StudyBudget, question_about
from dse.reproduce.mcm.tables import TITLES
from dse.reproduce.paper import Paper, Part, Posed
from dse.reproduce.section import Section
from dse.run.options import Option, Options
from dse.run.run import Run
from hardware.inputs import fail

NAME = "mcm"

CITATION = (
    "Xie et al., A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules, MLSys 2022"
)

STUDY_S = 600.0
"""Seconds of one part of the study on one core, at the least: it runs every method on every graph."""

FIGURE7_S = 20.0
"""Seconds of Figure 7: four times 2,000 partitions of BERT by both evaluators."""

NEEDS_LEARNING = "requires the extra `learn`, which is not installed"

QUICK: Mapping[str, Any] = MappingProxyType({"models": "nin-cifar,dlrm", "samples": 20, "seeds": 2})
"""Two small graphs in place of sixteen and BERT."""

SYNONYMS: Mapping[str, str] = MappingProxyType({"fig5": "table2", "fig6": "table3"})
"""Figures that show what a table counts."""


@dataclass(frozen=True)
class McmOptions(Options):
    """The options of ``dse reproduce mcm``.

    Attributes:
        models: graphs in place of the paper's, separated by commas (:func:`dse.partition.graphs.source.graph_of`): the
            first for Table 3 and Figure 7, all of them for the others; None: the 16 catalogue test graphs, and
            BERT-large.
        samples: evaluations of each method.
        seeds: of each method that draws.
    """

    COMMAND: ClassVar[str] = "reproduce mcm"

    models: Annotated[
        str | None, Option("Graphs to use instead of the paper's: any input of `dse partition`.", metavar="GRAPH,…")
    ] = None
    samples: Annotated[int, Option("Evaluations per method.", min=1, max=10**6)] = 300
    seeds: Annotated[int, Option("Seeds per randomised method.", min=1, max=1000)] = 5


@dataclass(frozen=True)
class Learned:
    """The learned methods, which come from outside.

    Attributes:
        methods: by name, next to those that do not learn.
        variants: of one of them, for the ablation.
        identity: what decides what they find, as JSON types; it may be slow.
    """

    methods: Mapping[str, Method]
    variants: Mapping[str, Method]
    identity: Callable[[], Any]


@dataclass(frozen=True)
class Context:
    """What the parts are made from.

    Attributes:
        study: of samples.
        source: the graph of Figure 7; None for the paper's.
    """

    study: Study
    source: str | None


def _figure7(context: Context) -> Section:
    return figure7.figure7(figure7.context_of(context.source, context.study.run.seed))


def _studied(part: str, context: Context) -> Section:
    return context.study.section(part)


def paper(learned: Learned | None = None) -> Paper[McmOptions, Context]:
    """The paper; without learned methods only Figure 7 can be made."""
    missing = NEEDS_LEARNING if learned is None else None
    parts = {name: Part(title, partial(_studied, name), missing) for name, title in TITLES.items()}
    return Paper(
        NAME,
        SUMMARY,
        CITATION,
        McmOptions,
        {**parts, "fig7": Part(figure7.TITLE, _figure7)},
        lambda options, wanted: _posed(options, wanted, learned),
        SYNONYMS,
        QUICK,
    )


def _posed(options: McmOptions, wanted: tuple[str, ...], learned: Learned | None) -> Posed[Context]:
    sources = () if options.models is None else tuple(name.strip() for name in options.models.split(","))
    if "" in sources:
        raise fail("dse reproduce mcm", "--models", options.models, "must be names separated by commas")
    for source in sources:
        question_about(source)  # trials would each fail on a graph that is none
    known = learned if learned is not None and any(name in TITLES for name in wanted) else None
    samples, seeds = options.samples, options.seeds
    models = list(sources) or ["16 catalogue test graphs", bert.NAME]

    def context(run: Run) -> Context:
        study = Study(
            {} if learned is None else learned.methods,
            {} if learned is None else learned.variants,
            run,
            StudyBudget(samples, seeds),
        )
        return Context(study.over(sources), sources[0] if sources else None)

    return Posed(
        settings={"models": models, "samples": samples, "seeds": seeds},
        budget=f"Graphs: {', '.join(models)}. Study: {samples:,} evaluations and {seeds} seeds per method.",
        identity=None if known is None else known.identity(),
        predicted_s={**dict.fromkeys(TITLES, STUDY_S), "fig7": FIGURE7_S},
        context=context,
    )


PAPER = paper()
