"""``--run-code`` of commands that read a result: whether the user's code that it names is run."""

from pathlib import Path

import click

from dse.results.result import read_result

run_code_option = click.option(
    "--run-code",
    is_flag=True,
    help="Run the Python files that the result names instead of using the graphs stored in it.",
)


def announce(path: Path) -> None:
    """Say which files the result in ``path`` names, before they are run."""
    for file in sorted({file.path for file in read_result(path).inputs.values() if file.path.endswith(".py")}):
        click.echo(f"running {file}", err=True)
