"""``dse compare``: runs beside each other."""

import json
from pathlib import Path

import click

from dse.cli.terminal import console, print_table
from dse.results.compare import asked_rows, compare, comparison_document, found_rows, read_run, verdict


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN…")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON, alone on stdout.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(runs: tuple[Path, ...], as_json: bool) -> None:
    """Show what was asked differently in each RUN, and what came out differently.

    RUN is a run directory (`--out DIR`) or a result.json. All must be of one command and objective.
    """
    comparison = compare([read_run(path) for path in runs])
    if as_json:
        click.echo(json.dumps(comparison_document(comparison), indent=2, allow_nan=False))
        return
    for sentence in verdict(comparison):
        console().print(sentence, soft_wrap=True)
    if comparison.asked:
        print_table(("asked", *comparison.names), asked_rows(comparison))
    print_table(("found", *comparison.names), found_rows(comparison))
