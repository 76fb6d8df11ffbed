"""``dse models``: the built-in models."""

import json
from dataclasses import asdict

import click

from dse.cli.terminal import print_table
from dse.models import list_models, model
from dse.models.describe import HEADERS, describe, describe_model


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the built-in models; a YAML file of hyper-parameters adds your own (docs/example-model.yaml)."""
    if as_json:
        described = [asdict(describe_model(model(name))) for name in list_models()]
        click.echo(json.dumps(described, indent=2, ensure_ascii=False))
    else:
        print_table(HEADERS, describe())
