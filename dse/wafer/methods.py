"""Method names and what they do; ``actors`` and ``policies`` may add theirs at the roof."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from dse.wafer.few_kernels import cheapest_of_few
from dse.wafer.packing import packed
from dse.wafer.search.context import COLUMNS, SearchContext, SearchResult
from dse.wafer.search.gigaplacer.method import gigaplacer
from dse.wafer.search.portfolio import search
from dse.wafer.search.slicing_tree import slicing_tree


def portfolio(context: SearchContext) -> SearchResult:
    """Rows, columns, protocols and annealing; any arrangement where these find none; of a few kernels the cheapest."""
    best = search(context)
    best = packed(context, best) if best.placement is None else best
    return cheapest_of_few(context, best)


def rows(context: SearchContext) -> SearchResult:
    """Rows by dynamic programming for every time limit (the paper without its refinements), and protocols."""
    return search(replace(context, moves=0, steps=context.steps - {COLUMNS}))


Method = Callable[[SearchContext], SearchResult]

METHODS: Mapping[str, Method] = MappingProxyType(
    {"portfolio": portfolio, "rows": rows, "slicing-tree": slicing_tree, "gigaplacer": gigaplacer}
)
"""What a user can ask of ``dse wafer``."""
