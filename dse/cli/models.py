"""``dse models``: the built-in models, and the layers of one model."""

import json
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from dse.cli.help import GroupedCommand
from dse.cli.number_types import WholeNumber
from dse.cli.terminal import print_list, print_table, print_text
from dse.problem import registered
from dse.sources import catalogue, describe
from dse.sources import workloads as library
from dse.sources.models import described

_EXAMPLES = (
    "dse models",
    "dse models llama3-8b",
    "dse models tests/data/hlo/vgg-tiny.hlo",
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

    MODEL is anything that another command accepts: a name, a YAML file of hyper-parameters (docs/examples/model.yaml),
    FILE.py:FUNCTION, a config.json of transformers, an ONNX file, a training step as HLO or StableHLO, a .kgraph file,
    or a graph of layers or operators.
    """
    if model is not None:
        _show(model, sequence, as_json)
    elif as_json:
        models = [asdict(describe.describe_model(library.model(name))) for name in library.list_models()]
        click.echo(json.dumps(models, indent=2, ensure_ascii=False))
    else:
        print_table(describe.HEADERS, describe.describe())
        _list_others()


def _list_others() -> None:
    """What single commands take beside these models: names, and files in formats of their own."""
    names: dict[tuple[str, ...], list[str]] = {}
    files = []
    for problem in (each.load() for each in registered().values()):
        for form in problem.models:
            if form.names:
                names.setdefault(form.names, []).append(problem.Options.command())
            else:
                files.append((problem.Options.command(), form.description))
    for listed, commands in names.items():
        print_list(f"for {' and '.join(commands)}", listed)
    print_list("for dse partition, dse fabric place and (convolutions) dse wafer", catalogue.names())
    print_table(("command", "files in its own formats"), files)


def _show(model: str, sequence: int | None, as_json: bool) -> None:
    found = described(model, sequence, [each.load for each in registered().values()])
    document: dict[str, Any] = found.document() if isinstance(found, describe.ModelSummary) else found
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif isinstance(found, describe.ModelSummary):
        print_text(Text.assemble((found.name, "bold"), f": {found.headline}"))
        if found.parts:
            print_table(*found.table())
        if found.facts:
            print_table(("", ""), describe.fact_rows(found.facts))
    else:
        _show_layers(model, sequence, document)


def _show_layers(model: str, sequence: int | None, described: dict[str, Any]) -> None:
    """A model that trains, layer by layer."""
    widths = " ".join(map(str, described["tensor_parallel"]))
    longest = (
        " (at the sizes in its config; --sequence sets another length)"
        if model.endswith(".json") and sequence is None
        else ""
    )
    counted = describe.counted_parameters(described)
    work = f"{describe.flops_text(described['flops_per_sample'])} per training sample"
    print_text(Text.assemble((described["name"], "bold"), f": {counted}, {work}, widths {widths}{longest}"))
    print_table(describe.LAYER_HEADERS, describe.layer_rows(described))
    if described["unpriced"]:
        print_table(describe.UNPRICED_HEADERS, describe.unpriced_rows(described["unpriced"]))
