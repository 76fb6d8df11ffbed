"""What would make a placement fit: changes of the problem, each confirmed by solving the changed problem."""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace

from dse.placement.problem import LayerGraph, PipelineSchedule, PlacementProblem, RecomputeGranularity
from dse.placement.shortfall import least_demanding, memory_needs
from dse.placement.solve import solve
from dse.report.units import needed_memory_text
from hardware.inputs import InputError

MAX_PARTS = 1024
"""Parts into which a microbatch is cut at most."""


_Change = tuple[str, PlacementProblem]


def levers(problem: PlacementProblem) -> list[str]:
    """What makes a problem without a placement fit, each change by itself, in the terms of its document.

    All widths of the document have been tried by then, so that no other width is among them. A change is left out where
    the search for a placement meets its limits.
    """
    alternatives = (_more_memory, _recomputation, _schedule, _smaller_microbatches, _more_accelerators)
    first = (next((text for text, changed in each(problem) if _fits(changed)), None) for each in alternatives)
    return [text for text in first if text is not None]


def _more_memory(problem: PlacementProblem) -> Iterator[_Change]:
    need = least_demanding(memory_needs(problem), problem.accelerators)
    if need is not None:
        size_bytes = math.ceil(need.needed_bytes)
        text = f"hbm_bytes of at least {size_bytes} ({needed_memory_text(size_bytes)})"
        yield text, replace(problem, hbm_bytes=float(size_bytes))


def _recomputation(problem: PlacementProblem) -> Iterator[_Change]:
    """With the granularity of the document, or the other one, or with more memory where that is less than without."""
    granularity: RecomputeGranularity = "stage" if problem.recompute_granularity == "layer" else "layer"
    recomputing, other = f"recompute_granularity {granularity}", replace(problem, recompute=True)
    if not problem.recompute:
        yield "recompute", other
        recomputing = f"recompute and {recomputing}"
    yield recomputing, replace(other, recompute_granularity=granularity)
    if not problem.recompute:
        (_, without), (text, changed) = *_more_memory(problem), *_more_memory(other)
        if changed.hbm_bytes < without.hbm_bytes:
            yield f"recompute and {text}", changed


def _schedule(problem: PlacementProblem) -> Iterator[_Change]:
    schedule: PipelineSchedule = "gpipe" if problem.pipeline_schedule == "1f1b" else "1f1b"
    yield f"pipeline_schedule {schedule}", replace(problem, pipeline_schedule=schedule)


def _smaller_microbatches(problem: PlacementProblem) -> Iterator[_Change]:
    """The largest that fit, in powers of two."""
    parts = 2
    while parts <= MAX_PARTS:
        changed = with_microbatches(problem, parts)
        yield f"microbatches 1/{parts} as large ({changed.microbatches} of them)", changed
        parts *= 2


def _more_accelerators(problem: PlacementProblem) -> Iterator[_Change]:
    needs = [need for of_width in memory_needs(problem).values() for need in of_width]
    for number in sorted({need.accelerators for need in needs if need.needed_bytes <= problem.hbm_bytes}):
        yield f"{number} accelerators instead of {problem.accelerators}", replace(problem, accelerators=number)


def with_microbatches(problem: PlacementProblem, parts: int) -> PlacementProblem:
    """The problem with each microbatch cut into ``parts``: activations, transfers and passes shrink with it."""

    def smaller(graph: LayerGraph) -> LayerGraph:
        layers = tuple(
            replace(
                layer,
                forward_s=layer.forward_s / parts,
                backward_s=layer.backward_s / parts,
                activation_bytes=layer.activation_bytes / parts,
            )
            for layer in graph.layers
        )
        return LayerGraph(layers, tuple((source, target, size / parts) for source, target, size in graph.edges))

    graphs = {tensor: smaller(graph) for tensor, graph in problem.tensor_parallel.items()}
    return replace(problem, microbatches=parts * problem.microbatches, tensor_parallel=graphs)


def _fits(problem: PlacementProblem) -> bool:
    """Whether some placement fits. (With a cutoff, nothing is explained where none does.)"""
    try:
        return solve(problem, sys.float_info.max).placement is not None
    except InputError:
        return False
