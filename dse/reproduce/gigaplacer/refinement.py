"""What each step of the search is worth, and the classic floorplanner beside it."""

from collections.abc import Mapping
from itertools import pairwise

from dse.reproduce.gigaplacer.cases import amount, are_all, budget, cases_of, reasons, share, unpublished
from dse.reproduce.gigaplacer.published import read_published
from dse.reproduce.gigaplacer.study import (
    COST_PARTS,
    FULL,
    ROWS,
    SLICING_TREE,
    WITH_ANNEALING,
    WITH_PROTOCOLS,
    WITH_TREES,
    CostPart,
    Outcome,
    Study,
)
from dse.reproduce.section import (
    Chart,
    Comparison,
    Row,
    Section,
    Series,
    Table,
    geometric_mean,
    ratio,
    shown,
)

_STEPS = (ROWS, WITH_PROTOCOLS, WITH_ANNEALING, WITH_TREES, FULL)
UNLIKE = "the paper's two refinements move finished kernels, our steps search with all parameters free"

_ALL, _MEAN = "all steps", "geometric mean"


def refinement(study: Study) -> Section:
    """Every case after each step, and the mean change that each step brings to the result of the step before."""
    steps = {step: study.searched(step) for step in _STEPS}
    rows = tuple(_row(name, step, steps[step][name]) for name in study.problems for step in _STEPS)
    compared = {step: _changes(steps, before, step) for before, step in pairwise(_STEPS)}
    compared[_ALL] = _changes(steps, ROWS, FULL)
    seconds = {step: sum(each.search_s for each in outcomes.values()) for step, outcomes in steps.items()}
    means = tuple(
        (
            step,
            *("–" if change is None else f"{change:+.2f}" for change in changes.values()),
            f"{seconds[_last(step)]:.1f}",
        )
        for step, changes in compared.items()
    )
    paper = read_published().refinement
    cases = cases_of(study)
    printed = {"distance": paper.distance_percent, "adapter": paper.adapter_percent} if are_all(cases) else {}
    lines = tuple(
        Comparison(_MEAN, "", f"change of {part}, {step}", "%", change, theirs, "" if theirs is None else UNLIKE)
        for step, changes in compared.items()
        for part, change in changes.items()
        for theirs in (printed.get(part) if step == _ALL else None,)
    )
    notes = (
        f"The paper: its two refinements change distance by {paper.distance_percent:g} % and adapter by "
        f"{paper.adapter_percent:g} % on average over its twenty cases, at the same time. "
        "Ours change whatever pays, time too.",
        "Means are geometric, of the ratios to the step before; a case that has none of a part is left out. "
        "Protocols are only chosen where adapters count.",
        "Every step is a search of its own from the beginning: its seconds include those of the steps before.",
        budget(study, FULL),
        *unpublished(cases),
        *(reason for outcomes in steps.values() for reason in reasons(outcomes)),
    )
    mean_headers = ("step", *(f"{part}, %" for part in COST_PARTS), "seconds in all")
    tables = (Table(mean_headers, means), Table(("case", "step", *COST_PARTS, "seconds"), rows))
    title = "Refinement: what each step is worth"
    return Section("refinement", title, tables, notes, lines, (_steps_chart(steps),))


def _last(step: str) -> str:
    return FULL if step == _ALL else step


def _row(name: str, step: str, outcome: Outcome) -> Row:
    cells = [amount(outcome.part(part)) for part in COST_PARTS]
    return (name if step == ROWS else "", step, *cells, f"{outcome.search_s:.1f}")


def _changes(steps: Mapping[str, Mapping[str, Outcome]], before: str, after: str) -> dict[CostPart, float | None]:
    """Of the parts of the cost, geometric means over all cases, in per cent."""
    changes: dict[CostPart, float | None] = {}
    for part in COST_PARTS:
        pairs = [(steps[before][name].part(part), steps[after][name].part(part)) for name in steps[before]]
        mean = geometric_mean([new / old for old, new in pairs if old and new])
        changes[part] = None if mean is None else 100 * (mean - 1)
    return changes


def _steps_chart(steps: Mapping[str, Mapping[str, Outcome]]) -> Chart:
    """Costs over those of rows only."""
    first = steps[ROWS]
    series = tuple(
        Series(step, tuple(outcomes), tuple(ratio(each.total, first[name].total) for name, each in outcomes.items()))
        for step, outcomes in steps.items()
    )
    return Chart("bars", "Total cost over that of rows only", "", "", series)


def slicing_trees(study: Study) -> Section:
    """Annealing of slicing trees with as many moves as ours."""
    ours, trees = study.searched(FULL), study.searched(SLICING_TREE)
    rows, costs, seconds = list[Row](), list[float](), list[float]()
    for name, tree in trees.items():
        own = ours[name]
        worse, longer = ratio(tree.total, own.total), ratio(tree.search_s, own.search_s)
        costs += [] if worse is None else [worse]
        seconds += [] if not longer else [longer]
        rows.append(
            (name, amount(own.total), amount(tree.total), share(worse), f"{own.search_s:.1f}", f"{tree.search_s:.1f}")
        )
    paper = read_published().annealing
    printed = (paper.cost_ratio, paper.time_ratio) if are_all(cases_of(study)) else (None, None)
    lines = (
        Comparison(_MEAN, "", "cost of slicing trees over ours", "", geometric_mean(costs), printed[0]),
        Comparison(_MEAN, "", "seconds over ours", "", geometric_mean(seconds), printed[1]),
    )
    notes = (
        f"Geometric means over ours: cost {share(lines[0].ours)}, seconds {shown(lines[1].ours)}. The paper's own "
        f"annealing over GigaPlacer, “even in the best case”: {paper.cost_ratio:g} and {paper.time_ratio:g}.",
        "Wong and Liu's moves of normalised Polish expressions, with our staircases, time limits and protocols.",
        budget(study, SLICING_TREE),
        *reasons(trees),
    )
    headers = ("case", "ours", "slicing trees", "ratio", "ours, s", "slicing trees, s")
    title = "Section 1: annealing of slicing trees"
    return Section("slicing-tree", title, (Table(headers, tuple(rows)),), notes, lines)
