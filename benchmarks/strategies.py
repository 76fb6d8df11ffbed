"""``dse parallel STEP --strategy all --mesh 8`` on one step of each front end: HLO, JAX, PyTorch.

The best plan of each strategy by the time of a whole training step (:mod:`dse.parallel.step_time`), on the default chip
and network, with the options that a reader of docs/guides/shard-a-step.md gives. CPU seconds begin when the step is
known; a function of the user runs in a process of its own before.
"""

import time
from importlib import resources

from benchmarks import DATA
from benchmarks.recording import Record, Results, parser_of
from dse.parallel.all_strategies import posed
from dse.parallel.contract import PROBLEM
from dse.parallel.options import ParallelOptions
from dse.report.units import time_text
from dse.results.result import percent
from dse.run.run import Run

EXAMPLES = DATA.parents[1] / "docs" / "examples"
STEPS = {
    "HLO": ("VGG-19", str(resources.files("dse.reproduce").joinpath("automap", "dumps", "vgg19.hlo.gz"))),
    "JAX": ("two layers, `step.py:step`", f"{EXAMPLES / 'step.py'}:step"),
    "PyTorch": ("images and text, 16 blocks, `model.py:vision_language`", f"{EXAMPLES / 'model.py'}:vision_language"),
}
"""By front end: title, and what the command is given."""

STRATEGIES = ("sharding", "pipeline", "hybrid")
RECORD = Record("strategies", tables={"main": ("from", "step", *STRATEGIES, "best", "gap", "CPU s")})


def main() -> None:
    """Print a row for each front end."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("steps", nargs="*", default=list(STEPS), metavar="FROM", help=", ".join(STEPS))
    asked = parser.parse_args()
    for name in asked.steps:
        title, step = STEPS[name]
        question = posed(ParallelOptions(step, strategy="all", mesh="8"))
        begun = time.process_time()
        result = PROBLEM.answer(question, Run())
        spent_s = time.process_time() - begun
        outcomes = result.metrics["strategies"]
        steps_s = [outcomes[each]["step_s"] if each in outcomes else None for each in STRATEGIES]
        cells = ("no plan" if step_s is None else time_text(step_s) for step_s in steps_s)
        gap = "proven" if result.status == "optimal" else percent(result.gap or 0.0)
        results.row("main", name, title, *cells, result.solution["best"], gap, f"{spent_s:.0f}")
    results.save(asked.record)


if __name__ == "__main__":
    main()
