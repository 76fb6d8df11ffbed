"""Hybrid plans beside pipelines and sharded steps: the time of a whole training step, its bound, and CPU seconds.

``python -m benchmarks.hybrid [STEP …]``, by default ``t5-6`` and ``t5-3b`` on four servers of eight V100, with the
batch of the dump in 16 microbatches. ``--sharding`` also plans the step sharded over servers and devices.
"""

import argparse
import time
from importlib import resources

from dse.parallel.all_strategies import posed
from dse.parallel.contract import PROBLEM
from dse.parallel.options import ParallelOptions
from dse.report.units import memory_text, time_text
from dse.results.result import percent
from dse.run.run import Run

TARGET = 0.02
"""Gap of the hybrid plan of T5-3B."""


def main() -> None:
    """Print a row for each step and strategy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", default=["t5-6", "t5-3b"])
    parser.add_argument("--sharding", action="store_true")
    asked = parser.parse_args()
    for step in asked.steps:
        path = resources.files("dse.reproduce").joinpath("automap", "dumps", f"{step}.hlo.gz")
        options = ParallelOptions(
            str(path), strategy="all", mesh="server=4,model=8", accelerator="v100", network="v100-ethernet"
        )
        for name, each in posed(options).problem.posed.items():
            if name == "sharding" and not asked.sharding:
                continue
            begun = time.process_time()
            result = PROBLEM.answer(each, Run())
            seconds = time.process_time() - begun
            value = result.objective.value
            assert value is not None, f"{step}, {name}: no plan"
            print(
                f"{step}, {name}: {time_text(value)} a training step, proven at least {time_text(result.bound or 0.0)} "
                f"(gap {percent(result.gap or 0.0)}; target {percent(TARGET)} for hybrid on t5-3b), "
                f"{_memory(result.metrics)} on a device, {seconds:.1f} s of CPU",
                flush=True,
            )


def _memory(metrics: dict) -> str:
    if "stages" in metrics:
        return memory_text(max(stage["device_bytes"] for stage in metrics["stages"]))
    return memory_text(metrics["peak_bytes"])


if __name__ == "__main__":
    main()
