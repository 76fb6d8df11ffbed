"""The check of a sensitivity analysis: today's answer, every setting, every takeover, and all that follows from them.

What the analysis derives from its points – changes, regrets, elasticities, what binds, the summary – is derived again;
:mod:`dse.codesign.check_metrics.settings` and :mod:`dse.codesign.check_metrics.takeovers` check the points.
"""

from dataclasses import asdict

from dse.codesign.check_metrics.reevaluation import Allowance
from dse.codesign.check_metrics.settings import point_faults
from dse.codesign.check_metrics.takeovers import takeover_faults
from dse.codesign.problem import CodesignProblem
from dse.codesign.sensitivity.analysis import Sensitivity, point_tasks, takeover_tasks
from dse.codesign.sensitivity.knobs import KNOBS
from dse.codesign.sensitivity.probe import Architecture, OptimumHolder, PlanSummary, Point, Prober
from dse.codesign.sensitivity.table import sensitivity_document, sensitivity_from_document
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result, Status
from hardware.machines import Machines
from hardware.units import gib_from_bytes

WHERE = "metrics.sensitivity"


def sensitivity_faults(problem: CodesignProblem, machines: Machines, result: Result) -> list[str]:
    """Every fault of the analysis in ``result``, whose answer the checker has passed; ``machines`` are the space."""
    stated = result.metrics["sensitivity"]
    analysis = sensitivity_from_document(stated)
    faults = differences(WHERE, stated, sensitivity_document(analysis))
    today = _today(problem, result, analysis.today.reached_by)
    faults += differences(f"{WHERE}.today", asdict(analysis.today), asdict(today))
    assert today.architecture is not None
    prober = Prober(problem, machines, today.architecture)
    faults += _missing(prober, analysis)
    if faults:
        return faults
    allowance = Allowance()
    faults += _at(f"{WHERE}.today", point_faults(problem, machines, today, today.architecture, allowance))
    for number, point in enumerate(analysis.points):
        knob, where = KNOBS[point.knob], f"{WHERE}.points[{number}]"
        turned = knob.turned(problem, point.asked)
        space = knob.space(problem, knob.widest(problem, machines, point.asked), point.asked)
        figures = {"factor": prober.factor(knob, point.asked), "value": knob.value(turned)}
        faults += differences(where, {key: getattr(point, key) for key in figures}, figures)
        faults += _at(where, point_faults(turned, space, point, today.architecture, allowance))
    for number, (task, takeover) in enumerate(
        zip(takeover_tasks(today, analysis.points), analysis.takeovers, strict=False)
    ):
        faults += _at(f"{WHERE}.takeovers[{number}]", takeover_faults(prober, task, takeover))
    return faults


def _at(where: str, faults: list[str]) -> list[str]:
    return [f"{where}: {fault}" for fault in faults]


def _today(problem: CodesignProblem, result: Result, reached_by: tuple[OptimumHolder | None, ...]) -> Point:
    """The answer of ``result`` as the first point of its analysis."""
    metrics, sizes = result.metrics, [f"{gib_from_bytes(size):g}" for size in problem.hbm_bytes]
    sizes_of = {key: result.solution["architecture"][key] for key in Architecture.__dataclass_fields__}
    plans = tuple(
        PlanSummary(
            model=job.name,
            **{
                key: result.solution["models"][job.name][key]
                for key in PlanSummary.__dataclass_fields__
                if key != "model"
            },
        )
        for job in problem.jobs
    )
    return Point(
        knob="",
        asked=1.0,
        factor=1.0,
        value=1.0,
        status=_status(result),
        score=metrics["score"],
        bound=result.bound,
        optima=tuple(metrics["optimum_by_hbm"].get(size, 0.0) for size in sizes),
        reached_by=reached_by,
        architecture=Architecture(**sizes_of),
        plans=plans,
        today_score=metrics["score"],
        today_plans=plans,
    )


def _status(result: Result) -> Status:
    """That of the answer: an interrupt of what was requested in addition to it hides it in ``status``."""
    if result.status != "interrupted":
        return result.status
    closed = result.gap is not None and result.gap <= PROOF_TOLERANCE
    return "optimal" if closed and result.metrics.get("proven_optimum") is not None else "feasible"


def _missing(prober: Prober, analysis: Sensitivity) -> list[str]:
    """Settings and takeovers that were not requested, out of order or, unless it was stopped, missing."""
    if analysis.stopped is not None and not analysis.stopped:
        return [f"{WHERE}.stopped must state the reason"]
    settings = [(task.knob, task.factor) for task in point_tasks(prober, tuple(KNOBS))]
    stated = [(point.knob, point.asked) for point in analysis.points]
    faults = []
    if stated != (settings if analysis.stopped is None else settings[: len(stated)]):
        faults.append(f"{WHERE}.points must be those of {settings}, but got {stated}")
    whole = len(stated) == len(settings)
    takeovers = [task.knob for task in takeover_tasks(analysis.today, analysis.points)] if whole else []
    knobs = [takeover.knob for takeover in analysis.takeovers]
    if knobs != (takeovers if analysis.stopped is None else takeovers[: len(knobs)]):
        faults.append(f"{WHERE}.takeovers must be for the knobs {takeovers}, but got {knobs}")
    return faults
