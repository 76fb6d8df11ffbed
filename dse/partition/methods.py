"""The methods of ``dse partition`` by name; learned ones are added at the roof."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.search.cp_sat import cp_sat
from dse.partition.search.neighbourhoods import neighbourhood_search
from dse.partition.search.order_search import order_search
from dse.partition.search.portfolio import portfolio
from dse.partition.search.refining import refine
from dse.partition.search.sampling import anneal, greedy, hill_climb, random_search
from dse.partition.search.screening import screen
from hardware.inputs import choose

Method = Callable[[SearchContext], SearchResult]

ALL = "all"
"""Every method, in sequence."""

LEARNED = "rl"
"""The method that is added at the roof."""

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "portfolio": portfolio,
        "dp": order_search,
        "cp-sat": cp_sat,
        "lns": neighbourhood_search,
        "greedy": greedy,
        "refine": refine,
        "screen": screen,
        "hill-climb": hill_climb,
        "anneal": anneal,
        "random": random_search,
    }
)


def methods_of(text: str, known: Mapping[str, Method] = METHODS) -> Mapping[str, Method]:
    """The methods that ``--method`` names, of all that are ``known``, in the order of :func:`names_of`.

    Raises:
        InputError: as there.
    """
    return {name: known[name] for name in names_of(text, known)}


def names_of(text: str, known: Iterable[str]) -> list[str]:
    """What ``--method`` names: one method, several with commas between them, or ``all``, in that order, each once.

    Raises:
        InputError: an unknown name.
    """
    known = list(known)
    names = known if text == ALL else list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        choose("dse partition", "--method", name, known if "," in text else [*known, ALL], "method")
    return names
