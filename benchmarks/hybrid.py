"""Hybrid plans next to pipelines, sharded steps and plans that need no search: one table for each training step.

``python -m benchmarks.hybrid [STEP …]``, by default ``t5-6``, ``t5-3b``, ``bert-48`` and ``t5-11b``, on four servers of
eight V100, with the batch of the dump in 16 microbatches; hybrid plans have 16, or one stage of one, as by default. All
rows are the time of a whole step by one definition (:mod:`dse.parallel.step_time`). ``--without sharding`` leaves a
strategy out, ``--rounds N`` ends the hybrid search after so many rounds, in the same state on every machine. The line
behind a table says whether the hybrid plan is longer than any other row. ``--record`` keeps the rows of other steps.
"""

import time
from collections.abc import Iterator
from importlib import resources

from benchmarks.recording import Record, Results, parser_of
from dse.parallel.all_strategies import posed
from dse.parallel.contract import PROBLEM
from dse.parallel.hybrid.search import ROUNDS, HybridAnswer, solve_several
from dse.parallel.hybrid.step_times import step_time
from dse.parallel.options import ParallelOptions
from dse.report.units import memory_text, time_text
from dse.results.result import PROOF_TOLERANCE, Result, percent, relative_gap
from dse.run.run import Run

RECORD = Record(
    "hybrid", tables={"main": ("step", "strategy", "training step", "proven at least", "gap", "per device", "CPU s")}
)

TITLES = {"t5-6": "T5, 6 + 6 layers", "t5-3b": "T5-3B", "bert-48": "BERT-48", "t5-11b": "T5-11B"}
"""Of the steps, in the order of the table."""

TARGET = 0.02
"""Gap of the hybrid plan of T5-3B."""

ORDER = ("hybrid", "pipeline", "sharding")


def main() -> None:
    """Print a table for each step."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("steps", nargs="*", default=list(TITLES))
    parser.add_argument("--without", action="append", choices=ORDER, default=[])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    if unknown := {*asked.steps} - {*TITLES}:
        parser.error(f"STEP: must be one of {', '.join(TITLES)}, but got {', '.join(sorted(unknown))}")
    print(f"The target is a gap of {percent(TARGET)} for the hybrid plan of t5-3b.")
    for step in asked.steps:
        path = resources.files("dse.reproduce").joinpath("automap", "dumps", f"{step}.hlo.gz")
        options = ParallelOptions(
            str(path),
            strategy="all",
            mesh="server=4,model=8",
            accelerator="v100",
            network="v100-ethernet",
        )
        problems, times = posed(options).problem.posed, dict[str, float]()
        for name in (each for each in ORDER if each in problems and each not in asked.without):
            begun = time.process_time()
            if name == "hybrid" and asked.rounds != ROUNDS:
                answer = solve_several(problems[name].problem.problems, rounds=asked.rounds)
                rows, own = [_short_row(answer, asked.rounds)], {name: answer.step_s}
            else:
                result = PROBLEM.answer(problems[name], Run())
                rows, own = list(_rows(name, result)), _times(name, result)
            spent = f"{time.process_time() - begun:.0f}"
            for number, row in enumerate(rows):
                results.row("main", TITLES[step], *row, spent if number == 0 else "")
            times |= own
        print(f"\n{_verdict(times)}", flush=True)
    rows = results.rows["main"] + [row for row in RECORD.rows("main") if row[0] not in map(TITLES.get, asked.steps)]
    results.rows["main"] = [row for title in TITLES.values() for row in rows if row[0] == title]
    results.save(asked.record)


def _times(name: str, result: Result) -> dict[str, float]:
    """The step of a strategy's plan and of its baselines, by what their rows are called."""
    if result.objective.value is None:
        return {}
    of = result.metrics.get("baselines", {}).items()
    baselines = {f"{name}: {each}": row.get("step_s", row.get("length_s")) for each, row in of}
    return {name: result.objective.value} | {each: step_s for each, step_s in baselines.items() if step_s is not None}


def _verdict(times: dict[str, float]) -> str:
    """Whether the hybrid plan is the shortest."""
    if "hybrid" not in times:
        return "No hybrid plan to compare."
    shorter = [name for name, step_s in times.items() if step_s < times["hybrid"] * (1 - PROOF_TOLERANCE)]
    return f"Shorter than the hybrid plan: {', '.join(shorter) or 'none'}."


def _short_row(answer: HybridAnswer, rounds: int) -> tuple[str, ...]:
    """A hybrid plan after fewer rounds."""
    name, bound = f"hybrid, {rounds} rounds", time_text(answer.bound_s)
    if answer.plan is None:
        return name, "no plan", bound, "", ""
    held = max(stage.device_bytes for stage in step_time(answer.problem, answer.plan).stages)
    gap = relative_gap(answer.step_s, answer.bound_s) or 0.0
    return name, time_text(answer.step_s), bound, percent(gap), memory_text(held)


def _rows(name: str, result: Result) -> Iterator[tuple[str, ...]]:
    """The plan of a strategy, and the baselines that it is reported with."""
    value = result.objective.value
    if value is None:
        why = "" if result.infeasibility is None else result.infeasibility.explanation
        yield name, f"no plan ({result.status})", time_text(result.bound or 0.0), "", why
        return
    proven = time_text(result.bound or 0.0), percent(result.gap or 0.0)
    yield name, time_text(value), *proven, _memory(result.metrics)
    for baseline, of in result.metrics.get("baselines", {}).items():
        step_s = of.get("step_s", of.get("length_s"))
        held = of.get("device_bytes", of.get("peak_bytes"))
        yield f"{name}: {baseline}", time_text(step_s), "", "", "" if held is None else memory_text(held)


def _memory(metrics: dict) -> str:
    if "stages" in metrics:
        return memory_text(max(stage["device_bytes"] for stage in metrics["stages"]))
    return memory_text(metrics["peak_bytes"])


if __name__ == "__main__":
    main()
