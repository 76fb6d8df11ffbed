"""``dse place`` as a function: problem in, checked result out."""

import time

from dse.placement.check import violations
from dse.placement.formats import placement_document
from dse.placement.problem import MemoryShortfall, PlacementProblem
from dse.placement.solve import solve
from dse.placement.timeline import has_timeline, timeline
from dse.results.result import (
    FailedCheckError,
    Objective,
    ProblemReference,
    Result,
    digest,
    document_of,
    proven_status,
    relative_gap,
)
from hardware.units import gib_from_bytes


def answer(problem: PlacementProblem, seed: int = 0) -> Result:
    """The optimal placement of ``problem``, or why there is none.

    The metrics are of the pipeline as it runs in time: ``simulated_pipeline_s`` to its last pass, ``simulated_batch_s``
    to the last optimizer step. They are left out where the passes are too many.

    Raises:
        FailedCheckError: the checker refuses the answer.
    """
    started = time.perf_counter()
    found = solve(problem)
    seconds = time.perf_counter() - started
    if found.placement is not None:
        faults = violations(problem, found.placement)
        if faults:
            raise FailedCheckError("; ".join(faults))
    value = found.placement.batch_s if found.placement else None
    metrics: dict[str, float] = {}
    if found.placement is not None and has_timeline(problem, found.placement):
        times = timeline(problem, found.placement)
        metrics = {"simulated_pipeline_s": times.pipeline_s, "simulated_batch_s": times.batch_s}
    bound = value if found.bound_s is None else found.bound_s
    return Result(
        command="place",
        problem=ProblemReference(name=problem.name, digest=digest(document_of(problem))),
        status="infeasible" if found.placement is None else proven_status(value, bound),
        objective=Objective(name="batch_s", value=value, unit="s", sense="min"),
        bound=bound,
        gap=relative_gap(value, bound),
        solution={} if found.placement is None else placement_document(problem, found.placement),
        metrics=metrics,
        infeasibility=None if found.shortfall is None else shortfall_document(found.shortfall),
        evaluations=1,
        seconds=seconds,
        seed=seed,
        method="dynamic program",
    )


def shortfall_document(shortfall: MemoryShortfall) -> dict[str, object]:
    """A memory shortfall as JSON types, with one sentence for people."""
    layers = list(shortfall.stage_layers)
    span = layers[0] if len(layers) == 1 else f"{layers[0]} … {layers[-1]} ({len(layers)} layers)"
    return {
        "resource": "hbm_bytes",
        "tensor": shortfall.tensor,
        "stage": layers,
        "demand_bytes": shortfall.needed_bytes,
        "limit_bytes": shortfall.hbm_bytes,
        "excess_bytes": shortfall.excess_bytes,
        "remedy": shortfall.remedy,
        "explanation": (
            f"At tensor width {shortfall.tensor}, the stage {span} needs "
            f"{gib_from_bytes(shortfall.needed_bytes):.2f} GB of {gib_from_bytes(shortfall.hbm_bytes):g} GB: "
            f"{shortfall.excess_bytes:,.0f} bytes too many. {shortfall.remedy}"
        ),
    }
