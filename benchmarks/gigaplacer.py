"""GigaPlacer as printed on the contest's twenty cases, next to what its paper prints: costs, refinements, CPU seconds.

These are the placements of ``dse reproduce gigaplacer`` that no annealing goes into. Means of costs are geometric, of
the ratios to the printed ones; means of refinements are arithmetic, as in the paper.
"""

import tempfile
from pathlib import Path
from statistics import fmean

from benchmarks.recording import Record, Results, parser_of
from dse.reproduce.gigaplacer.cases import cases_of, chosen_problems
from dse.reproduce.gigaplacer.published import read_published
from dse.reproduce.gigaplacer.refinement import per_cent, refined_costs
from dse.reproduce.gigaplacer.study import AS_PRINTED, Study
from dse.reproduce.section import geometric_mean
from dse.run.directory import JOURNAL_FILE
from dse.run.journal import Journal
from dse.run.run import Run

WITHIN = 0.02
DEARER, CHEAPER = "GJP", "Q"
RECORD = Record(
    "gigaplacer",
    (
        "mean",
        "within",
        *(case.lower() for case in DEARER + CHEAPER),
        "seconds",
        "all_seconds",
        "distance",
        "distance_d",
        "adapters",
        "adapters_all",
    ),
    {"main": ("case", "cost", "over the printed one", "distance refined by", "adapters refined by", "CPU s")},
)
"""``adapters`` is the mean over the cases whose adapters have a weight."""


def signed(change: float | None) -> str | None:
    """A change in per cent."""
    return None if change is None else f"{change:+.1f} %".replace("-", "−")


def main() -> None:
    """One line a case, and the means."""
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / JOURNAL_FILE) as journal:
        study = Study(chosen_problems(None), Run(journal=journal))
        outcomes = study.searched(AS_PRINTED)
    ratios, distances, adapters, weighted = {}, {}, {}, {}
    for name, case in cases_of(study).items():
        outcome, printed = outcomes[name], read_published().cases[name].gigaplacer.total
        generated, adapted, refined = refined_costs(case.problem, outcome)
        ratios[name] = outcome.total / printed
        distances[name] = per_cent(adapted.distance, refined.distance)
        adapters[name] = per_cent(generated.adapter, adapted.adapter)
        if case.problem.weights.adapter:
            weighted[name] = adapters[name]
        changes = signed(distances[name]), signed(adapters[name])
        results.row("main", name, f"{outcome.total:,.1f}", f"{ratios[name]:.4f}", *changes, f"{outcome.search_s:.1f}")
    results.figure("mean", f"{geometric_mean([*ratios.values()]):.3f}")
    near = sum(each <= 1 + WITHIN for each in ratios.values())
    results.figure("within", f"{100 * WITHIN:.0f} % on {near} of {len(ratios)} cases")
    for name in DEARER + CHEAPER:
        results.figure(name.lower(), f"{100 * abs(ratios[name] - 1):.1f} %")
    seconds = [each.search_s for each in outcomes.values()]
    results.figure("seconds", f"{min(seconds):.0f} to {max(seconds):.0f} CPU seconds")
    results.figure("all_seconds", f"{sum(seconds):.0f} CPU seconds")
    results.figure("distance_d", signed(distances["D"]))
    for path, changes in (("distance", distances), ("adapters", weighted), ("adapters_all", adapters)):
        results.figure(path, signed(fmean(each for each in changes.values() if each is not None)))
    results.save(arguments.record)


if __name__ == "__main__":
    main()
