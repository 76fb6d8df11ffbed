"""What a pretraining run came to, for people: its scores, and how they went."""

from dse.report.chart import Axis, Line, PointChart, Points
from dse.report.palette import category
from dse.report.units import counted
from dse.report.view import Decisive, Heading, Part, Row, Table, View
from policies.learning.pretraining_run import PretrainingRun
from policies.learning.scores import Score

_SHOWN = 5
"""Checkpoints in the table of the terminal."""


def view_of(run: PretrainingRun, criterion: str, best: Score) -> View:
    """The checkpoints of a run by their scores, of which ``criterion`` chose the ``best``."""
    task, scores, names = run.plan.task, run.scores(), list(best.values)
    ranked = sorted(scores, key=lambda score: -score.mean(*task.criteria[criterion]))
    rows = [_row(score, names, is_chosen=score == best) for score in ranked]
    headers = ("checkpoint", "samples", *map(_hyphenated, names))
    left_out = run.left_out()
    chosen = ", ".join(f"{_hyphenated(name)} {best.mean(name):.4f}" for name in names)
    notes = [Decisive(f"left out of validation, because none of their samples can run: {', '.join(left_out)}")]

    def page() -> list[Part]:
        drawn: list[Part] = [_chart(scores, names, best, task.score_title)] if len(scores) > 1 else []
        return [*drawn, Heading("Checkpoints"), Table(headers, rows, task.score_title)]

    return View(
        title=f"{run.folder.name}: pretraining",
        verdict=f"{counted(len(scores), 'checkpoint')} scored; number {best.number} was chosen by "
        f"{_hyphenated(criterion)}: {chosen}",
        notes=notes if left_out else [],
        tables=[Table(headers, rows[:_SHOWN], task.score_title)],
        page=page,
    )


def _row(score: Score, names: list[str], *, is_chosen: bool) -> Row:
    number = f"{score.number}{' (chosen)' if is_chosen else ''}"
    return number, f"{score.samples:,}", *(f"{score.mean(name):.4f}" for name in names)


def _chart(scores: list[Score], names: list[str], best: Score, title: str) -> PointChart:
    """Every score by the samples learned from; that of the chosen checkpoint larger."""
    marks: list[Points | Line] = []
    for place, name in enumerate(names):
        x, y = [float(score.samples) for score in scores], [score.mean(name) for score in scores]
        texts = [f"checkpoint {score.number}: {value:.4f}" for score, value in zip(scores, y, strict=True)]
        sizes = [12.0 if score == best else 6.0 for score in scores]
        marks += [
            Line("", x, y, category(place)),
            Points(_hyphenated(name), x, y, category(place), texts, size=sizes),
        ]
    return PointChart(f"{title}, by samples", Axis("training samples"), Axis(title), marks)


def _hyphenated(name: str) -> str:
    return name.replace("_", "-")
