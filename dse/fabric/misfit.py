"""Why a graph does not fit on a fabric, as data."""

from dse.fabric.search.sites import SitesMissingError
from dse.results.infeasibility import Infeasibility


def infeasibility(misfit: SitesMissingError) -> Infeasibility:
    """The kind of unit of which most are missing, and all kinds in ``where``."""
    kind = max(misfit.missing, key=lambda each: misfit.missing[each])
    return Infeasibility(
        resource=f"{kind} units",
        demand=float(misfit.needed[kind]),
        limit=float(misfit.available[kind]),
        unit="units",
        levers=["fewer layers, or a smaller microbatch or sequence", "a larger fabric", "a higher --fill"],
        explanation=f"{misfit}.",
        where={"needed": misfit.needed, "available": misfit.available, "missing": misfit.missing},
    )
