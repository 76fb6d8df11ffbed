"""Several answers of one command that differ in one option, such as the chip, in one table."""

from pathlib import Path
from typing import Any

from dse.cli.terminal import print_table, print_text
from dse.problem import ProblemType
from dse.results.answer import Answer


def values_of(problem: ProblemType[Any, Any], given: dict[str, Any]) -> tuple[str, ...]:
    """The values of the option that may be a list, where a list was given; else none."""
    stated = given.get(problem.side_by_side) if problem.side_by_side else None
    values = tuple(dict.fromkeys(part.strip() for part in stated.split(","))) if isinstance(stated, str) else ()
    return values if len(values) > 1 else ()


def folder_of(out: Path | None, value: str) -> Path | None:
    """Where the run of one value is saved: a directory of its own in ``out``."""
    return None if out is None else out / Path(value).stem


def print_side_by_side(problem: ProblemType[Any, Any], answers: dict[str, Answer]) -> None:
    """Print which answer is best, and a row for each, best first; infeasible ones last."""
    order = sorted(answers, key=lambda value: _rank(answers[value]))
    best = answers[order[0]]
    if best.value is None:
        print_text(f"{best.result.problem.name}: nothing fits on any of {', '.join(order)}")
    else:
        print_text(f"{best.result.problem.name} is best: {best.view.verdict}")
    rows = [(value, *problem.side_by_side_row(answers[value].result, answers[value].posed)) for value in order]
    print_table(problem.side_by_side_headers, rows)
    for note in problem.side_by_side_notes([answer.posed for answer in answers.values()]):
        print_text(note)


def _rank(answer: Answer) -> tuple[bool, float]:
    value = answer.value
    if value is None:
        return True, 0.0
    return False, value if answer.result.objective.sense == "min" else -value


def exit_code_of(answers: dict[str, Answer]) -> int:
    """0 where any is answered, else that of the first."""
    codes = [answer.result.exit_code for answer in answers.values()]
    return 0 if 0 in codes else codes[0]
