"""Figures 16 and 17: how the paper's Q-network converges on T5-base, at a small budget, next to the proven optimum.

Training comes from above, where the extra ``learn`` is installed (:class:`Learned`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from dse.reproduce.automap.pipelines import PipelineTrial
from dse.reproduce.automap.published import read_published
from dse.reproduce.automap.study import Study, Trial
from dse.reproduce.section import Chart, Comparison, Row, Section, Series, Table
from dse.reproduce.trials import finished
from dse.results.result import percent

CURVE_TITLES = {
    "figure16": "Figure 16: convergence of operator partitioning on T5-base",
    "figure17": "Figure 17: convergence of pipelines on T5-base, by online training",
}

STEP = "t5-base"

WINDOW = 5
"""Rounds over which scores are averaged: the paper smooths them too."""


class CurveTrial(NamedTuple):
    """A training: of operator plans of ``operators``, or of pipelines of ``pipelines``; the other one is None."""

    operators: Trial | None
    pipelines: PipelineTrial | None
    rounds: int
    seed: int


@dataclass(frozen=True)
class Curve:
    """A training.

    Attributes:
        scores: the mean of each round's episodes, as the paper scores them.
        losses: of each round's updates; None of rounds without any.
        best: dimensions split, or seconds of a batch, of the best plan; None without one.
        episodes: in all.
    """

    scores: tuple[float, ...]
    losses: tuple[float | None, ...]
    best: float | None
    episodes: int


@dataclass(frozen=True)
class Learned:
    """Training, from outside.

    Attributes:
        curve: of a trial, in JSON types as :class:`Curve` has them.
        contest: of a :class:`~dse.reproduce.automap.contest.ContestTrial` an
            :class:`~dse.reproduce.automap.contest.Entry` of each method, by name, in JSON types; of an operator trial
            also of ``exact``.
        identity: what decides it, as JSON types.
    """

    curve: Callable[[CurveTrial], dict[str, Any]]
    contest: Callable[[Any], dict[str, Any]]
    identity: Any


def operator_curve(study: Study, learned: Learned, rounds: int) -> Section:
    """Figure 16."""
    if sum(axis.size > 1 for axis in study.mesh.axes) != 1:
        reason = "the network needs exactly one --mesh axis with more than one device"
        return Section("figure16", CURVE_TITLES["figure16"], (), (reason,), skipped=reason)
    trial = Trial(STEP, "count", study.machine, study.run.seed)
    curve = _made(study, learned, CurveTrial(trial, None, rounds, study.run.seed))
    optimum = study.outcomes(("count",), (STEP,))[STEP, "count"].best
    best_text = "–" if curve.best is None else f"{curve.best:.0f}"
    row = (best_text, "–" if optimum is None else str(optimum.split_dimensions), "111")
    printed = float(read_published().models["T5-base"].counts.found)
    unlike = "the paper splits fewer dimensions than its reward favours"
    comparison = Comparison(STEP, "count", "split dimensions, learned", "", curve.best, printed, unlike)
    note = "The proven plan maximises the paper's reward and splits more dimensions than the paper's plan: see Table 5."
    return _section("figure16", curve, ("split dimensions", "proven maximum", "paper"), row, comparison, note)


def pipeline_curve(study: Study, learned: Learned, rounds: int) -> Section:
    """Figure 17, on configuration C."""
    trial = PipelineTrial(STEP, "C", "length", "near", study.machine.accelerator, study.machine.network)
    curve = _made(study, learned, CurveTrial(None, trial, rounds, study.run.seed))
    optimum = study.pipelines(("length",), (STEP,), ("C",))[STEP, "C"]["length"].best.length_s
    gap = None if curve.best is None else curve.best / optimum - 1
    row = (
        "–" if curve.best is None else f"{1e3 * curve.best:.4g} ms",
        f"{1e3 * optimum:.4g} ms",
        "–" if gap is None else percent(max(0.0, gap)),
    )
    comparison = Comparison(STEP, "C", "batch time, learned", "s", curve.best, None)
    note = (
        "As in the paper, the pivots determine the devices of stages by compute time; the proven pipeline has free "
        "device "
        "cuts. dse parallel --method dqn decides both and improves the result by local search."
    )
    return _section("figure17", curve, ("learned", "proven optimum", "excess"), row, comparison, note)


def _made(study: Study, learned: Learned, trial: CurveTrial) -> Curve:
    kind: Literal["operators", "pipelines"] = "operators" if trial.operators is not None else "pipelines"
    values, failed = finished(study.run, "curves", learned.curve, {trial: f"curve {kind} {trial.rounds} {trial.seed}"})
    if failed:
        raise RuntimeError("; ".join(failed.values()))
    of = values[trial]
    return Curve(tuple(of["scores"]), tuple(of["losses"]), of["best"], of["episodes"])


def _section(part: str, curve: Curve, headers: Row, row: Row, comparison: Comparison, note: str) -> Section:
    rounds = tuple(float(number + 1) for number in range(len(curve.scores)))
    smooth = smoothed(curve.scores)
    charts = (
        Chart("lines", "Score", "round", "mean per episode", (Series("score", rounds, smooth),)),
        Chart("lines", "Loss", "round", "Q-network loss", (Series("loss", rounds, curve.losses),)),
    )
    table = Table(
        ("rounds", "episodes", "first score", "last score", *headers),
        ((str(len(rounds)), f"{curve.episodes:,}", f"{smooth[0]:.3g}", f"{smooth[-1]:.3g}", *row),),
    )
    notes = (
        f"Scores are means over {WINDOW} rounds. The paper shows curves without numbers: its loss falls fast, and its "
        "scores rise with large jitter. Ours: one seed and a small budget (--rounds); see benchmarks.parallel_dqn.",
        note,
    )
    return Section(part, CURVE_TITLES[part], (table,), notes, (comparison,), charts)


def smoothed(scores: Sequence[float]) -> tuple[float, ...]:
    """The mean of each and the rounds before it, :data:`WINDOW` at most."""
    return tuple(float(np.mean(scores[max(0, end - WINDOW) : end])) for end in range(1, len(scores) + 1))
