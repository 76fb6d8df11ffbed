"""Method names and what they do; ``actors`` and ``policies`` may add theirs at the roof."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dse.wafer.search.portfolio import Found, Search


def portfolio(search: Search) -> Found:
    """Rows, protocols and annealing."""
    return search.run()


def rows(search: Search) -> Found:
    """Rows by dynamic programming for every time limit (the paper without its refinements), and protocols."""
    search.moves = 0
    return search.run()


Method = Callable[[Search], Found]

METHODS: Mapping[str, Method] = MappingProxyType({"portfolio": portfolio, "rows": rows})
