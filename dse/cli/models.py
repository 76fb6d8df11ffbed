"""``dse models``: the built-in models, and the layers of one model."""

import json
from dataclasses import asdict

import click
from rich.text import Text

from dse.cli.help import GroupedCommand
from dse.cli.number_types import WholeNumber
from dse.cli.terminal import console, print_table
from dse.plan.model_sources import list_transformers
from dse.sources import describe
from dse.sources import workloads as library

_EXAMPLES = (
    "dse models",
    "dse models llama3-8b",
    "dse models docs/examples/model.py:vision_language",
)


@click.command("models", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print only the list, as JSON, on stdout.")
@click.option(
    "--sequence",
    type=WholeNumber(1, 10**7),
    metavar="N",
    help="Tokens per sample, for a config.json of transformers.",
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(model: str | None, as_json: bool, sequence: int | None) -> None:
    """List the built-in models, or the layers of MODEL.

    MODEL is a built-in name, a YAML file of hyper-parameters (docs/examples/model.yaml), FILE.py:FUNCTION that returns
    a PyTorch module and example inputs, a config.json of transformers, or an ONNX file.
    """
    if model is not None:
        described = describe.describe_layers(library.workload(model, sequence))
        if as_json:
            click.echo(json.dumps(described, indent=2, ensure_ascii=False))
            return
        widths = " ".join(map(str, described["tensor_parallel"]))
        longest = (
            " (at the sizes of its config: --sequence states another length)"
            if model.endswith(".json") and sequence is None
            else ""
        )
        counted = describe.counted_parameters(described)
        heading = Text.assemble((described["name"], "bold"), f": {counted}, widths {widths}{longest}")
        console().print(heading, soft_wrap=True)
        print_table(describe.LAYER_HEADERS, describe.layer_rows(described))
        if described["unpriced"]:
            print_table(describe.UNPRICED_HEADERS, describe.unpriced_rows(described["unpriced"]))
    elif as_json:
        models = [asdict(describe.describe_model(library.model(name))) for name in library.list_models()]
        click.echo(json.dumps(models, indent=2, ensure_ascii=False))
    else:
        print_table(describe.HEADERS, describe.describe())
        others = ", ".join(list_transformers())
        console().print(f"dse predict and dse plan also know {others}.", soft_wrap=True, style="dim")
