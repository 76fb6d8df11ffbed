"""``dse models``: the built-in models."""

import json

import click

from dse.cli.terminal import print_table
from dse.models.describe import HEADERS, describe


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the built-in models; a YAML file of hyper-parameters adds your own (docs/example-model.yaml)."""
    rows = describe()
    if as_json:
        click.echo(json.dumps([dict(zip(HEADERS, row, strict=True)) for row in rows], indent=2))
    else:
        print_table(HEADERS, rows)
