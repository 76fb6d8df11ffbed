"""Several answers of one command that differ in one option, such as the chip, in one table."""

from pathlib import Path
from typing import Any

from dse.cli.exit_codes import EXIT_INTERRUPTED
from dse.cli.terminal import print_table, print_text
from dse.problem import ProblemType
from dse.results.answer import Answer
from hardware.inputs import fail


def values_of(problem: ProblemType[Any, Any], given: dict[str, Any]) -> tuple[str, ...]:
    """The values of the option that may be a list, where a list was given; else none.

    Raises:
        InputError: two files of one name.
    """
    stated = given.get(problem.side_by_side) if problem.side_by_side else None
    values = tuple(dict.fromkeys(part.strip() for part in stated.split(","))) if isinstance(stated, str) else ()
    if len(values) < 2:
        return ()
    owners: dict[str, str] = {}
    for value in values:
        if (other := owners.setdefault(name_of(value), value)) != value:
            rule = f"must have a different file name than {other}, because run directories are named after the files"
            raise fail("", f"--{problem.side_by_side}", value, rule)
    return values


def name_of(value: str) -> str:
    """The name of a value's run directory in that of all."""
    return Path(value).stem


def print_side_by_side(problem: ProblemType[Any, Any], answers: dict[str, Answer]) -> None:
    """Print which answer is best, and a row for each, best first; infeasible ones last."""
    order = sorted(answers, key=lambda value: _rank(answers[value]))
    best = answers[order[0]]
    if best.value is None:
        print_text(f"{best.result.problem.name}: nothing fits on any of {', '.join(order)}")
    else:
        names = {answer.result.problem.name for answer in answers.values()}
        subject = f"{order[0]} is best for {names.pop()}" if len(names) == 1 else f"{best.result.problem.name} is best"
        print_text(f"{subject}: {best.view.verdict}")
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
    """That of an interrupt where one ended any of them; else 0 where any is answered; else that of the first."""
    codes = [answer.result.exit_code for answer in answers.values()]
    return next((code for code in (EXIT_INTERRUPTED, 0) if code in codes), codes[0])
