"""What a sweep came to, in words, tables, a chart and a page; all of it from the result alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from dse.report.chart import Axis, Line, PointChart, Points, Symbol
from dse.report.palette import category
from dse.report.units import lower_bound_text
from dse.report.view import Card, Drawing, Folded, Heading, Paragraph, Part, Row, Table, View
from dse.results.result import PROOF_TOLERANCE, Result, percent, relative_gap
from dse.run.remembered import Remembered, Same
from dse.wafer.documents import PointDocument, SweepDocument, placement_from_document
from dse.wafer.files.saved import paint_text
from dse.wafer.options import WaferOptions
from dse.wafer.packing import ARRANGEMENT
from dse.wafer.problem import WaferPlacement, WaferProblem, Weights
from dse.wafer.report import cost_breakdown, nothing_found, nothing_found_cards
from dse.wafer.sweep.axes import SIDE, Setting, axes_of, name_of, posed, settings_of

POINTS_FOLDER = "points"
"""Of a run directory: holds the placement of every point of the front."""

MAX_ROWS = 40
"""Points of which the terminal shows all; of more only the front."""

_MAX_DRAWN = 12
"""Layouts on the page, at most."""

_MAX_TICKS = 10
"""Wafer sizes that the chart labels; if there are more, it labels round numbers."""

_FIGURES = ("tiles", "cost", "bound", "gap", "time", "distance", "adapter", "front")
_PARTS_OF_COST = ("time", "distance", "adapter")
"""Columns that the terminal has no room for."""


def verdict(result: Result) -> str:
    """How many points are on the front, and how sure that is."""
    points, metrics = _points(result), result.metrics
    front = [each for each in points.values() if each.front]
    certain = sum(each.certain for each in front)
    words = [
        f"{len(front)} of {metrics['points']} points on the Pareto front of cost, tiles and memory, {certain} proven"
    ]
    if metrics["infeasible"]:
        words.append(f"{metrics['infeasible']} infeasible (proven)")
    if metrics["unfinished"]:
        words.append(f"{len(metrics['unfinished'])} unfinished")
    return "; ".join(words)


def about(options: WaferOptions, result: Result) -> str:
    """What each point is, and what all of them took."""
    moves = options.annealing_moves
    effort = "" if result.method == "rows" else f", {moves:,} moves per point"
    return f"{result.method}{effort}, {result.evaluations:,} layouts, {result.seconds:.1f} s"


def headers(problem: WaferProblem, options: WaferOptions) -> Row:
    """Of :func:`rows`."""
    return (*_shown(problem, options), *_FIGURES)


def rows(problem: WaferProblem, options: WaferOptions, result: Result, only_front: bool = False) -> list[Row]:
    """One row per point, as in the grid; those of the front alone by rising tiles."""
    points = [each for each in _points(result).values() if each.front or not only_front]
    if only_front:
        points.sort(key=lambda each: (each.tiles, each.memlimit, each.cost))
    return [(*(_number(getattr(each, key)) for key in _shown(problem, options)), *_figures(each)) for each in points]


_POINTS: Remembered[Mapping[str, PointDocument]] = Remembered(1)
"""Of the result that is shown."""


def _points(result: Result) -> Mapping[str, PointDocument]:
    return _POINTS.get(Same(result), lambda: SweepDocument.model_validate(result.solution).points)


def _settings(problem: WaferProblem, options: WaferOptions) -> list[Setting]:
    return settings_of(axes_of(options.sweep, problem))


def _shown(problem: WaferProblem, options: WaferOptions) -> tuple[str, ...]:
    """The header entries that are swept."""
    keys = [key for key, _ in _settings(problem, options)[0]]
    return tuple(name for key in keys for name in (("width", "height") if key == SIDE else (key,)))


def _figures(point: PointDocument) -> Row:
    """Of one point, under the headers."""
    cost, bound = point.cost, point.bound
    gap = relative_gap(cost, bound)
    numbers = (getattr(point, key) for key in ("time", "distance", "adapter"))
    return (
        _number(point.tiles),
        "" if cost is None else _number(cost),
        "" if bound is None else lower_bound_text(bound),
        "" if gap is None else percent(gap),
        *("" if each is None else _number(each) for each in numbers),
        _standing(point),
    )


def _standing(point: PointDocument) -> str:
    """Whether a point is on the front, and how sure that is; why there is no better answer."""
    proof = point.infeasibility
    if proof is not None:
        kernel, demand = proof.get("kernel"), f"{proof['demand']:,}"
        if proof["resource"] == ARRANGEMENT:
            return "infeasible: kernels cannot be arranged"
        if kernel is None:
            return f"infeasible: needs {demand} tiles"
        in_memory = proof["resource"] == "tile_memory_words"
        return f"infeasible: {f'{kernel} needs {demand} words per tile' if in_memory else proof['explanation']}"
    words = []
    if point.front:
        # Without a gap, the cost is proven as well as the place on the front.
        gap = relative_gap(point.cost, point.bound)
        closed = gap is not None and gap <= PROOF_TOLERANCE
        words.append("front, proven" if point.certain and closed else "front")
    if point.reason is not None:
        words.append(point.reason)
    elif point.cost is None:
        words.append("no placement found")
    return "; ".join(words)


def _number(value: float) -> str:
    return f"{value:,.10g}"


def chart(result: Result) -> PointChart:
    """Cost over tiles, a colour for each memory, with what bounds leave open below each point."""
    points = _points(result)
    marks: list[Line | Points] = []
    groups = sorted({_group(each) for each in points.values() if each.cost is not None})
    for number, group in enumerate(groups):
        colour = category(number)
        members = {name: each for name, each in points.items() if _group(each) == group and each.cost is not None}
        front = sorted(((name, each) for name, each in members.items() if each.front), key=lambda pair: pair[1].tiles)
        rest = [(name, each) for name, each in members.items() if not each.front]
        label = _label(group, groups)
        if front:
            marks.append(Line("", [each.tiles for _, each in front], _costs(front), colour, "dot", width=1.0))
            marks.append(_dots(front, label, colour, 10.0))
        if rest:
            marks.append(_dots(rest, f"{label}, dominated", colour, 7.0, "ring"))
    costs = [each.cost for each in points.values() if each.cost is not None]
    # Within less than a decade a logarithmic axis has a tick or two.
    logarithmic = bool(costs) and 0 < 10 * min(costs) <= max(costs)
    sizes = sorted({each.tiles for each in points.values()})
    ticks = {float(size): f"{size:,}" for size in sizes} if len(sizes) <= _MAX_TICKS else None
    x, y = Axis("tiles", logarithmic=True, ticks=ticks), Axis("total cost", logarithmic)
    return PointChart(_finding(points), x, y, marks, 440)


def _finding(points: Mapping[str, PointDocument]) -> str:
    """What the smallest wafer costs, and what the cheapest point."""
    placed = [(each.cost, each.tiles) for each in points.values() if each.cost is not None]
    if not placed:
        return "No point has a placement"
    cheapest, smallest = min(placed), min(placed, key=lambda each: (each[1], each[0]))
    best = f"The lowest cost, {_number(cheapest[0])}, needs {cheapest[1]:,} tiles"
    return f"{best}; the smallest wafer, {smallest[1]:,} tiles, costs {_number(smallest[0])}"


_Group = tuple[float, float, float, int]


def _group(point: PointDocument) -> _Group:
    """Weights and memory: points that differ in these are separate in the chart."""
    return point.wdeltat, point.wlength, point.wadapter, point.memlimit


def _label(group: _Group, groups: Sequence[_Group]) -> str:
    """The memory of a group, and its weights where these differ."""
    memory = f"{group[3]:,} words per tile"
    if len({each[:3] for each in groups}) == 1:
        return memory
    return f"{memory}, weights {group[0]:g}, {group[1]:g}, {group[2]:g}"


def _costs(points: Sequence[tuple[str, PointDocument]]) -> list[float]:
    return [0.0 if each.cost is None else each.cost for _, each in points]


def _dots(
    points: Sequence[tuple[str, PointDocument]], label: str, colour: str, size: float, symbol: Symbol = "circle"
) -> Points:
    costs = _costs(points)
    texts = [
        f"{name}: {each.tiles:,} tiles, cost {_number(cost)}, lower bound {lower_bound_text(each.bound or 0)}"
        for cost, (name, each) in zip(costs, points, strict=True)
    ]
    low = [cost if each.bound is None else each.bound for cost, (_, each) in zip(costs, points, strict=True)]
    return Points(label, [each.tiles for _, each in points], costs, colour, texts, size, symbol, low)


def view(problem: WaferProblem, options: WaferOptions, result: Result, files: Mapping[str, str]) -> View:
    """The points, the front among them, and the layouts of the front; ``files``: what else the run directory holds."""
    title = f"{result.problem.name}: wafer sweep"
    if not result.solution:
        return View(title, nothing_found(result), cards=lambda: nothing_found_cards(result))
    every = Table(headers(problem, options), rows(problem, options, result))
    few = result.metrics["points"] <= MAX_ROWS
    shown = every.without(_PARTS_OF_COST)
    if not few:
        shown = Table(every.headers, rows(problem, options, result, only_front=True)).without(_PARTS_OF_COST)
    return View(
        title=title,
        verdict=verdict(result),
        notes=[about(options, result)],
        tables=[shown],
        page=lambda: _page(problem, options, result, every),
        files=lambda: {**files, **_paints(problem, options, result)},
        cards=lambda: [_card(result)],
    )


def _card(result: Result) -> Card:
    """The cheapest point and what its cost is made of; the smallest wafer; how many points are on the front."""
    points, metrics = _points(result), result.metrics
    placed = {name: each for name, each in points.items() if each.cost is not None}
    cheapest = min(placed, key=lambda name: (placed[name].cost, placed[name].tiles, placed[name].memlimit))
    best, smallest = placed[cheapest], min(placed, key=lambda name: placed[name].tiles)
    figures = [
        (_number(result.objective.value or 0.0), f"lowest total cost, at {cheapest} ({best.status})"),
        (f"{placed[smallest].tiles:,} tiles", f"smallest wafer with a placement, {smallest}"),
        (f"{len(metrics['front'])} of {metrics['points']}", "points on the Pareto front of cost, tiles and memory"),
    ]
    figures += [(f"{sum(points[name].certain for name in metrics['front'])}", "of these proven to be on the front")]
    if metrics["infeasible"]:
        figures.append((f"{metrics['infeasible']}", "points proven infeasible"))
    weights = Weights(best.wdeltat, best.wlength, best.wadapter)
    breakdown = cost_breakdown(weights, best.time or 0.0, best.distance or 0.0, best.adapter or 0)
    return Card(figures, breakdowns=[replace(breakdown, title=f"Cost at {cheapest}")])


def _page(problem: WaferProblem, options: WaferOptions, result: Result, every: Table) -> list[Part]:
    parts: list[Part] = [
        Heading("Cost against tiles and memory"),
        Paragraph(
            "Lines connect points of the Pareto front. The line below a point extends to its lower bound. A placement "
            "found for one wafer also counts for every other wafer that it fits on.",
            small=True,
        ),
        chart(result),
        every,
    ]
    settings = {name_of(each): each for each in _settings(problem, options)}
    points = _points(result)
    front = [name for name, each in points.items() if each.front]
    if front:
        parts.append(Heading("Layouts on the Pareto front"))
    for name in front[:_MAX_DRAWN]:
        parts.append(Folded(name, [Drawing(partial(_drawn, problem, points[name], settings[name]))]))
    return parts


def _drawn(problem: WaferProblem, point: PointDocument, setting: Setting) -> str:
    from dse.wafer.files.picture import picture  # matplotlib takes half a second to import

    return picture(*_placed(problem, point, setting), point.bound).svg


def _paints(problem: WaferProblem, options: WaferOptions, result: Result) -> Mapping[str, str]:
    """The placement of every point of the front in the contest's format."""
    settings = {name_of(each): each for each in _settings(problem, options)}
    points = _points(result)
    placed = {name: _placed(problem, points[name], settings[name]) for name in result.metrics["front"]}
    return {f"{POINTS_FOLDER}/{name}.paint": paint_text(*each) for name, each in placed.items()}


def _placed(problem: WaferProblem, point: PointDocument, setting: Setting) -> tuple[WaferProblem, WaferPlacement]:
    there = posed(problem, setting)
    return there, placement_from_document(there, point.model_dump(include={"kernels"}), name_of(setting))
