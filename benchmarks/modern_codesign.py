"""``dse codesign MODEL --plans modern``: proven over all architectures and plans, next to the paper's vocabulary.

Target: BERT-large on 1,024 accelerators at 4,096 samples proven over 29,360 architectures in 60 s on two cores. That
is the space ``phaze-2024``, in the first row; the others are of the default space of 59,748. Each row has three HBM
sizes and every plan, and ideal times of kernels (``--ideal``). Baselines in the same run: the same search over the
plans of the PHAZE paper's vocabulary, and the best plan of TPUv4's cores; both priced as the answer is. Seconds are of
one process that has compiled its kernels before.
"""

import time
from dataclasses import replace
from typing import Any

from benchmarks.recording import Record, Results, parser_of
from dse.codesign.contract import PROBLEM
from dse.codesign.modern.asked import modern_problem
from dse.codesign.modern.search import ModernSearch, chosen_optimum
from dse.codesign.options import CodesignOptions
from dse.plan.training_plan import whole_plan
from dse.problem import pose
from dse.results.result import Result
from dse.run.run import Run
from hardware.specs import accelerator

RECORD = Record(
    "modern_codesign",
    tables={
        "main": (
            "model",
            "architectures",
            "plans",
            "priced exactly",
            "samples/s",
            "best of the paper's vocabulary",
            "TPUv4, best plan",
            "gap",
            "CPU s",
        )
    },
)
MODELS = ("bert-large", "gpt2-xl", "llama2-7b", "megatron-8.3b", "gpt3-175b", "mixtral-8x7b")


def main() -> None:
    """Print a row per model, and its plan."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("models", nargs="*", default=MODELS)
    arguments = parser.parse_args()
    _answer("bert-large", accelerators=8, global_batch=8)
    for model, space in [("bert-large", "phaze-2024"), *((model, "table-1") for model in arguments.models)]:
        began = time.process_time()
        result = _answer(model, space=space)
        cpu_s = time.process_time() - began
        metrics, value = result.metrics, result.objective.value or 0.0
        baselines = [metrics["baselines"][0]["throughput_per_s"], _reference_per_s(model, space)]
        shares = [f"{100 * each / value:.1f} %" if each else "–" for each in baselines]
        trained = next(iter(result.solution["models"].values()))
        names = ("architectures_in_space", "plans_in_vocabulary", "architectures_evaluated")
        label = model if space == "table-1" else f"{model}, `--space {space}`"
        rates = f"{value:,.1f}", *shares, f"{result.gap or 0:.1g}", f"{cpu_s:.1f}"
        results.row("main", label, *(metrics[name] for name in names), *rates)
        sizes = result.solution["architecture"]
        cores = f"{sizes['tensor_cores']} × {sizes['core_width']}×{sizes['core_depth']}"
        lanes = f"{sizes['vector_cores']} × {sizes['vector_lanes']} lanes"
        print(f"    {cores}, {lanes}, {sizes['area_mm2']:.1f} mm², {trained['hbm_gb']:g} GB")
        print(f"    {whole_plan(trained['plan'], 'result').text()}", flush=True)
    results.save(arguments.record)


def _options(model: str, **changes: Any) -> CodesignOptions:
    return CodesignOptions((model,), plans="modern", ideal=True, on="none", **changes)


def _answer(model: str, **changes: Any) -> Result:
    return PROBLEM.answer(pose(PROBLEM, _options(model, **changes)), Run())


def _reference_per_s(model: str, space: str) -> float | None:
    """Samples per second of the best plan on the cores of the cost model's reference; None where nothing fits."""
    posed = modern_problem(_options(model, space=space))
    problem = replace(posed, fixed=accelerator(posed.cost_model.reference.name, posed.cost_model))
    searched = ModernSearch(problem, problem.machines())
    at_size = chosen_optimum(problem, searched.outcome(searched.candidates()))
    return None if at_size is None or at_size.best is None else problem.global_batch / at_size.best.step_s


if __name__ == "__main__":
    main()
