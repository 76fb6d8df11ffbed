"""Table 1: cost and seconds of every case beside both published columns, with our bound."""

from collections.abc import Callable, Iterator, Mapping

from dse.reproduce.gigaplacer.cases import Case, amount, budget, cases_of, reasons, share, unpublished
from dse.reproduce.gigaplacer.published import PublishedCase
from dse.reproduce.gigaplacer.study import COST_PARTS, FULL, Outcome, Study
from dse.reproduce.section import OTHER_MACHINE, Chart, Comparison, Section, Series, Table, geometric_mean, ratio, shown
from dse.results.result import percent

COSTS = ("case", "winner", "GigaPlacer", "ours", "ratio", "bound", "gap")
PARTS = ("case", "kernels", "weights", "time", "distance", "adapter")
SECONDS = ("case", "GigaPlacer, s", "ours, s", "bound, s")
TABLES = (COSTS, PARTS, SECONDS)

_NOTES = (
    "Weights: of time, distance and adapter. Ratio: of our cost to GigaPlacer's. Bound: proven, no placement costs "
    "less; gap: of ours to it.",
    "The paper's seconds are of C++ on a 1.6 GHz laptop processor; not comparable in detail.",
)


def table1(study: Study) -> Section:
    """Every case, and the geometric means over those that are the paper's."""
    outcomes, cases = study.searched(FULL), cases_of(study)
    rows = [_row(name, cases[name], each) for name, each in outcomes.items()]
    # Three tables, as one would not fit a terminal.
    tables = (Table(names, tuple(tuple(row[name] for name in names) for row in rows)) for names in TABLES)
    lines = [line for name, each in outcomes.items() for line in _lines(name, cases[name], each)]
    means = _means(cases, outcomes)
    notes = [
        f"Geometric mean of {each.quantity}: ours {shown(each.ours, 4)}, the paper's {shown(each.paper, 4)}."
        for each in means
    ]
    notes += [budget(study, FULL), *_NOTES, *unpublished(cases), *reasons(outcomes)]
    return Section(
        "table1",
        "Table 1: total cost, bound and seconds of each case",
        tuple(tables),
        tuple(notes),
        (*lines, *means),
        (_chart(cases, outcomes),),
    )


def _row(name: str, case: Case, outcome: Outcome) -> dict[str, str]:
    weights = case.problem.weights
    return {
        "case": name,
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
        "ours, s": f"{outcome.search_s:.1f}",
        "bound, s": f"{outcome.proof_s:.1f}",
    }


def _lines(name: str, case: Case, outcome: Outcome) -> Iterator[Comparison]:
    """Every number of a row."""
    for part in COST_PARTS:
        yield Comparison(name, "", part, "", outcome.part(part), case.paper(part))
    yield Comparison(name, "", "total, beside the winner's", "", outcome.total, case.winner_total)
    yield Comparison(name, "", "lower bound", "", outcome.bound, None)
    yield Comparison(name, "", "seconds", "s", outcome.search_s, case.paper("seconds"), OTHER_MACHINE)


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


def _chart(cases: Mapping[str, Case], outcomes: Mapping[str, Outcome]) -> Chart:
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
        bars("ours", lambda name: outcomes[name].total),
        bars("lower bound", lambda name: outcomes[name].bound),
    )
    return Chart("bars", "Total cost over GigaPlacer's", "", "", series)
