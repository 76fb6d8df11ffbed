"""Table 1: cost and seconds of every case beside both published columns, with our bound."""

from collections.abc import Callable, Iterator, Mapping

from dse.reproduce.gigaplacer.cases import Case, amount, budget, cases_of, reasons, share, unpublished
from dse.reproduce.gigaplacer.published import PublishedCase
from dse.reproduce.gigaplacer.study import AS_PRINTED, COST_PARTS, FULL, CostPart, Outcome, Study
from dse.reproduce.section import OTHER_MACHINE, Chart, Comparison, Section, Series, Table, geometric_mean, ratio, shown
from dse.results.result import percent

COSTS = ("case", "winner", "GigaPlacer", "ours", "ratio", "bound", "gap")
PARTS = ("case", "kernels", "weights", "time", "distance", "adapter")
AGAIN = ("case", "GigaPlacer", "as printed", "ratio", "time", "distance", "adapter")
SECONDS = ("case", "GigaPlacer, s", "as printed, s", "ours, s", "bound, s", "ours / as printed")
TABLES = (COSTS, PARTS, AGAIN, SECONDS)

PARTS_TRADED = "only the total cost is minimised: another placement, with less of one part for more of another"
"""Why time, distance and adapters differ from the paper's where totals hardly do."""

_PARTS_AGAIN = (
    "another placement: which of several is taken, and how kernels are moved within a row, the paper leaves open "
    "(docs/wafer.md)"
)
_NO_ADAPTERS = "the weight of adapters is 0 here: they count for nothing"

_NOTES = (
    "Weights: of time, distance and adapter. Ratio: of our cost to GigaPlacer's. Bound: proven, no placement costs "
    "less; gap: of ours to it.",
    "As printed: `dse wafer --method gigaplacer`, the paper's algorithm on this machine in this run; its time, "
    "distance and adapter stand beside its cost and its ratio to the published cost.",
    "The paper's seconds are of C++ on a 1.6 GHz laptop processor; not comparable in detail.",
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
    lines = [line for name, each in outcomes.items() for line in _lines(name, cases[name], each)]
    lines += [line for name, each in printed.items() for line in _again_lines(name, cases[name], each)]
    means = [*_means(cases, outcomes), *_again_means(cases, outcomes, printed)]
    notes = [
        f"Geometric mean of {each.quantity}: ours {shown(each.ours, 4)}, the paper's {shown(each.paper, 4)}."
        for each in means
    ]
    notes += [budget(study, FULL), *_NOTES, *unpublished(cases), *reasons(outcomes), *reasons(printed)]
    return Section(
        "table1",
        "Table 1: total cost, bound and seconds of each case",
        tuple(tables),
        tuple(notes),
        (*lines, *means),
        (_chart(cases, outcomes, printed),),
    )


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


def _lines(name: str, case: Case, outcome: Outcome) -> Iterator[Comparison]:
    """Every number of a row."""
    for part in COST_PARTS:
        cause = part_cause(case, part, PARTS_TRADED)
        yield Comparison(name, "", part, "", outcome.part(part), case.paper(part), cause=cause)
    yield Comparison(name, "", "total, beside the winner's", "", outcome.total, case.winner_total)
    yield Comparison(name, "", "lower bound", "", outcome.bound, None)
    yield Comparison(name, "", "seconds", "s", outcome.search_s, case.paper("seconds"), OTHER_MACHINE)


def part_cause(case: Case, part: CostPart, traded: str) -> str:
    """Why a part of the cost differs from the paper's; empty for the total, which nothing is traded for."""
    if part == "total":
        return ""
    return _NO_ADAPTERS if part == "adapter" and case.problem.weights.adapter == 0 else traded


def _again_lines(name: str, case: Case, printed: Outcome) -> Iterator[Comparison]:
    """Every number of the paper's algorithm here."""
    for part in COST_PARTS:
        cause = part_cause(case, part, _PARTS_AGAIN)
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
        ("cost of GigaPlacer as printed over its published cost", published),
        ("cost over that of GigaPlacer as printed", costs),
        ("seconds over those of GigaPlacer as printed", seconds),
    )
    return [
        Comparison("geometric mean", "", what, "", geometric_mean([each for each in ratios if each]), None)
        for what, ratios in rows
    ]


_Ratio = Callable[[float, float, PublishedCase], float]

_MEANS: tuple[tuple[str, _Ratio, Callable[[PublishedCase], float]], ...] = (
    ("cost over GigaPlacer's", lambda cost, _, case: cost / case.gigaplacer.total, lambda _: 1.0),
    (
        "cost over the winner's",
        lambda cost, _, case: cost / case.winner.total,
        lambda case: case.gigaplacer.total / case.winner.total,
    ),
    ("seconds over GigaPlacer's", lambda _, seconds, case: seconds / case.gigaplacer.seconds, lambda _: 1.0),
)
"""(what, of our cost and seconds, of the paper's)."""


def _means(cases: Mapping[str, Case], outcomes: Mapping[str, Outcome]) -> list[Comparison]:
    answered = [
        (each.total, each.search_s, published)
        for name, each in outcomes.items()
        if (published := cases[name].published) is not None and each.total is not None
    ]
    return [
        Comparison(
            "geometric mean",
            "",
            what,
            "",
            geometric_mean([mine(*each) for each in answered]),
            geometric_mean([theirs(each[2]) for each in answered]),
            OTHER_MACHINE if what.startswith("seconds") else "",
        )
        for what, mine, theirs in _MEANS
    ]


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
    return Chart("bars", "Total cost over GigaPlacer's", "", "", series)
