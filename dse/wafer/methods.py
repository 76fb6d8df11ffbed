"""Method names and what they do; ``actors`` and ``policies`` may add theirs at the roof."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dse.wafer.packing import packed
from dse.wafer.search.portfolio import COLUMNS, Found, Search
from dse.wafer.search.slicing_tree import slicing_tree


def portfolio(search: Search) -> Found:
    """Rows, columns, protocols and annealing; any arrangement where these find no placement."""
    found = search.run()
    return packed(search) if found.placement is None else found


def rows(search: Search) -> Found:
    """Rows by dynamic programming for every time limit (the paper without its refinements), and protocols."""
    search.moves, search.steps = 0, search.steps - {COLUMNS}
    return search.run()


Method = Callable[[Search], Found]

METHODS: Mapping[str, Method] = MappingProxyType({"portfolio": portfolio, "rows": rows, "slicing-tree": slicing_tree})
