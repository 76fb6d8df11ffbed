"""``dse report``: write the report of a finished run again."""

from pathlib import Path

import click

from dse.codesign.report.report import report
from dse.result import read_result
from dse.run_directory import REPORT_FILE, RESULT_FILE, write_text
from hardware.inputs import fail


@click.command("report")
@click.argument("directory", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write DIRECTORY/report.html from the result and the tables of a run."""
    result = read_result(directory / RESULT_FILE)
    if result.command != "codesign":
        raise fail(directory / RESULT_FILE, "command", result.command, "only codesign runs have a report")
    click.echo(str(write_text(directory / REPORT_FILE, report(result, directory))))
