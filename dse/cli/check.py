"""``dse check``: recompute a result from its input."""

import sys
from pathlib import Path

import click

from dse.results.check import check_result
from dse.run.directory import result_file


@click.command("check")
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("input", required=False)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(result: Path, input: str | None) -> None:  # noqa: A002 (the contract's name)
    """Recompute RESULT from its input and print `ok` or every violation.

    RESULT is a run directory (`--out DIR`) or a result.json.

    INPUT replaces the input that is stored in the result: the file or name that was solved.
    """
    file = result_file(result)
    violations = check_result(file, input)
    for violation in violations:
        click.echo(f"violation: {file}: {violation}")
    if violations:
        sys.exit(1)
    click.echo("ok")
