"""Why a graph does not fit on a fabric, as data."""

from dse.fabric.problem import CutMode
from dse.fabric.search.sites import SitesMissingError
from dse.results.infeasibility import Infeasibility


def infeasibility(misfit: SitesMissingError, cut: CutMode) -> Infeasibility:
    """The kind of unit of which most are missing, and all kinds in ``where``; offers the cut if it was not tried."""
    offered = ["--cut auto, to run it in pieces in turn"] if cut == "never" else []
    hint = "; --cut auto tries to run it in pieces in turn" if cut == "never" else ""
    kind = max(misfit.missing, key=lambda each: misfit.missing[each])
    return Infeasibility(
        resource=f"{kind} units",
        demand=float(misfit.needed[kind]),
        limit=float(misfit.available[kind]),
        unit="units",
        levers=[*offered, "fewer layers, or a smaller microbatch or sequence", "a larger fabric", "a higher --fill"],
        explanation=f"{misfit}{hint}.",
        where={"needed": misfit.needed, "available": misfit.available, "missing": misfit.missing},
    )
