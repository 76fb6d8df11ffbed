"""``dse models``: the built-in models, and the layers of one model."""

import json
from dataclasses import asdict

import click
from rich.text import Text

from dse.cli.help import GroupedCommand
from dse.cli.number_types import WholeNumber
from dse.cli.terminal import console, print_table, print_text
from dse.plan.model import Transformer
from dse.plan.model_sources import list_transformers, transformer
from dse.sources import describe
from dse.sources import workloads as library
from hardware.units import GIGA, TERA

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
    """List the built-in models, or show the parameters and FLOPs of MODEL.

    MODEL is a name, a YAML file of hyper-parameters (docs/examples/model.yaml), FILE.py:FUNCTION that returns a PyTorch
    module and example inputs, a config.json of transformers, or an ONNX file.
    """
    if model is not None and model in list_transformers():
        _show_transformer(transformer(model), sequence, as_json)
    elif model is not None:
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


def _show_transformer(model: Transformer, sequence: int | None, as_json: bool) -> None:
    """A model of training plans: its sizes, parameters and FLOPs."""
    tokens = sequence or model.sequence
    flops = model.flops_per_sample(tokens)
    described = {
        "name": model.name,
        "parameters": model.parameters,
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "sequence": tokens,
        "flops_per_sample": flops,
        "source": model.source,
    }
    if as_json:
        click.echo(json.dumps(described, indent=2, ensure_ascii=False))
        return
    print_text(Text.assemble((model.name, "bold"), f": {model.parameters / GIGA:,.2f} billion parameters"))
    rows = [
        ("layers", f"{model.layers:,}"),
        ("hidden width", f"{model.hidden:,}"),
        ("attention heads", f"{model.heads:,}"),
        ("parameters", f"{model.parameters:,}"),
        (f"training FLOPs, a sample of {tokens:,} tokens", f"{flops / TERA:,.2f} T"),
        ("source", model.source),
    ]
    print_table(("", ""), rows)
