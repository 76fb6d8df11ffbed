"""The rows of a table of plans: which problem each poses, and what it fixes of a plan."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dse.plan.options import TrainingOptions, posed_problem
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import ALIASES, KEYS, SETTINGS, read_plan
from hardware.documents import text_of
from hardware.inputs import InputError, fail, nearest, shown
from hardware.number_text import number_of, whole_number_of

TEXTS = ("model", "on", "network", "stack")
NUMBERS = ("accelerators", "global_batch", "sequence")
AMOUNTS = ("headroom",)
OPTION_COLUMNS = (*TEXTS, *NUMBERS, *AMOUNTS)
"""Columns that stand for an option of the command, of this row alone; the others are keys of a plan."""

_OTHER_NAMES = {
    "gbs": "global_batch", "global_batch_size": "global_batch", "seq_len": "sequence", "seqlen": "sequence",
    "seq_length": "sequence", "chip": "on", "devices": "accelerators", "gpus": "accelerators",
}  # fmt: skip


@dataclass(frozen=True)
class PlanRow:
    """A row that poses a problem.

    Attributes:
        line: of the file, the header being line 1.
        problem: with the settings of the row fixed, and nothing else.
        fixed: the keys of the plan that the row, and else ``--plan``, gives.
    """

    line: int
    problem: PlanProblem
    fixed: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """A row that cannot be priced, and the rule that it breaks."""

    line: int
    rule: str


def read_rows(options: TrainingOptions) -> Iterator[PlanRow | Refused]:
    """The rows of ``options.batch``, in their order.

    Raises:
        InputError: the file cannot be read, has no header or no row, an unknown column, or a row with more or fewer
            cells than columns.
    """
    path, shared = str(options.batch), read_plan(options.plan)
    read: dict[tuple[str, str], Any] = {}
    problems: dict[tuple[tuple[str, Any], ...], PlanProblem | str] = {}
    for line, cells in _cells(path):
        values: dict[str, Any] = {}
        rule = ""
        for column, text in cells:
            if (column, text) not in read:
                read[column, text] = _value(column, text)
            value = read[column, text]
            if isinstance(value, _Fault):
                rule = rule or value.rule
            else:
                values[column] = value
        if rule:
            yield Refused(line, rule)
            continue
        own = tuple((column, values[column]) for column in OPTION_COLUMNS if column in values)
        fixed = {**shared, **{column: value for column, value in values.items() if column not in OPTION_COLUMNS}}
        settings = tuple((key, fixed[key]) for key in SETTINGS if key in fixed)
        if own + settings not in problems:
            problems[own + settings] = _problem(options, dict(own), dict(settings))
        problem = problems[own + settings]
        yield Refused(line, problem) if isinstance(problem, str) else PlanRow(line, problem, fixed)


@dataclass(frozen=True)
class _Fault:
    """What is wrong with a cell."""

    rule: str


def _cells(path: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """(line, [(column, text)]) of every row; empty cells are left out."""
    reader = csv.reader(text_of(path).splitlines(), strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        columns = [_column(name) for name in names]
        _require_columns(path, names, columns)
        count = 0
        for cells in reader:
            if not any(cells):
                continue
            if len(cells) != len(columns):
                rule = f"must have {len(columns)} cells, one for each column, but has {len(cells)}"
                raise fail(path, f"line {reader.line_num}", "", rule)
            count += 1
            stripped = ((column, text.strip()) for column, text in zip(columns, cells, strict=True))
            yield reader.line_num, [(column, text) for column, text in stripped if text]
    except csv.Error as error:
        raise fail(path, f"line {reader.line_num}", "", f"is not valid CSV: {error}") from error
    if not count:
        raise fail(path, "", "", "must have a line of column names and at least one row")


def _column(name: str) -> str:
    """What a column is called here, of the names that others have for it."""
    word = name.lower().replace("-", "_").replace(" ", "_")
    return ALIASES.get(word, _OTHER_NAMES.get(word, word))


def _require_columns(path: str, names: list[str], columns: list[str]) -> None:
    known = (*OPTION_COLUMNS, *KEYS)
    for name, column in zip(names, columns, strict=True):
        if column not in known:
            rule = f"is not a column of a table of plans, whose columns are {', '.join(known)}"
            raise fail(path, "line 1", name, rule, nearest(column, known))
        if columns.count(column) > 1:
            raise fail(path, "line 1", name, "the column is given twice")


def _value(column: str, text: str) -> Any:
    """A cell as its column has it, or its fault."""
    if column in TEXTS:
        return text
    if column in NUMBERS:
        try:
            return whole_number_of(text)
        except ValueError:
            return _Fault(f"{column}: {shown(text)}: must be a whole number")
    if column in AMOUNTS:
        try:
            return float(number_of(text))
        except ValueError:
            return _Fault(f"{column}: {shown(text)}: must be a number")
    if "," in text or "." in text:  # several keys, and a file, to :func:`read_plan`
        return _Fault(f"{column}: {shown(text)}: must be one value of this key")
    try:
        return read_plan(f"{column}={text}")[column]
    except InputError as error:
        return _Fault(words(error))


def _problem(options: TrainingOptions, own: dict[str, Any], settings: dict[str, Any]) -> PlanProblem | str:
    """The problem of rows with these options and settings, or what is wrong with them."""
    precision = settings.pop("precision", options.precision)
    if not (own.get("model") or options.model):
        return "model: must be given in this row, or as MODEL of the command"
    try:
        posed = posed_problem(replace(options, **own, precision=precision, plan="", batch=None))
    except InputError as error:
        return words(error)
    problem = posed.problem
    return replace(problem, fixed=tuple(sorted({"precision": problem.precision, **settings}.items())))


def words(error: InputError) -> str:
    """Faults on one line, without the option that they are said of."""
    return "; ".join(str(replace(fault, file="" if fault.file == "--plan" else fault.file)) for fault in error.faults)
