"""What a placement came to, in words, tables and a page."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from dse.report.units import lower_bound_text
from dse.report.view import Breakdown, Card, Decisive, Drawing, Heading, Paragraph, Part, Row, Share, Table, View
from dse.results.result import Result, percent
from dse.wafer.check import kernel_time, memory_words, size_tiles
from dse.wafer.documents import placement_from_document
from dse.wafer.files.saved import paint_text
from dse.wafer.packing import ARRANGEMENT
from dse.wafer.problem import WaferPlacement, WaferProblem, Weights

if TYPE_CHECKING:
    from dse.report.drawn import DrawnFigure

COST_PARTS = ("time", "distance", "adapter")
COST_HEADERS: Row = ("", "amount", "weight", "cost")
KERNEL_HEADERS: Row = ("kernel", "type", "h", "w", "c", "k", "tiles", "at", "", "time", "busy", "memory")


def verdict(result: Result) -> str:
    """Value, bound and gap in one sentence."""
    value, bound = result.objective.value, result.bound
    assert value is not None
    if result.status == "optimal":
        return f"total cost {value:,.10g}, proven optimal"
    if bound is None or result.gap is None:
        return f"total cost {value:,.10g}, no bound"
    return f"total cost {value:,.10g}; lower bound {lower_bound_text(bound)}, gap {percent(result.gap)}"


def about(result: Result) -> str:
    """Kernels, use of the tiles, method and effort."""
    metrics = result.metrics
    amounts = f"{_count(metrics['kernels'], 'kernel')}, {_count(metrics['edges'], 'edge')}"
    return Decisive(
        f"{amounts}; {100 * metrics['utilisation']:.1f} % of the tiles hold a kernel, "
        f"{100 * metrics['busy']:.1f} % of the wafer is busy on average ({result.method}, {result.evaluations:,} "
        f"layouts, {result.seconds:.1f} s)" + unfinished(metrics.get("unfinished", []))
    )


def _count(amount: int, what: str) -> str:
    return f"{amount} {what}" if amount == 1 else f"{amount} {what}s"


def unfinished(parts: Sequence[str]) -> str:
    """Which parts of a run were stopped before their end, as the end of a sentence."""
    return f"; stopped early: {', '.join(parts)}" if parts else ""


def nothing_found(result: Result) -> str:
    """Why there is no placement."""
    if result.infeasibility is not None:
        return f"Proven infeasible: {result.infeasibility.explanation}"
    if result.metrics.get("unfinished") == []:
        return "No legal placement was found, but none was proven impossible; more --moves may find one."
    return "The run was stopped before a legal placement was found."


def cost_rows(problem: WaferProblem, result: Result) -> list[Row]:
    """The parts of the cost, under :data:`COST_HEADERS`."""
    weights = problem.weights
    return [
        (name, f"{result.metrics[name]:,.10g}", f"{weight:,.10g}", f"{weight * result.metrics[name]:,.10g}")
        for name, weight in (("time", weights.time), ("distance", weights.distance), ("adapter", weights.adapter))
    ]


def kernel_rows(problem: WaferProblem, placement: WaferPlacement) -> list[Row]:
    """One row per kernel, under :data:`KERNEL_HEADERS`."""
    times = [float(kernel_time(*pair)) for pair in zip(problem.kernels, placement.placed, strict=True)]
    rows: list[Row] = []
    for kernel, placed, time in zip(problem.kernels, placement.placed, times, strict=True):
        across, up = size_tiles(placed)
        rows.append(
            (
                kernel.name,
                kernel.kind,
                str(placed.h),
                str(placed.w),
                " ".join(map(str, placed.c)),
                " ".join(map(str, placed.k)),
                f"{across} × {up}",
                f"({placed.x}, {placed.y})",
                placed.rotation,
                f"{time:,.10g}",
                f"{100 * time / max(times):.1f} %",
                f"{memory_words(kernel, placed):,}",
            )
        )
    return rows


def view(problem: WaferProblem, result: Result, files: Mapping[str, str]) -> View:
    """Cost, layout and kernels; ``files``: what else the run directory holds."""
    title = f"{result.problem.name}: wafer placement"
    if not result.solution:
        return View(title, nothing_found(result), cards=lambda: nothing_found_cards(result))
    costs = Table(COST_HEADERS, cost_rows(problem, result))

    def placement() -> WaferPlacement:
        return placement_from_document(problem, result.solution, "result")

    @cache
    def drawn() -> "DrawnFigure":
        """For the page and as files: it takes longer than all else here."""
        from dse.wafer.files.picture import picture  # matplotlib takes half a second to import

        return picture(problem, placement(), result.bound)

    def page() -> list[Part]:
        return [
            costs,
            Heading("The wafer"),
            Paragraph(
                "Redder kernels spend less time waiting for the slowest kernel. Dashed edges pass over other kernels. "
                "Hover over a kernel to see its parameters.",
                small=True,
            ),
            Drawing(lambda: drawn().svg),
            Heading("Kernels"),
            Table(KERNEL_HEADERS, kernel_rows(problem, placement())),
        ]

    return View(
        title,
        verdict(result),
        [about(result)],
        [costs],
        page,
        files=lambda: {**files, f"{problem.name}.paint": paint_text(problem, placement())},
        cards=lambda: [_card(problem, result)],
        pictures={f"{problem.name}.svg": lambda: drawn().svg, f"{problem.name}.png": lambda: drawn().png},
    )


def _card(problem: WaferProblem, result: Result) -> Card:
    """Cost, bound and use of the wafer; what the cost is made of."""
    value, bound, metrics = result.objective.value, result.bound, result.metrics
    assert value is not None, "only answers are shown"
    figures = [(f"{value:,.10g}", "total cost, proven optimal" if result.status == "optimal" else "total cost")]
    if bound is not None and result.gap is not None and result.status != "optimal":
        figures += [(lower_bound_text(bound), "lower bound on the cost"), (percent(result.gap), "gap")]
    figures += [
        (f"{100 * metrics['utilisation']:.1f} %", "of the tiles hold a kernel"),
        (f"{100 * metrics['busy']:.1f} %", "of the wafer busy on average"),
    ]
    return Card(figures, breakdowns=[cost_breakdown(problem.weights, *(metrics[part] for part in COST_PARTS))])


def cost_breakdown(weights: Weights, time: float, distance: float, adapter: float) -> Breakdown:
    """The weighted parts of a cost."""
    costs = (weights.time * time, weights.distance * distance, weights.adapter * adapter)
    return Breakdown("Cost", "", [Share(part, cost, part) for part, cost in zip(COST_PARTS, costs, strict=True)])


def nothing_found_cards(result: Result) -> list[Card]:
    """What a proof that nothing fits says at a glance; nothing without one."""
    proof = result.infeasibility
    if proof is None:
        return []
    needed = "in total for the smallest rectangle of each kernel" if proof.resource == ARRANGEMENT else "required"
    figures = [(f"{proof.demand:,.10g} {proof.unit}", needed), (f"{proof.limit:,.10g} {proof.unit}", "available")]
    return [Card([*figures, *((lever, "could make it fit") for lever in proof.levers)], title="Proven infeasible")]
