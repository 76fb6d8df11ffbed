"""Figures 7 and 8: layouts, and what comes after the rows on the paper's case D."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from dse.reproduce.gigaplacer.cases import Case, amount, budget, cases_of, reasons, unpublished
from dse.reproduce.gigaplacer.published import read_published
from dse.reproduce.gigaplacer.refinement import BEFORE, per_cent, refined_costs
from dse.reproduce.gigaplacer.study import AS_PRINTED, COST_PARTS, FULL, ROWS, CostPart, Outcome, Study
from dse.reproduce.gigaplacer.table1 import part_lines
from dse.reproduce.section import Comparison, Picture, Row, Section, Table, shown
from dse.wafer.answer import metrics
from dse.wafer.check import size_tiles
from dse.wafer.problem import WaferPlacement, WaferProblem

_SHOWN = 4
"""Layouts of Figure 7 where none of the paper's is given."""

FIGURE7_HEADERS = ("case", "rows", "kernels per row", "time", "distance", "adapter", "occupied tiles", "busy")


def figure7(study: Study) -> Section:
    """The final layouts of the paper's E, I, M and F; of the first cases where none of these is given."""
    paper, cases = read_published(), cases_of(study)
    shown_there = [name for name, case in cases.items() if case.letter in paper.figure_7]
    outcomes = study.searched(FULL, shown_there or list(cases)[:_SHOWN])
    rows = tuple(_row(cases[name].problem, each) for name, each in outcomes.items())
    pictures = [
        picture
        for name, each in outcomes.items()
        for picture in _pictures(cases[name].problem, each, name, f"figure7-{name}")
    ]
    notes = (
        "Rows: parts between horizontal cuts from edge to edge, from bottom to top; strips are rows with one kernel. "
        "In the "
        "paper's figure, single rows, several rows, and strips above or below a row all occur as final layouts.",
        budget(study, FULL),
        *unpublished(cases),
        *reasons(outcomes),
    )
    lines = tuple(line for name, each in outcomes.items() for line in _lines(name, cases[name], each))
    return Section(
        "fig7", "Figure 7: final layouts", (Table(FIGURE7_HEADERS, rows),), notes, lines, pictures=tuple(pictures)
    )


def rows_of(placement: WaferPlacement) -> list[int]:
    """How many kernels lie in each row, upwards: rows are what horizontal cuts that pass no kernel leave."""
    spans = sorted((placed.y, placed.y + size_tiles(placed)[1]) for placed in placement.placed)
    counts, top = list[int](), -1
    for low, high in spans:
        if low >= top:
            counts.append(0)
        counts[-1] += 1
        top = max(top, high)
    return counts


def _row(problem: WaferProblem, outcome: Outcome) -> Row:
    if outcome.placement is None or outcome.cost is None:
        return (problem.name, *("–",) * (len(FIGURE7_HEADERS) - 1))
    rows, figures = rows_of(outcome.placement), metrics(problem, outcome.placement)
    shares = (f"{100 * figures[name]:.1f} %" for name in ("utilisation", "busy"))
    cost = outcome.cost
    return (
        problem.name,
        str(len(rows)),
        _in_short(rows),
        amount(cost.time),
        amount(cost.distance),
        str(cost.adapter),
        *shares,
    )


def _in_short(counts: Sequence[int]) -> str:
    """Numbers with their repeats counted: ``3 × 1 + 4``."""
    runs = [(count, len([*same])) for count, same in groupby(counts)]
    return " + ".join(f"{times} × {count}" if times > 1 else str(count) for count, times in runs)


def _lines(name: str, case: Case, outcome: Outcome) -> Iterator[Comparison]:
    if outcome.placement is not None:
        yield Comparison(name, "", "rows", "", float(len(rows_of(outcome.placement))), None)
    yield from part_lines(name, case, outcome)


def _pictures(problem: WaferProblem, outcome: Outcome, title: str, name: str) -> Iterator[Picture]:
    placement = outcome.placement
    if placement is not None:
        cost = f"total cost {amount(outcome.total)}"
        yield Picture(f"{title}: {cost}", f"pictures/{name}.svg", lambda: _drawn(problem, placement))


def _drawn(problem: WaferProblem, placement: WaferPlacement) -> str:
    from dse.wafer.files.picture import picture  # matplotlib takes half a second to import

    return picture(problem, placement).svg


def figure8(study: Study) -> Section:
    """Distance with and without refinement, of the paper's algorithm and ours: the paper's case D, or the largest."""
    paper, cases = read_published().figure_8, cases_of(study)
    name = _shown_case(cases, paper.case)
    problem, is_papers = cases[name].problem, cases[name].letter == paper.case
    before, after, printed = (study.searched(variant, [name])[name] for variant in (ROWS, FULL, AS_PRINTED))
    stages = refined_costs(problem, printed)
    placed = (
        (
            "GigaPlacer as printed, without refinement",
            "generated",
            printed.adapted,
            None if stages is None else stages[1],
        ),
        ("GigaPlacer as printed, with refinement", "refined", printed.placement, None if stages is None else stages[2]),
        ("ours, rows only", "rows", before.placement, before.cost),
        ("ours, all steps", "all", after.placement, after.cost),
    )
    rows = tuple(
        (label, *("–" if each is None else amount(float(getattr(each, part))) for part in COST_PARTS))
        for label, _, _, each in placed
    )
    change = None if stages is None else per_cent(stages[1].distance, stages[2].distance)
    theirs = paper.distance_percent if is_papers else None
    line = Comparison(name, "", "L1 refinement, change in distance", "%", change, theirs, cause=BEFORE)
    parts: tuple[CostPart, ...] = ("distance", "time", "total")
    ours = [
        Comparison(name, "", f"our change in {part}", "%", per_cent(before.part(part), after.part(part)), None)
        for part in parts
    ]
    notes = (
        f"L1 refinement as printed: distance {shown(change)} %; the paper: {paper.distance_percent:g} % for its case "
        f"{paper.case}.",
        f"Ours relative to rows only: distance {shown(ours[0].ours)} %, time {shown(ours[1].ours)} %, total cost "
        f"{shown(ours[2].ours)} %. Our steps trade distance for time, or time for distance, if the sum decreases.",
        budget(study, ROWS, FULL),
        *reasons({"rows": before, "all": after, "printed": printed}),
    )
    pictures = tuple(
        picture
        for label, file, placement, each in placed
        for picture in _pictures(problem, Outcome(placement, each), f"{name}, {label}", f"figure8-{name}-{file}")
    )
    title, headers = f"Figure 8: {name} with and without refinement", (name, "total cost", *COST_PARTS[1:])
    return Section("fig8", title, (Table(headers, rows),), notes, (line, *ours), pictures=pictures)


def _shown_case(cases: Mapping[str, Case], letter: str) -> str:
    """The problem that is the paper's case ``letter``; the one of most kernels where there is none."""
    for name, case in cases.items():
        if case.letter == letter:
            return name
    return max(cases, key=lambda name: len(cases[name].problem.kernels))
