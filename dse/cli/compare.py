"""``dse compare``: several runs side by side."""

import json
from pathlib import Path

import click

from dse.cli.help import GroupedCommand
from dse.cli.terminal import print_table, print_text
from dse.results.compare import compare, comparison_document, option_rows, outcome_rows, read_run, verdict

_EXAMPLES = (
    "dse compare runs/mine runs/theirs",
    "dse compare runs/a/result.json runs/b runs/c",
    "dse compare runs/mine runs/theirs --json",
)


@click.command("compare", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN…")
@click.option("--json", "as_json", is_flag=True, help="Print only the comparison, as JSON, on stdout.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(runs: tuple[Path, ...], as_json: bool) -> None:
    """Show the options and the outcomes in which two or more runs differ.

    Each RUN is a run directory (`--out DIR`) or a result.json. All must have the same command and objective.
    """
    comparison = compare([read_run(path) for path in runs])
    if as_json:
        click.echo(json.dumps(comparison_document(comparison), indent=2, allow_nan=False))
        return
    for sentence in verdict(comparison):
        print_text(sentence)
    if comparison.options:
        print_table(("option", *comparison.names), option_rows(comparison))
    print_table(("outcome", *comparison.names), outcome_rows(comparison))
