"""What each step of the search is worth, and the classic floorplanner next to it."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import fmean

from dse.reproduce.gigaplacer.cases import Case, amount, are_all, budget, cases_of, reasons, share, unpublished
from dse.reproduce.gigaplacer.published import read_published
from dse.reproduce.gigaplacer.study import (
    AS_PRINTED,
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
    not_measured,
    ratio,
    shown,
)
from dse.wafer.check import cost
from dse.wafer.problem import Cost, WaferProblem

_STEPS = (ROWS, WITH_PROTOCOLS, WITH_ANNEALING, WITH_TREES, FULL)
_ALL, _MEAN = "all steps", "geometric mean"

BEFORE = not_measured(
    "it depends on the placement before refinement, which the paper does not print; placements of equal total cost can "
    "leave more to refine"
)
_TREES = not_measured(
    "this is not the paper's annealing, which it does not describe: ours makes as many moves as our search and uses "
    "our "
    "exact kernel sizes and time limits"
)


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
    cases, as_printed = cases_of(study), study.searched(AS_PRINTED)
    lines = tuple(
        Comparison(_MEAN, "", f"change in {part}, {step}", "%", change, None)
        for step, changes in compared.items()
        for part, change in changes.items()
    )
    claims = _claims(cases, as_printed)
    notes = (
        *(f"{each.quantity}: {shown(each.ours)} %, the paper {shown(each.paper)} %." for each in claims),
        "These are arithmetic means for GigaPlacer as printed, on the same placements before and after each "
        "refinement. "
        "Our own steps change all parts of the cost, including time.",
        "Means for our steps are geometric means of the ratio to the previous step, over cases with a nonzero part. "
        "Protocols are chosen only if adapters have a weight.",
        "Every step is a separate search from the start, so its seconds include those of the previous steps.",
        budget(study, FULL),
        *unpublished(cases),
        *(reason for outcomes in (*steps.values(), as_printed) for reason in reasons(outcomes)),
    )
    mean_headers = ("step", *(f"{part}, %" for part in COST_PARTS), "total seconds")
    headers = ("case", "distance", "refined", "change, %", "adapter", "refined", "change, %")
    tables = (
        Table(mean_headers, means),
        Table(("case", "step", *COST_PARTS, "seconds"), rows),
        Table(headers, tuple(_refined_row(cases[name], each) for name, each in as_printed.items())),
    )
    title = "Refinement: contribution of each step"
    return Section("refinement", title, tables, notes, (*claims, *lines), (_steps_chart(steps),))


def refined_costs(problem: WaferProblem, outcome: Outcome) -> tuple[Cost, Cost, Cost] | None:
    """Of GigaPlacer as printed, the costs of its placement as generated, after adapters, and after distance."""
    if outcome.generated is None or outcome.adapted is None or outcome.cost is None:
        return None
    return cost(problem, outcome.generated), cost(problem, outcome.adapted), outcome.cost


def _refined_row(case: Case, outcome: Outcome) -> Row:
    costs = refined_costs(case.problem, outcome)
    if costs is None:
        return (case.problem.name, *("–",) * 6)
    generated, adapted, refined = costs
    return (
        case.problem.name,
        *(amount(adapted.distance), amount(refined.distance), _per_cent(adapted.distance, refined.distance)),
        *(amount(generated.adapter), amount(adapted.adapter), _per_cent(generated.adapter, adapted.adapter)),
    )


def _per_cent(before: float, after: float) -> str:
    change = per_cent(before, after)
    return "–" if change is None else f"{change:+.1f}"


def per_cent(before: float | None, after: float | None) -> float | None:
    """How much more ``after`` is, in per cent; None of nothing."""
    return 100 * (after / before - 1) if before and after is not None else None


def _claims(cases: Mapping[str, Case], outcomes: Mapping[str, Outcome]) -> tuple[Comparison, ...]:
    """What the paper says of its two refinements, of its algorithm here; next to its numbers where all cases are
    its.
    """
    paper, whole = read_published().refinement, are_all(cases)
    distances, adapters, counting = list[float](), list[float](), list[float]()
    for name, outcome in outcomes.items():
        costs = refined_costs(cases[name].problem, outcome)
        if costs is None:
            continue
        spread = per_cent(costs[1].distance, costs[2].distance)
        differing = per_cent(costs[0].adapter, costs[1].adapter)
        distances += [] if spread is None else [spread]
        adapters += [] if differing is None else [differing]
        if differing is not None and cases[name].problem.weights.adapter > 0:
            counting.append(differing)
    rows = (
        ("L1 refinement, mean change in distance", distances, paper.distance_percent),
        ("adapter refinement, mean change in adapters, cases with adapter weight", counting, paper.adapter_percent),
        ("adapter refinement, mean change in adapters, all cases", adapters, paper.adapter_percent),
    )
    return tuple(
        Comparison("mean", "", what, "%", fmean(changes) if changes else None, printed if whole else None, cause=BEFORE)
        for what, changes, printed in rows
    )


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
    return Chart("bars", "Total cost relative to rows only", "", "", series)


def slicing_trees(study: Study) -> Section:
    """Annealing of slicing trees with as many moves as ours."""
    ours, trees, printed = study.searched(FULL), study.searched(SLICING_TREE), study.searched(AS_PRINTED)
    rows = tuple(_tree_row(name, ours[name], tree, printed[name]) for name, tree in trees.items())
    paper = read_published().annealing
    theirs = (paper.cost_ratio, paper.time_ratio) if are_all(cases_of(study)) else (None, None)
    lines = (
        *_over(trees, ours, "ours", (None, None)),
        *_over(trees, printed, "GigaPlacer as printed", theirs),
    )
    notes = (
        *(f"Geometric mean of {each.quantity}: {share(each.ours)}." for each in lines),
        f"The paper's own annealing relative to GigaPlacer, “even in the best case”: cost {paper.cost_ratio:g}, "
        "seconds "
        f"{paper.time_ratio:g}.",
        "Wong and Liu's moves on normalised Polish expressions, with our staircases, time limits and protocols.",
        budget(study, SLICING_TREE),
        *reasons(trees),
    )
    totals = ("slicing trees", "ours", "as printed", "over ours", "over as printed")
    headers = ("case", *totals, *(f"{name}, s" for name in totals[:3]))
    title = "Section 1: annealing of slicing trees"
    return Section("slicing-tree", title, (Table(headers, rows),), notes, lines)


def _tree_row(name: str, own: Outcome, tree: Outcome, printed: Outcome) -> Row:
    three = (tree, own, printed)
    return (
        name,
        *(amount(each.total) for each in three),
        *(share(ratio(tree.total, each.total)) for each in three[1:]),
        *(f"{each.search_s:.1f}" for each in three),
    )


def _over(
    trees: Mapping[str, Outcome],
    others: Mapping[str, Outcome],
    whose: str,
    paper: tuple[float | None, float | None],
) -> Iterator[Comparison]:
    """Geometric means of cost and seconds of slicing trees over those of another method here."""
    costs = [ratio(tree.total, others[name].total) for name, tree in trees.items()]
    seconds = [ratio(tree.search_s, others[name].search_s) for name, tree in trees.items()]
    for what, ratios, theirs in (("cost", costs, paper[0]), ("seconds", seconds, paper[1])):
        mean = geometric_mean([each for each in ratios if each])
        yield Comparison(_MEAN, "", f"{what} of slicing trees relative to {whose}", "", mean, theirs, cause=_TREES)
