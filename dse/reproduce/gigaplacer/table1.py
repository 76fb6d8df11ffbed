"""Table 1: cost and seconds of every case next to both published columns, with our bound."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from dse.reproduce.gigaplacer.cases import Case, amount, budget, cases_of, reasons, share, unpublished
from dse.reproduce.gigaplacer.published import PublishedCase
from dse.reproduce.gigaplacer.study import AS_PRINTED, COST_PARTS, FULL, CostPart, Outcome, Study
from dse.reproduce.section import (
    OTHER_MACHINE,
    Chart,
    Comparison,
    Section,
    Series,
    Table,
    geometric_mean,
    not_measured,
    ratio,
    shown,
)
from dse.results.result import percent, proven_status

COSTS = ("case", "winner", "GigaPlacer", "ours", "ratio", "bound", "gap")
PARTS = ("case", "kernels", "weights", "time", "distance", "adapter")
AGAIN = ("case", "GigaPlacer", "as printed", "ratio", "time", "distance", "adapter")
SECONDS = ("case", "GigaPlacer, s", "as printed, s", "ours, s", "bound, s", "ours / as printed")
TABLES = (COSTS, PARTS, AGAIN, SECONDS)

_PARTS_AGAIN = not_measured(
    "another placement: the paper does not specify which of several it takes, or how kernels are moved within a row "
    "(docs/evidence/wafer.md)"
)

_NOTES = (
    "Weights: of time, distance and adapter. Ratio: our cost relative to GigaPlacer's. Bound: proven lower bound; gap: "
    "between our cost and the bound.",
    "As printed: `dse wafer --method gigaplacer`, the paper's algorithm on this machine in this run, with its cost, "
    "the "
    "ratio to the published cost, and its time, distance and adapters.",
    "The paper's seconds are for C++ on a 1.6 GHz laptop processor and are not directly comparable.",
)


def table1(study: Study) -> Section:
    """Every case, and the geometric means over those that are the paper's."""
    outcomes, printed, cases = study.searched(FULL), study.searched(AS_PRINTED), cases_of(study)
    ours = [_row(cases[name], each, printed[name]) for name, each in outcomes.items()]
    again = [_again(cases[name], each) for name, each in printed.items()]
    # Four tables, as one would not fit a terminal.
    tables = (
        Table(names, tuple(tuple(row[name] for name in names) for row in (again if names is AGAIN else ours)))
        for names in TABLES
    )
    lines = [line for name, each in outcomes.items() for line in case_lines(name, cases[name], each)]
    lines += [line for name, each in printed.items() for line in _again_lines(name, cases[name], each)]
    of_means = [*means(cases, outcomes), *_again_means(cases, outcomes, printed)]
    over = list(over_winner(cases, outcomes))
    notes = [
        f"{each.model}, {each.quantity}: ours {_count(each.ours, each.unit)}, "
        f"GigaPlacer {_count(each.paper, each.unit)}."
        for each in over
    ]
    notes += [
        f"Geometric mean of {each.quantity}: ours {shown(each.ours, 4)}, the paper's {shown(each.paper, 4)}."
        for each in of_means
    ]
    notes += [budget(study, FULL), *_NOTES, *unpublished(cases), *reasons(outcomes), *reasons(printed)]
    return Section(
        "table1",
        "Table 1: total cost, bound and seconds of each case",
        tuple(tables),
        tuple(notes),
        (*lines, *of_means, *over),
        (_chart(cases, outcomes, printed),),
    )


def _count(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.2f} %" if unit else f"{value:g}"


def _row(case: Case, outcome: Outcome, printed: Outcome) -> dict[str, str]:
    weights = case.problem.weights
    return {
        "case": case.problem.name,
        "kernels": str(len(case.problem.kernels)),
        "weights": f"{weights.time:g} {weights.distance:g} {weights.adapter:g}",
        "winner": amount(case.winner_total),
        "GigaPlacer": amount(case.paper("total")),
        "ours": amount(outcome.total),
        "ratio": share(ratio(outcome.total, case.paper("total"))),
        **{part: amount(outcome.part(part)) for part in COST_PARTS[1:]},
        "bound": amount(outcome.bound),
        "gap": "–" if outcome.gap is None else percent(outcome.gap),
        "GigaPlacer, s": amount(case.paper("seconds")),
        "as printed, s": f"{printed.search_s:.1f}",
        "ours, s": f"{outcome.search_s:.1f}",
        "bound, s": f"{outcome.proof_s:.1f}",
        "ours / as printed": share(ratio(outcome.total, printed.total)),
    }


def _again(case: Case, printed: Outcome) -> dict[str, str]:
    """What the paper prints and what its algorithm finds here."""
    return {
        "case": case.problem.name,
        "GigaPlacer": amount(case.paper("total")),
        "as printed": amount(printed.total),
        "ratio": share(ratio(printed.total, case.paper("total"))),
        **{part: amount(printed.part(part)) for part in COST_PARTS[1:]},
    }


def case_lines(name: str, case: Case, outcome: Outcome) -> Iterator[Comparison]:
    """Every number of a row."""
    yield from part_lines(name, case, outcome)
    total, winners = outcome.total, case.winner_total
    cause = _total_cause(outcome, winners)
    yield Comparison(name, "", "total, compared with the winner's", "", total, winners, cause=cause)
    yield Comparison(name, "", "lower bound", "", outcome.bound, None)
    yield Comparison(name, "", "seconds", "s", outcome.search_s, case.paper("seconds"), OTHER_MACHINE)


def part_lines(name: str, case: Case, outcome: Outcome) -> Iterator[Comparison]:
    """The cost of our placement and its parts next to GigaPlacer's, each with why the two differ."""
    for part in COST_PARTS:
        paper = case.paper(part)
        cause = _total_cause(outcome, paper) if part == "total" else _part_cause(case, part, _traded(case, outcome))
        yield Comparison(name, "", part, "", outcome.part(part), paper, cause=cause)


def _total_cause(outcome: Outcome, paper: float | None) -> str:
    """Why our total differs from the paper's: which placement is cheaper, and how sure ours is."""
    if outcome.total is None or paper is None:
        return ""
    which = "equal" if outcome.total == paper else "cheaper" if outcome.total < paper else "more expensive"
    return f"ours is a{'n' * (which == 'equal')} {which} placement, {_sureness([outcome])}"


def _is_proven(outcome: Outcome) -> bool:
    return proven_status(outcome.total, outcome.bound) == "optimal"


def _sureness(outcomes: Sequence[Outcome]) -> str:
    """How far the costs of placements may be from the least."""
    if all(map(_is_proven, outcomes)):
        return "proven optimal"
    gaps = [each.gap for each in outcomes if each.gap is not None]
    if len(gaps) < len(outcomes):
        return "without a lower bound"
    return f"with a gap of {'at most ' * (len(gaps) > 1)}{percent(max(gaps))}"


def _traded(case: Case, outcome: Outcome) -> str:
    """Which parts of the cost ours has more and less of than the paper's."""
    more, less = list[str](), list[str]()
    for part in COST_PARTS[1:]:
        ours, paper = outcome.part(part), case.paper(part)
        if ours is not None and paper is not None and ours != paper and getattr(case.problem.weights, part):
            (more if ours > paper else less).append(part)
    amounts = [f"{word} {' and '.join(parts)}" for word, parts in (("more", more), ("less", less)) if parts]
    return f"another placement with {', '.join(amounts)}; {_total_cause(outcome, case.paper('total'))}"


def _part_cause(case: Case, part: CostPart, otherwise: str) -> str:
    """Why a part of the cost differs from the paper's: its weight if that is 0, ``otherwise`` if not."""
    counts = part == "total" or getattr(case.problem.weights, part) > 0
    return otherwise if counts else f"the weight of {part} is 0 here"


def _again_lines(name: str, case: Case, printed: Outcome) -> Iterator[Comparison]:
    """Every number of the paper's algorithm here."""
    for part in COST_PARTS:
        cause = _part_cause(case, part, _PARTS_AGAIN)
        what = f"{part}, GigaPlacer as printed"
        yield Comparison(name, "", what, "", printed.part(part), case.paper(part), cause=cause)
    seconds = case.paper("seconds")
    yield Comparison(name, "", "seconds, GigaPlacer as printed", "s", printed.search_s, seconds, OTHER_MACHINE)


def _again_means(
    cases: Mapping[str, Case], outcomes: Mapping[str, Outcome], printed: Mapping[str, Outcome]
) -> list[Comparison]:
    """Geometric means of the paper's algorithm here over what it prints, and of ours over its."""
    published = [ratio(each.total, cases[name].paper("total")) for name, each in printed.items()]
    costs = [ratio(outcomes[name].total, each.total) for name, each in printed.items()]
    seconds = [ratio(outcomes[name].search_s, each.search_s) for name, each in printed.items() if each.total]
    rows = (
        ("cost of GigaPlacer as printed relative to its published cost", published),
        ("cost relative to GigaPlacer as printed", costs),
        ("seconds relative to GigaPlacer as printed", seconds),
    )
    return [
        Comparison("geometric mean", "", what, "", geometric_mean([each for each in ratios if each]), None)
        for what, ratios in rows
    ]


_Ratio = Callable[[float, float, PublishedCase], float]

_MEANS: tuple[tuple[str, _Ratio, Callable[[PublishedCase], float]], ...] = (
    ("cost relative to GigaPlacer's", lambda cost, _, case: cost / case.gigaplacer.total, lambda _: 1.0),
    (
        "cost relative to the winner's",
        lambda cost, _, case: cost / case.winner.total,
        lambda case: case.gigaplacer.total / case.winner.total,
    ),
    ("seconds relative to GigaPlacer's", lambda _, seconds, case: seconds / case.gigaplacer.seconds, lambda _: 1.0),
)
"""(what, of our cost and seconds, of the paper's)."""


def means(cases: Mapping[str, Case], outcomes: Mapping[str, Outcome]) -> list[Comparison]:
    """Geometric means of our costs and seconds over the paper's, of the cases that it has."""
    answered = [
        (each.total, each, published)
        for name, each in outcomes.items()
        if (published := cases[name].published) is not None and each.total is not None
    ]
    cause = _means_cause([each for _, each, _ in answered])
    return [
        Comparison(
            "geometric mean",
            "",
            what,
            "",
            geometric_mean([mine(total, each.search_s, published) for total, each, published in answered]),
            geometric_mean([theirs(published) for _, _, published in answered]),
            OTHER_MACHINE if what.startswith("seconds") else "",
            cause,
        )
        for what, mine, theirs in _MEANS
    ]


def over_winner(cases: Mapping[str, Case], outcomes: Mapping[str, Outcome]) -> Iterator[Comparison]:
    """How ours and GigaPlacer compare with the contest's winner, as the paper's text counts it, on the cases that it
    has.

    Savings are shares of the winner's cost.
    """
    answered = [
        (each, published)
        for name, each in outcomes.items()
        if (published := cases[name].published) is not None and each.total is not None
    ]
    if not answered:
        return
    winners = [published.winner.total for _, published in answered]
    totals = (
        [each.total for each, _ in answered if each.total is not None],
        [published.gigaplacer.total for _, published in answered],
    )
    counts: tuple[tuple[str, str, Callable[[Sequence[tuple[float, float]]], float]], ...] = (
        ("cases with lower cost than the winner", "", lambda pairs: sum(total < winner for total, winner in pairs)),
        ("largest saving relative to the winner", "%", lambda pairs: 100 * max(1 - t / winner for t, winner in pairs)),
        ("mean saving relative to the winner", "%", lambda pairs: 100 * statistics.fmean(1 - t / w for t, w in pairs)),
    )
    cause = _means_cause([each for each, _ in answered])
    for what, unit, count in counts:
        ours, theirs = (float(count(list(zip(own, winners, strict=True)))) for own in totals)
        yield Comparison(f"{len(answered)} cases", "", what, unit, ours, theirs, cause=cause)


def _means_cause(outcomes: Sequence[Outcome]) -> str:
    """Why means of costs differ: how many of our placements are proven optimal, and how sure the others are."""
    others = [each for each in outcomes if not _is_proven(each)]
    proven = f"{len(outcomes) - len(others)} of {len(outcomes)} of our placements are proven optimal"
    return f"{proven}; the others are {_sureness(others)}" if others else proven


def _chart(cases: Mapping[str, Case], outcomes: Mapping[str, Outcome], printed: Mapping[str, Outcome]) -> Chart:
    """Costs over GigaPlacer's, of the cases that are the paper's."""
    published = {name: case.published for name, case in cases.items() if case.published is not None}

    def bars(label: str, cost_of: Callable[[str], float | None]) -> Series:
        return Series(
            label,
            tuple(published),
            tuple(ratio(cost_of(name), row.gigaplacer.total) for name, row in published.items()),
        )

    series = (
        bars("contest winner", lambda name: published[name].winner.total),
        bars("GigaPlacer as printed, here", lambda name: printed[name].total),
        bars("ours", lambda name: outcomes[name].total),
        bars("lower bound", lambda name: outcomes[name].bound),
    )
    return Chart("bars", "Total cost relative to GigaPlacer's", "", "", series)
