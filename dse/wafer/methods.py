"""Method names and what they do; ``actors`` and ``policies`` may add theirs at the roof."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from dse.wafer.packing import packed
from dse.wafer.search.context import COLUMNS, Found, SearchContext
from dse.wafer.search.portfolio import search
from dse.wafer.search.slicing_tree import slicing_tree


def portfolio(context: SearchContext) -> Found:
    """Rows, columns, protocols and annealing; any arrangement where these find no placement."""
    found = search(context)
    return packed(context, found) if found.placement is None else found


def rows(context: SearchContext) -> Found:
    """Rows by dynamic programming for every time limit (the paper without its refinements), and protocols."""
    return search(replace(context, moves=0, steps=context.steps - {COLUMNS}))


Method = Callable[[SearchContext], Found]

METHODS: Mapping[str, Method] = MappingProxyType({"portfolio": portfolio, "rows": rows, "slicing-tree": slicing_tree})
"""What a user can ask of ``dse wafer``."""
