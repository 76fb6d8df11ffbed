"""The methods of ``dse partition`` by name; learned ones are added at the roof."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from dse.partition.constraints.sampler import SolverMode
from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.search.cp_sat import cp_sat
from dse.partition.search.neighbourhoods import neighbourhood_search
from dse.partition.search.order_search import order_search
from dse.partition.search.portfolio import portfolio
from dse.partition.search.refining import refine
from dse.partition.search.sampling import anneal, greedy, hill_climb, random_search
from dse.partition.search.screening import screen
from dse.partition.search.solver_modes import anneal_fix, climb_sample, random_fix
from hardware.inputs import choose, fail

Method = Callable[[SearchContext], SearchResult]

ALL = "all"
"""Every method, one after the other."""

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

SOLVER_MODES: Mapping[str, Mapping[SolverMode, Method]] = MappingProxyType(
    {
        "hill-climb": {"sample": climb_sample, "fix": hill_climb},
        "anneal": {"sample": anneal, "fix": anneal_fix},
        "random": {"sample": random_search, "fix": random_fix},
    }
)
"""The methods that can use either form of the constraint solver."""


def methods_of(
    text: str, mode: SolverMode | None = None, known: Mapping[str, Method] = METHODS
) -> Mapping[str, Method]:
    """The methods that ``--method`` names: one, several with commas between them, or ``all``, in that order.

    Args:
        text: what was given.
        mode: which form of the constraint solver those use that can use either; None for each method's own.
        known: all methods by name.

    Raises:
        InputError: an unknown name, or a mode where no method has the choice.
    """
    names = names_of(text, mode, known)
    forms = {name: SOLVER_MODES[name] for name in names if mode is not None and name in SOLVER_MODES}
    return {name: forms[name][mode] if mode is not None and name in forms else known[name] for name in names}


def names_of(text: str, mode: SolverMode | None, known: Iterable[str]) -> list[str]:
    """The names of :func:`methods_of`, of all that are ``known``.

    Raises:
        InputError: as there.
    """
    known = list(known)
    names = known if text == ALL else list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        choose("dse partition", "--method", name, known if "," in text else [*known, ALL], "method")
    if mode is not None and not any(name in SOLVER_MODES for name in names):
        rule = f"{text} draws nothing that could be drawn in two ways; methods that do: {', '.join(SOLVER_MODES)}"
        raise fail("dse partition", "--solver-mode", mode, rule)
    return names
