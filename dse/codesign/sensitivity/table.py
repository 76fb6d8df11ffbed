"""A sensitivity analysis as JSON types, as rows and as sentences, for result.json, the terminal and the report."""

from typing import Any

from pydantic import TypeAdapter

from dse.codesign.report.table import TableContent, number
from dse.codesign.sensitivity.analysis import BINDS_FROM, Sensitivity
from dse.codesign.sensitivity.knobs import KNOBS
from dse.codesign.sensitivity.probe import Architecture, PlanSummary, Point, Takeover
from dse.report.view import Row
from hardware.units import MIB

FACTOR_NAMES = {0.5: "÷ 2", 0.9: "− 10 %", 1.1: "+ 10 %", 2.0: "× 2"}


def sensitivity_document(sensitivity: Sensitivity) -> dict[str, Any]:
    """The analysis as JSON types, with what follows from it: changes, regrets, elasticities and the summary."""
    document: dict[str, Any] = TypeAdapter(Sensitivity).dump_python(sensitivity, mode="json")
    for entry, point in zip(document["points"], sensitivity.points, strict=True):
        entry |= {
            "change": sensitivity.change(point),
            "regret": point.regret,
            "same_architecture": sensitivity.keeps(point),
        }
    return {
        "summary": summary(sensitivity),
        "binding": sensitivity.binding(),
        "elasticity": {knob: sensitivity.elasticity(knob) for knob in sensitivity.knobs},
        **document,
    }


def sensitivity_from_document(document: dict[str, Any]) -> Sensitivity:
    """The analysis that :func:`sensitivity_document` wrote.

    Raises:
        pydantic.ValidationError: the document is none.
    """
    return TypeAdapter(Sensitivity).validate_python(document)


def sensitivity_rows(sensitivity: Sensitivity, unit: str) -> TableContent:
    """One row for every setting: score in ``unit``, change, architecture, what today's loses there, and plans."""
    headers = ("setting", f"score [{unit}]", "change", "architecture", "regret of today's", "plans")
    today = sensitivity.today
    if len(today.plans) == 1:
        plans = f"{_choices(today.plans[0])}, {today.plans[0].hbm_gb:.4g} GB"
    else:
        plans = f"{today.plans[0].hbm_gb:.4g} GB"
    first = ("today", _score(today), "", _architecture(today.architecture), "", plans)
    return headers, [first, *(_row(sensitivity, point) for point in sensitivity.points)]


def takeover_rows(sensitivity: Sensitivity) -> TableContent:
    """One row for every change of architecture along a knob: between which factors, and to what."""
    rows: list[Row] = [
        (
            KNOBS[takeover.knob].title,
            f"× {takeover.same:.4g}",
            f"× {takeover.other:.4g}",
            "nothing fits" if takeover.architecture is None else _architecture(takeover.architecture),
            "" if takeover.proven else "not proven",
        )
        for takeover in sensitivity.takeovers
    ]
    return ("knob", "unchanged at", "changed at", "new architecture", ""), rows


def summary(sensitivity: Sensitivity) -> list[str]:
    """Sentences: what binds, what does not, what keeping today's architecture costs, and where another takes over."""
    sentences = (
        _binding(sensitivity) + _keeping(sensitivity) + [_takeover(takeover) for takeover in sensitivity.takeovers]
    )
    unproven = sum(point.status == "feasible" for point in sensitivity.points)
    if unproven:
        sentences.append(f"{unproven} of {len(sensitivity.points)} answers are not proven: see their bounds.")
    if sensitivity.stopped is not None:
        sentences.append(f"Stopped early ({sensitivity.stopped}): settings or takeovers are missing.")
    return sentences


def _binding(sensitivity: Sensitivity) -> list[str]:
    sentences = []
    binding = sensitivity.binding()
    if binding:
        gains = [f"{KNOBS[knob].title} {_percent(sensitivity.gain(knob))}" for knob in binding]
        sentences.append(f"Binding, with the gain from 10 % more: {', '.join(gains)}.")
    loose = [knob for knob in sensitivity.knobs if knob not in binding and sensitivity.gain(knob) is not None]
    if loose:
        sentences.append(f"Not binding: {', '.join(_loose(sensitivity, knob) for knob in loose)}.")
    return sentences


def _loose(sensitivity: Sensitivity, knob: str) -> str:
    """A knob of which more gains nothing, with what more or less of it costs."""
    costs = []
    for asked, what in ((0.9, "less"), (1.1, "more")):
        point = sensitivity.at(knob, asked)
        lost = 0.0 if point is None else 1 - point.best_score / sensitivity.today.best_score
        if lost >= BINDS_FROM:
            costs.append(f"10 % {what} costs {100 * lost:.1f} %" if lost < 1 else f"with 10 % {what} nothing fits")
    return f"{KNOBS[knob].title} ({', '.join(costs)})" if costs else KNOBS[knob].title


def _keeping(sensitivity: Sensitivity) -> list[str]:
    """What it costs at most to keep today's architecture; of a stopped analysis, its finished part."""
    dearest = sensitivity.dearest()
    if dearest is None:
        return []
    tried = "" if sensitivity.stopped is None else f"In the {len(sensitivity.points)} settings tried: "
    if not dearest.regret:
        return [f"{tried}Wherever today's architecture fits, nothing does better."]
    where = f"{KNOBS[dearest.knob].title} × {dearest.factor:.3g}"
    cost = f"{100 * dearest.regret:.2g} %"
    return [f"{tried}Keeping today's architecture, with new plans, costs at most {cost} where it fits ({where})."]


def _takeover(takeover: Takeover) -> str:
    title = KNOBS[takeover.knob].title
    low, high = sorted((takeover.same, takeover.other))
    where = f"between {low:.4g} and {high:.4g} × {title}"
    if takeover.architecture is None:
        return f"Nothing fits beyond a point {where}."
    return f"{_architecture(takeover.architecture)} takes over {where}{'' if takeover.proven else ' (not proven)'}."


def _row(sensitivity: Sensitivity, point: Point) -> Row:
    asked = FACTOR_NAMES.get(point.asked, f"× {point.asked:g}")
    exact = "" if abs(point.factor / point.asked - 1) < 0.0005 else f" (× {point.factor:.3g})"
    setting = f"{KNOBS[point.knob].title} {asked}{exact}"
    if point.score is None:
        return setting, "nothing fits" if point.status == "infeasible" else "", "", "", "", ""
    keeps = sensitivity.keeps(point)
    regret = "" if keeps else "does not fit" if point.regret is None else f"{100 * point.regret:.2f} %"
    return (
        setting,
        _score(point),
        _percent(sensitivity.change(point)),
        "same" if keeps else _architecture(point.architecture),
        regret,
        _plans(point.plans, sensitivity.today.plans),
    )


def _score(point: Point) -> str:
    assert point.score is not None
    if point.status == "optimal" or point.bound is None:
        return number(point.score)
    return f"{number(point.score)} (at most {number(point.bound)})"


def _percent(change: float | None) -> str:
    if change is None:
        return ""
    return f"{'−' if round(change, 4) < 0 else '+'}{abs(100 * change):.1f} %"


def _architecture(architecture: Architecture | None) -> str:
    if architecture is None:
        return ""
    return (
        f"{architecture.tensor_cores} × {architecture.core_width}×{architecture.core_depth} tensor, "
        f"{architecture.vector_cores} × {architecture.vector_lanes} vector, "
        f"{architecture.global_buffer_bytes / MIB:g} MB"
    )


def _plans(plans: tuple[PlanSummary, ...], today: tuple[PlanSummary, ...]) -> str:
    """One plan in full, of several how many differ from today's and the HBM size that all share."""
    if len(plans) == 1:
        (plan,) = plans
        text = f"{_choices(plan)}, {plan.hbm_gb:.4g} GB"
        return "same" if plan.hbm_gb == today[0].hbm_gb and _choices(plan) == _choices(today[0]) else text
    changed = sum(_choices(plan) != _choices(before) for plan, before in zip(plans, today, strict=True))
    size = f", {plans[0].hbm_gb:.4g} GB" if plans[0].hbm_gb != today[0].hbm_gb else ""
    return f"{changed} of {len(plans)} replanned{size}" if changed or size else "same"


def _choices(plan: PlanSummary) -> str:
    activations = "recomputed" if plan.recompute else "stashed"
    return f"{{{plan.pipeline}, {plan.data}, {plan.tensor}}}, microbatch {plan.microbatch}, {activations}"
