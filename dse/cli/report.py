"""``dse report``: rewrite the report of a finished run."""

from pathlib import Path

import click

from dse.cli.help import GroupedCommand
from dse.cli.run_code import announce, run_code_option
from dse.report.view import View
from dse.results.answer import Answer
from dse.results.check import posed_again
from dse.results.other_versions import told_of_other_versions
from dse.results.result import read_sealed
from dse.run.directory import REPORT_FILE, inside, result_file, write_bytes, write_text
from dse.run.tables import Tables
from hardware.inputs import fail

_EXAMPLES = (
    "dse report runs/wafer",
    "dse report runs/plan/result.json",
    "dse report runs/step --run-code",
)


@click.command("report", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--interactive",
    is_flag=True,
    help="Also write charts.html, with zoomable charts, and plotly.min.js, which it needs in the same directory.",
)
@run_code_option
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(run: Path, interactive: bool, run_code: bool) -> None:
    """Rewrite the report.html and the pictures of a run from its result and tables.

    RUN is a run directory (`--out DIR`) or the result.json in it.
    """
    path = result_file(run)
    if run_code:
        announce(path)
    directory = path.parent
    with told_of_other_versions(path):
        result = read_sealed(path)
        posed = posed_again(result, path, run_code=run_code)
        if posed.digest != result.problem.digest:
            raise fail(path, "problem.digest", "", f"{posed.name} has changed since this run")
    if result.objective.value is None:
        raise fail(path, "status", result.status, "a run without an answer has no report")
    tables = Tables(directory)
    answer = Answer(result, posed, tables)
    click.echo(str(write_text(directory / REPORT_FILE, answer.html())))
    for name, content in answer.pictures.items():
        click.echo(
            str(write_bytes(inside(directory, name), content if isinstance(content, bytes) else content.encode()))
        )
    if interactive:
        _write_charts(directory, answer.view)
    for table in sorted(tables.missing):
        click.echo(f"warning: {table} is missing; the page omits what is drawn from this table", err=True)


def _write_charts(directory: Path, view: View) -> None:
    from dse.report.interactive import CHARTS_FILE, PLOTLY_FILE, charts_page, plotly_script  # loads plotly

    text = charts_page(view)
    if text is None:
        click.echo("this report has no charts", err=True)
        return
    write_text(directory / PLOTLY_FILE, plotly_script())
    click.echo(str(write_text(directory / CHARTS_FILE, text)))
