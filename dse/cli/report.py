"""``dse report``: write the report of a finished run again."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from dse.results.result import Result, digest, document_of, read_result
from dse.run.directory import REPORT_FILE, RESULT_FILE, write_text
from hardware.inputs import choose, fail


@click.command("report")
@click.argument("directory", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write DIRECTORY/report.html from the result and the tables of a run."""
    path = directory / RESULT_FILE
    result = read_result(path)
    choose(str(path), "command", result.command, _REPORTS, "command whose runs have a report")
    click.echo(str(write_text(directory / REPORT_FILE, _REPORTS[result.command](result, directory))))


def _codesign(result: Result, directory: Path) -> str:
    from dse.codesign.report.report import report

    return report(result, directory)


def _partition(result: Result, directory: Path) -> str:
    from dse.partition.formats import partition_from_document
    from dse.partition.options import PartitionOptions, question_of
    from dse.partition.report import report

    options = PartitionOptions.from_document(*_settings(result, directory))
    problem = question_of(options).problem
    _refuse_another(digest(problem.document()), options.source, result, directory)
    return report(problem, result, partition_from_document(problem, result.solution, directory / RESULT_FILE))


def _wafer(result: Result, directory: Path) -> str:
    from dse.wafer.files.kept import page
    from dse.wafer.options import WaferOptions

    options = WaferOptions.from_document(*_settings(result, directory))
    problem = options.problem()
    _refuse_another(digest(document_of(problem)), options.case, result, directory)
    return page(problem, result)


def _settings(result: Result, directory: Path) -> tuple[Any, Path, str]:
    """The options of a result that has an answer, and where they stand.

    Raises:
        InputError: it has none.
    """
    path = directory / RESULT_FILE
    if result.objective.value is None:
        raise fail(path, "status", result.status, "a run without an answer has no report")
    return result.metrics.get("settings"), path, "metrics.settings"


def _refuse_another(found: str, name: str, result: Result, directory: Path) -> None:
    """InputError where the problem that is read again is not the one that was answered."""
    if found != result.problem.digest:
        raise fail(directory / RESULT_FILE, "problem.digest", "", f"{name} has changed since this run")


_REPORTS: Mapping[str, Callable[[Result, Path], str]] = MappingProxyType(
    {"codesign": _codesign, "partition": _partition, "wafer": _wafer}
)
