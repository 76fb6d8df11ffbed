"""``dse compare``: several runs side by side."""

import json
from pathlib import Path

import click

from dse.cli.help import GroupedCommand
from dse.cli.problem_command import print_view
from dse.cli.terminal import print_text
from dse.report.render import page
from dse.results.compare import compare, comparison_document, read_run, view_of
from dse.run.directory import write_text

_EXAMPLES = (
    "dse compare runs/mine runs/theirs",
    "dse compare runs/a/result.json runs/b runs/c",
    "dse compare runs/mine runs/theirs --out compared.html",
)


@click.command("compare", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN…")
@click.option("--json", "as_json", is_flag=True, help="Print only the comparison, as JSON, on stdout.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.html", help="Write the comparison as a page.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(runs: tuple[Path, ...], as_json: bool, out: Path | None) -> None:
    """Show the options and the outcomes in which two or more runs differ.

    Each RUN is a run directory (`--out DIR`) or a result.json. All must have the same command and objective.
    """
    comparison = compare([read_run(path) for path in runs])
    view = view_of(comparison)
    if out is not None:
        footer = " · ".join(
            f"{name}: {run.result.provenance}" for name, run in zip(comparison.names, comparison.runs, strict=True)
        )
        write_text(out, page(view, footer))
    if as_json:
        click.echo(json.dumps(comparison_document(comparison), indent=2, allow_nan=False))
        return
    print_view(view, "", whole=True)
    if out is not None:
        print_text(f"in {out}")
