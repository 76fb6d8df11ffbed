"""The answer of a co-search in words and rows, for the terminal and the report."""

from collections.abc import Mapping, Sequence
from typing import Any

from dse.report.units import memory_text, time_text
from dse.report.view import Row
from dse.results.result import PROOF_TOLERANCE, Result, percent
from hardware.energy_model import TEMPLATE_PROCESS_NM
from hardware.units import KIB, MIB, bytes_from_gib

TableContent = tuple[Row, list[Row]]
"""Headers and rows."""

_UNITS = {"samples/s": "samples/s", "samples/J": "samples/J", "samples/s/mm2": "samples/s/mm²"}


def verdict(result: Result) -> str:
    """One sentence: what was found and how sure it is."""
    space, evaluated = result.metrics["architectures_in_space"], result.metrics["architectures_evaluated"]
    if result.status == "infeasible":
        proof = result.infeasibility
        name = result.problem.name if proof is None else proof.where.get("model", result.problem.name)
        return f"Infeasible: none of the searched plans fits {name}. {'' if proof is None else proof.explanation}"
    if result.objective.value is None:
        return "Stopped before any feasible answer."
    score = score_text(result, result.objective.value)
    fixed = result.settings["fixed"]
    if fixed is not None and result.status == "optimal":
        return f"{score} on {fixed}, proven optimal: no placement does better ({result.seconds:.1f} s)."
    if result.method != "exhaustive":
        return _heuristic_verdict(result, score)
    if result.status == "optimal":
        return (
            f"{score}, proven optimal: none of the {space:,} architectures does better "
            f"({evaluated:,} evaluated exactly, {space - evaluated:,} pruned by bounds, {result.seconds:.1f} s)."
        )
    if result.bound is None or result.gap is None:
        return f"{score}, not proven: stopped before every architecture was bounded ({result.seconds:.1f} s)."
    if result.gap <= PROOF_TOLERANCE:
        size = next(iter(result.solution["models"].values()))["hbm_gb"]
        rest = "interrupted" if result.status == "interrupted" else "whether another HBM size is better is not proven"
        return f"{score}, proven optimal at {hbm_text(size)} of HBM; {rest} ({result.seconds:.1f} s)."
    if fixed is not None:
        return (
            f"{score} on {fixed}, not proven: no placement does better than {number(result.bound)} {_unit(result)} "
            f"(gap {percent(result.gap)}, {result.seconds:.1f} s)."
        )
    return (
        f"{score}, not proven: no architecture does better than {number(result.bound)} {_unit(result)} "
        f"(gap {percent(result.gap)}, {evaluated:,} of {space:,} evaluated, {result.seconds:.1f} s)."
    )


def _heuristic_verdict(result: Result, score: str) -> str:
    """What a search that proves nothing found, how far that is from the proven optimum, and what it took."""
    space, evaluated = result.metrics["architectures_in_space"], result.metrics["architectures_evaluated"]
    took = f"{result.method}: {evaluated:,} of {space:,} architectures evaluated, {result.seconds:.1f} s"
    if result.method == "bayesian":
        took += "; the answer may depend on the number of workers"
    distance, optimum = result.metrics["distance_from_proven"], result.metrics["proven_optimum"]
    if result.status == "optimal":
        return f"{score}, the proven optimum ({took})."
    if distance is not None:
        return f"{score}, {percent(distance)} below the proven optimum {number(optimum)} {_unit(result)} ({took})."
    if result.bound is not None:
        return f"{score}, not proven: no architecture does better than {number(result.bound)} {_unit(result)} ({took})."
    return f"{score}, not proven ({took})."


def score_text(result: Result, value: float) -> str:
    """A value of the objective with its unit, and the mean it is of where there are several models."""
    settings = result.settings
    count = len(settings["models"])
    of_models = f" ({settings['mean']} mean of {count} models)" if count > 1 else ""
    return f"{number(value)} {_unit(result)}{of_models}"


def number(value: float) -> str:
    """Throughputs with one decimal, small figures with four digits."""
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"


def _unit(result: Result) -> str:
    return _UNITS[result.objective.unit]


def architecture_text(machine: Mapping[str, Any]) -> str:
    """The cores of an architecture in one line."""
    return (
        f"{machine['tensor_cores']} tensor cores {machine['core_width']}×{machine['core_depth']}, "
        f"{machine['vector_cores']} vector cores × {machine['vector_lanes']} lanes"
    )


def answer_rows(result: Result) -> list[Row]:
    """(what, value) of the answer; with one model, its plan too."""
    machine, metrics = result.solution["architecture"], result.metrics
    rows = [
        ("accelerator", architecture_text(machine)),
        (
            "on-chip memory",
            f"{machine['global_buffer_bytes'] // MIB} MB global buffer, {machine['tensor_l2_bytes'] // KIB} KB L2 "
            f"per tensor core, {machine['vector_l2_bytes'] // KIB} KB per vector core",
        ),
        ("area", _area_text(result)),
    ]
    models = result.solution["models"]
    if len(models) > 1:
        size = next(iter(models.values()))["hbm_gb"]
        return [*rows, ("HBM", hbm_text(size))]
    ((name, plan),) = models.items()
    return plan_rows(plan, metrics["models"][name])[:1] + rows + plan_rows(plan, metrics["models"][name])[1:]


def _area_text(result: Result) -> str:
    """What the budget counts, and what the die holds in addition to it."""
    metrics, of_budget = result.metrics, ""
    if result.settings["fixed"] is None:
        of_budget = f"  ({100 * metrics['area_budget_used']:.0f} % of the budget)"
    interfaces = f", and {metrics['interface_mm2']:.1f} mm² of HBM and network interfaces"
    area = f"{result.solution['architecture']['area_mm2']:.1f} mm²{of_budget}"
    return area + (interfaces if metrics["interface_mm2"] else "")


def hbm_text(size_gb: float, digits: int = 4) -> str:
    """A size of HBM."""
    return memory_text(bytes_from_gib(size_gb), digits)


def power_text(figures: Mapping[str, Any]) -> str:
    """Average power, with what its sources allow where that is known: ``495 W (360 to 610)``."""
    return f"{number(figures['power_w'])} W{between_text(figures.get('power_interval_w'))}"


def joules_text(figures: Mapping[str, Any]) -> str:
    """Joules of a sample, as :func:`power_text`."""
    joules, interval = figures["joules_per_sample"], figures.get("power_interval_w")
    ends = None if interval is None else [joules * each / figures["power_w"] for each in interval]
    return f"{number(joules)} J{between_text(ends)}"


def between_text(interval: Sequence[float] | None) -> str:
    """What the sources of an estimate allow, after it: `` (360 to 610)``; nothing where that is not known."""
    return "" if interval is None else " ({} to {})".format(*map(number, interval))


def plan_rows(plan: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[Row]:
    """(what, value) of one model's plan."""
    return [
        ("throughput", f"{number(plan['throughput_per_s'])} samples/s  ({time_text(plan['batch_s'])} per batch)"),
        (
            "placement",
            f"{plan['pipeline']} pipeline × {plan['data']} data × {plan['tensor']} tensor = "
            f"{plan['accelerators_used']:,} accelerators",
        ),
        ("simulated", f"{time_text(metrics['simulated_batch_s'])} per batch, with every pass and synchronisation"),
        ("microbatch", f"{plan['microbatch']}, activations {_activations(plan)}"),
        ("HBM", f"{hbm_text(plan['hbm_gb'])}, {hbm_text(metrics['peak_memory_gb'], 3)} used by the fullest stage"),
        ("utilisation", f"{100 * metrics['model_flops_utilisation']:.1f} % of peak FLOPs (model FLOPs)"),
        (
            "power",
            f"{power_text(metrics)} per accelerator on average, {joules_text(metrics)} per sample over all "
            "accelerators",
        ),
    ]


def comparison(result: Result) -> TableContent:
    """The answer next to the reference with the paper's expert and with our placement, for one model or for several."""
    plans = result.solution["models"]
    if len(plans) == 1:
        return _comparison_of_one(result, next(iter(plans)))
    headers = ("model", "samples/s", "× paper's expert", "× TPUv4", "MFU", "{p, d, t}", "microbatch", "activations")
    rows = []
    for name, plan in plans.items():
        placed = {entry["placement"]: entry["plan"] for entry in result.metrics["baselines"].get(name, [])}
        ratios = [
            "" if base is None else f"{plan['throughput_per_s'] / base['throughput_per_s']:.2f}"
            for base in (placed.get("expert"), placed.get("own"))
        ]
        used = 100 * result.metrics["models"][name]["model_flops_utilisation"]
        shape = f"{{{plan['pipeline']}, {plan['data']}, {plan['tensor']}}}"
        choices = (shape, f"{plan['microbatch']}", _activations(plan))
        rows.append((name, number(plan["throughput_per_s"]), *ratios, f"{used:.1f} %", *choices))
    return headers, rows


def _comparison_of_one(result: Result, name: str) -> TableContent:
    plan = result.solution["models"][name]
    answer = {
        "name": "this answer",
        "area_mm2": result.solution["architecture"]["area_mm2"],
        "process_nm": TEMPLATE_PROCESS_NM,
        "model_flops_utilisation": result.metrics["models"][name]["model_flops_utilisation"],
        "plan": {key: plan[key] for key in plan if key not in ("stages", "layers")},
    }
    baselines = result.metrics["baselines"].get(name, [])
    # The last one has our placement, which is no worse than the paper's expert's.
    reference = next((entry for entry in reversed(baselines) if entry["plan"]), answer)
    headers = ("", "samples/s", "× TPUv4", "MFU", "area", "HBM", "{p, d, t}", "microbatch", "activations")
    reference_per_s = reference["plan"]["throughput_per_s"]
    return headers, [_comparison_row(entry, reference_per_s) for entry in [*baselines, answer]]


def _comparison_row(entry: Mapping[str, Any], reference_per_s: float) -> Row:
    plan = entry["plan"]
    if plan is None:
        return (entry["name"], "does not fit", "", "", _area_cell(entry), "", "", "", "")
    ratio = f"{plan['throughput_per_s'] / reference_per_s:.2f}"
    return (
        entry["name"],
        number(plan["throughput_per_s"]),
        ratio,
        f"{100 * entry['model_flops_utilisation']:.1f} %",
        _area_cell(entry),
        hbm_text(plan["hbm_gb"]),
        f"{{{plan['pipeline']}, {plan['data']}, {plan['tensor']}}}",
        f"{plan['microbatch']}",
        _activations(plan),
    )


def _area_cell(entry: Mapping[str, Any]) -> str:
    return f"{entry['area_mm2']:.0f} mm², {entry['process_nm']:g} nm"


def _activations(plan: Mapping[str, Any]) -> str:
    return "recomputed" if plan["recompute"] else "stashed"


def layer_rows(result: Result) -> TableContent:
    """Makespan of each distinct layer of each model, forward, backward and update, and whether it is proven."""
    rows: list[Row] = []
    for name, plan in result.solution["models"].items():
        for kind, layer in plan["layers"].items():
            for part, schedule in layer.items():
                makespan_s, bound_s = schedule["makespan_s"], schedule["bound_s"]
                gap = 1 - bound_s / makespan_s if makespan_s > 0 else 0.0
                proof = "optimal" if gap <= PROOF_TOLERANCE else f"within {percent(gap)}"
                what = f"{kind} {part}"
                rows.append((name, what, time_text(makespan_s), str(len(schedule["operators"])), proof))
    return ("model", "layer", "makespan", "operators", "schedule"), rows
