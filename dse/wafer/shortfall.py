"""Why nothing can be placed: which kernels fit at no parameters, what lacks, and what would make them fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dse.wafer.bound import area_fits
from dse.wafer.problem import Convolution, Kernel, Wafer, WaferProblem
from dse.wafer.shapes import MAX_TICKS, NEVER, Protocols, protocols_of, shape_table, staircases

_MAX_MEMORY_WORDS = 2**40
"""More than any kernel needs whose work is counted in 64 bits and that has a few tiles."""


def infeasibility(problem: WaferProblem) -> dict[str, Any] | None:
    """The proof that no placement is legal, as JSON types; None where the area does not show that.

    Memory falls and rectangles grow with the parameters, so a kernel that no rectangle within the grid can hold needs
    more memory or more tiles. Then all kernels together: their smallest rectangles do not overlap.
    """
    alike: dict[tuple[Convolution, ...], list[Kernel]] = {}
    for kernel in problem.kernels:
        alike.setdefault(kernel.convolutions, []).append(kernel)
    proofs = {kernels[0].name: (kernels, _misfit(problem, kernels)) for kernels in alike.values()}
    misfits = [proof for _, proof in proofs.values() if proof is not None]
    if misfits:
        in_memory = all(each["resource"] == "tile_memory_words" for each in misfits)
        worst = max(misfits, key=lambda each: (each["resource"] == "tiles", each["demand"]))
        return {
            **worst,
            "explanation": "; ".join(each["explanation"] for each in misfits),
            "kernels": [each.name for kernels, proof in proofs.values() if proof is not None for each in kernels],
            "levers": [f"memlimit={worst['demand']} or more"] * in_memory + ["a larger grid"],
        }
    table = shape_table(problem)
    if area_fits(problem, table, MAX_TICKS):
        return None
    demand = int(staircases(problem, table, MAX_TICKS).area[table.group].sum())
    grid = f"{problem.wafer.width_tiles} × {problem.wafer.height_tiles}"
    return {
        "resource": "tiles",
        "demand": demand,
        "limit": problem.wafer.tiles,
        "unit": "tiles",
        "explanation": f"the smallest rectangles of all kernels add up to {demand} tiles, but the {grid} grid has "
        f"{problem.wafer.tiles}",
        "levers": [f"at least {demand - problem.wafer.tiles} more tiles", "more memory per tile"],
    }


def _fits(alone: WaferProblem, known: Protocols, memory_words: int) -> bool:
    """Whether the only kernel of a problem, which can have the parameters ``known``, fits the grid with so much memory
    a tile.
    """
    wafer = Wafer(alone.wafer.width_tiles, alone.wafer.height_tiles, memory_words)
    sized = replace(alone, wafer=wafer)
    return bool(staircases(sized, shape_table(sized, known), MAX_TICKS).area[0] < NEVER)


def _misfit(problem: WaferProblem, alike: Sequence[Kernel]) -> dict[str, Any] | None:
    """Which kernel fits at no parameters, and the least memory a tile with which it would; None for one that fits.

    ``alike``: kernels of the same convolutions, for all of which the first one stands.
    """
    kernel = alike[0]
    more = f" and {len(alike) - 1} more like it" if len(alike) > 1 else ""
    limit, name = problem.wafer.memory_words, f"{kernel.name} ({kernel.kind}){more}"
    alone = replace(problem, kernels=(kernel,), edges=())
    known = protocols_of(alone)
    if _fits(alone, known, limit):
        return None
    grid = f"the {problem.wafer.width_tiles} × {problem.wafer.height_tiles} grid"
    if not _fits(alone, known, _MAX_MEMORY_WORDS):
        tiles = 3 * len(kernel.convolutions) * 2
        rule = f"{name}: needs at least {tiles // 2} × 2 tiles, which do not fit on {grid}"
        return _document(kernel, "tiles", tiles, problem.wafer.tiles, rule)
    low, high = limit + 1, _MAX_MEMORY_WORDS
    while low < high:
        middle = (low + high) // 2
        if _fits(alone, known, middle):
            high = middle
        else:
            low = middle + 1
    rule = (
        f"{name}: no parameters fit {grid}; it needs at least {low} words of memory per tile, but a tile has {limit} "
        f"({low - limit} too few)"
    )
    return _document(kernel, "tile_memory_words", low, limit, rule)


def _document(kernel: Kernel, resource: str, demand: int, limit: int, explanation: str) -> dict[str, Any]:
    unit = "tiles" if resource == "tiles" else "words"
    return {
        "kernel": kernel.name,
        "resource": resource,
        "demand": demand,
        "limit": limit,
        "unit": unit,
        "explanation": explanation,
    }
