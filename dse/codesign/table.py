"""The answer of a co-search in words and rows, for the terminal and the report."""

from collections.abc import Mapping
from typing import Any

from dse.result import Result
from hardware.units import KIB, MIB

Row = tuple[str, ...]


def verdict(result: Result) -> str:
    """One sentence: what was found and how sure it is."""
    space, evaluated = result.metrics["architectures_in_space"], result.metrics["architectures_evaluated"]
    if result.status == "infeasible":
        return f"Proven infeasible: {result.problem.name} fits no placement. {_why(result.infeasibility or {})}"
    if result.objective.value is None:
        return "Stopped before any feasible answer."
    found = f"{result.objective.value:,.1f} samples/s"
    if result.status == "optimal":
        return (
            f"{found}, proven optimal: none of the {space:,} architectures does better "
            f"({evaluated:,} evaluated exactly, {space - evaluated:,} pruned by bounds, {result.seconds:.1f} s)."
        )
    if result.bound is None or result.gap is None:
        return f"{found}, not proven: stopped before every architecture was bounded ({result.seconds:.1f} s)."
    return (
        f"{found}, not proven: no architecture does better than {result.bound:,.1f} samples/s "
        f"(gap {100 * result.gap:.2f} %, {evaluated:,} of {space:,} evaluated, {result.seconds:.1f} s)."
    )


def _why(infeasibility: Mapping[str, Any]) -> str:
    return str(infeasibility.get("explanation", ""))


def answer_rows(result: Result) -> list[Row]:
    """(what, value) of the answer."""
    machine = result.solution["architecture"]
    plan = result.solution["models"][result.problem.name]
    metrics = result.metrics
    recompute = "recomputed" if plan["recompute"] else "stashed"
    return [
        ("throughput", f"{plan['throughput_per_s']:,.1f} samples/s  ({plan['batch_s']:.4g} s a batch)"),
        (
            "accelerator",
            f"{machine['tensor_cores']} tensor cores {machine['core_width']}×{machine['core_depth']}, "
            f"{machine['vector_cores']} vector cores × {machine['vector_lanes']} lanes",
        ),
        (
            "on-chip memory",
            f"{machine['global_buffer_bytes'] // MIB} MB global buffer, {machine['tensor_l2_bytes'] // KIB} KB L2 a "
            f"tensor core, {machine['vector_l2_bytes'] // KIB} KB a vector core",
        ),
        ("area", f"{machine['area_mm2']:.1f} mm²  ({100 * metrics['area_budget_used']:.0f} % of the budget)"),
        (
            "placement",
            f"{plan['pipeline']} pipeline × {plan['data']} data × {plan['tensor']} tensor = "
            f"{plan['accelerators_used']:,} accelerators",
        ),
        ("microbatch", f"{plan['microbatch']}, activations {recompute}"),
        ("HBM", f"{plan['hbm_gb']:g} GB, {metrics['peak_memory_gb']:.1f} GB used by the fullest stage"),
        ("utilisation", f"{100 * metrics['model_flops_utilisation']:.1f} % of peak FLOPs (model FLOPs)"),
    ]


def comparison_rows(result: Result) -> tuple[Row, list[Row]]:
    """Headers and rows: the answer beside the fixed accelerator with expert and with our placement."""
    plan = result.solution["models"][result.problem.name]
    answer = {
        "name": "this answer",
        "area_mm2": result.solution["architecture"]["area_mm2"],
        "model_flops_utilisation": result.metrics["model_flops_utilisation"],
        "plan": {key: plan[key] for key in plan if key not in ("stages", "layers")},
    }
    baselines = result.metrics.get("baselines", [])
    reference = next((entry for entry in baselines if entry["plan"]), answer)
    against = "× expert" if "expert" in reference["name"] else "× TPUv4"
    headers = ("", "samples/s", against, "MFU", "area", "HBM", "{p, d, t}", "microbatch", "activations")
    reference_per_s = reference["plan"]["throughput_per_s"]
    return headers, [_comparison_row(entry, reference_per_s) for entry in [*baselines, answer]]


def _comparison_row(entry: Mapping[str, Any], reference_per_s: float) -> Row:
    plan = entry["plan"]
    if plan is None:
        return (entry["name"], "does not fit", "", "", f"{entry['area_mm2']:.0f} mm²", "", "", "", "")
    ratio = f"{plan['throughput_per_s'] / reference_per_s:.2f}"
    return (
        entry["name"],
        f"{plan['throughput_per_s']:,.1f}",
        ratio,
        f"{100 * entry['model_flops_utilisation']:.1f} %",
        f"{entry['area_mm2']:.0f} mm²",
        f"{plan['hbm_gb']:g} GB",
        f"{{{plan['pipeline']}, {plan['data']}, {plan['tensor']}}}",
        f"{plan['microbatch']}",
        "recomputed" if plan["recompute"] else "stashed",
    )
