"""What choices of `dse plan` bring: unequal stages, devices that stay unused, sets of modules to recompute.

A row compares the best plan without a choice with the best plan: the choice is a constraint of plans that is dropped
(`--constraints`), or sets of modules in addition to the other modes of recomputation. The figure says what one plan
takes by `dse predict` on chips whose kernels were not timed, with the rates of ``generic``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.recording import Record, Results, parser_of
from dse.plan.options import PlanOptions, PredictOptions, posed_problem
from dse.plan.recomputation import ALL_SETS
from dse.plan.stack_range import GENERIC
from tests.solving import answer

RECORD = Record("plan_choices", ("assumed",), {"main": ("what", "per step", "with the choice", "choice")})

UNEQUAL = PlanOptions("llama3-8b", accelerators=64, global_batch=64, plan="pipeline=8", constraints=True)
ODD = PlanOptions("llama3-8b", accelerators=100, global_batch=96, constraints=True)
MODULES = {
    "Mixtral 8x7B on 64 H100": PlanOptions("mixtral-8x7b", accelerators=64, global_batch=64, sequence=8192),
    "Qwen3-30B-A3B on 16 H100": PlanOptions("qwen3-30b-a3b", accelerators=16, global_batch=64, sequence=8192),
}
ASSUMED = {"MI355X": "mi355x", "B200": "b200", "GB200": "gb200", "GB300": "gb300"}
ON_EIGHT = "data=8,microbatch=1,zero=1,recompute=full"


def unconstrained(options: PlanOptions, constraint: str) -> tuple[str, str, Mapping[str, Any]]:
    """Seconds of the best plan, those of the best one without the constraint, and that plan."""
    result = answer(options)
    free = result.metrics["constraints"][constraint]
    return _seconds(result.objective.value), _seconds(free["step_s"]), free["plan"]


def without_modules(options: PlanOptions) -> tuple[float, str]:
    """Seconds of the best plan that recomputes no set of modules, and its mode of recomputation."""
    modes = [mode for mode in posed_problem(options).problem.stack.recomputations.value if mode != ALL_SETS]
    results = {mode: answer(replace(options, plan=f"recompute={mode}")) for mode in ["none", *modes]}
    known = {mode: each.objective.value for mode, each in results.items() if each.objective.value is not None}
    best = min(known, key=lambda mode: known[mode])
    return known[best], best


def _seconds(step_s: float) -> str:
    return f"{step_s:.3f} s"


def main() -> None:
    """The table, and the figure."""
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    kept, free, plan = unconstrained(UNEQUAL, "equal_stages")
    layers = f"{plan['first_layers']} layers in the first stage, {plan['last_layers']} in the last"
    results.row("main", "Llama 3 8B on 64 H100, 8 stages, 64 samples of 8,192 tokens", kept, free, layers)
    kept, free, plan = unconstrained(ODD, "all_devices")
    used = plan["tensor"] * plan["context"] * plan["data"] * plan["pipeline"]
    results.row("main", "Llama 3 8B on 100 H100, 96 samples", kept, free, f"{used} of the devices")
    for what, options in MODULES.items():
        best, (value_s, mode) = answer(options), without_modules(options)
        cells = f"{_seconds(value_s)} (`{mode}`)", _seconds(best.objective.value)
        recomputed = best.solution["plan"]["recompute"]
        results.row("main", f"{what}, 64 samples of 8,192 tokens", *cells, f"`{recomputed}`")
    eight = PredictOptions("llama3-8b", stack=GENERIC, accelerators=8, global_batch=64, plan=ON_EIGHT)
    steps = {name: answer(replace(eight, on=chip)) for name, chip in ASSUMED.items()}
    texts = (f"{name} {each.objective.value:.2f} s" for name, each in steps.items())
    results.figure("assumed", f"{', '.join(texts)} (`--plan {ON_EIGHT}`, 64 samples)")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
