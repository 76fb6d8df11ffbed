"""Hybrid plans beside pipelines, sharded steps and plans that need no search: one table for each training step.

``python -m benchmarks.hybrid [STEP …]``, by default ``t5-6``, ``t5-3b``, ``bert-48`` and ``t5-11b``, on four servers of
eight V100, with the batch of the dump in 16 microbatches. All rows are the time of a whole step by one definition
(:mod:`dse.parallel.step_time`). ``--without sharding`` leaves a strategy out.
"""

import argparse
import time
from collections.abc import Iterator
from importlib import resources

from dse.parallel.all_strategies import posed
from dse.parallel.contract import PROBLEM
from dse.parallel.options import ParallelOptions
from dse.report.units import memory_text, time_text
from dse.results.result import Result, percent
from dse.run.run import Run

STEPS = ("t5-6", "t5-3b", "bert-48", "t5-11b")

TARGET = 0.02
"""Gap of the hybrid plan of T5-3B."""

ORDER = ("hybrid", "pipeline", "sharding")


def main() -> None:
    """Print a table for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", default=list(STEPS))
    parser.add_argument("--without", action="append", choices=ORDER, default=[])
    asked = parser.parse_args()
    print(f"The target is a gap of {percent(TARGET)} for the hybrid plan of t5-3b.")
    for step in asked.steps:
        path = resources.files("dse.reproduce").joinpath("automap", "dumps", f"{step}.hlo.gz")
        options = ParallelOptions(
            str(path),
            strategy="all",
            mesh="server=4,model=8",
            microbatches=16,
            accelerator="v100",
            network="v100-ethernet",
        )
        print(f"\n| {step} | training step | proven at least | gap | on a device | CPU s |\n|---|---|---|---|---|---|")
        problems = posed(options).problem.posed
        for name in (each for each in ORDER if each in problems and each not in asked.without):
            begun = time.process_time()
            result = PROBLEM.answer(problems[name], Run())
            spent_s = time.process_time() - begun
            for row in _rows(name, result, spent_s):
                print(f"| {' | '.join(row)} |", flush=True)


def _rows(name: str, result: Result, spent_s: float) -> Iterator[tuple[str, ...]]:
    """The plan of a strategy, and the baselines that it is reported with."""
    value = result.objective.value
    if value is None:
        why = "" if result.infeasibility is None else result.infeasibility.explanation
        yield name, f"no plan ({result.status})", time_text(result.bound or 0.0), "", why, f"{spent_s:.0f}"
        return
    proven = time_text(result.bound or 0.0), percent(result.gap or 0.0)
    yield name, time_text(value), *proven, _memory(result.metrics), f"{spent_s:.0f}"
    for baseline, of in result.metrics.get("baselines", {}).items():
        step_s = of.get("step_s", of.get("length_s"))
        held = of.get("device_bytes", of.get("peak_bytes"))
        yield f"{name}: {baseline}", time_text(step_s), "", "", "" if held is None else memory_text(held), ""


def _memory(metrics: dict) -> str:
    if "stages" in metrics:
        return memory_text(max(stage["device_bytes"] for stage in metrics["stages"]))
    return memory_text(metrics["peak_bytes"])


if __name__ == "__main__":
    main()
