"""``dse check``: recompute a result from its input."""

import json
import sys
from pathlib import Path

import click

from dse.cli.help import GroupedCommand
from dse.cli.run_code import announce, run_code_option
from dse.results.check import checked
from dse.run.directory import result_file

_EXAMPLES = (
    "dse check runs/wafer",
    "dse check runs/plan/result.json --json",
    "dse check runs/step --run-code",
)


@click.command("check", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("input", required=False)
@run_code_option
@click.option("--prove", is_flag=True, help="Also repeat proofs that may take as long as the search did.")
@click.option("--json", "as_json", is_flag=True, help="Print violations and unchecked entries as JSON on stdout.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(result: Path, input: str | None, run_code: bool, prove: bool, as_json: bool) -> None:  # noqa: A002 (the contract's name)
    """Recompute RESULT from its input and print `ok` or every violation.

    RESULT is a run directory (`--out DIR`) or a result.json.

    INPUT replaces the input that is stored in the result (the file or name that was solved).

    Entries that are not checked are listed on stderr; with --prove, there are fewer.

    The graph of a FILE.py:FUNCTION is taken from the result, and the file is not run.
    """
    file = result_file(result)
    if run_code:
        announce(file)
    violations, left_open = checked(file, input, run_code, prove)
    if as_json:
        unchecked = [{"keys": entry.keys, "reason": entry.reason} for entry in left_open]
        click.echo(json.dumps({"violations": violations, "not_checked": unchecked}, indent=2))
        sys.exit(1 if violations else 0)
    for violation in violations:
        click.echo(f"violation: {file}: {violation}")
    if violations:
        sys.exit(1)
    click.echo("ok")
    for entry in left_open:
        click.echo(f"not checked: {entry}", err=True)
