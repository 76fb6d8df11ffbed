"""``dse convert``: a spec of an earlier version in the form of this one."""

from pathlib import Path

import click

from dse.cli.help import GroupedCommand
from dse.cli.terminal import print_text
from hardware.documents import yaml_of

_EXAMPLES = (
    "dse convert my-chip.yaml",
    "dse convert my-chip.yaml --out my-chip-1.yaml",
    "dse convert docs/examples/chip.yaml",
)


@click.command("convert", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the spec to FILE (default: print it)."
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(file: Path, out: Path | None) -> None:
    """Convert a chip spec of an earlier version to the current format, dse.chip/1.

    Values are unchanged, and renamed keys get their new names. Comments are lost.
    """
    from dse.run.directory import write_text
    from hardware.chip_spec import converted

    text = yaml_of(converted(file), sort_keys=False, allow_unicode=True, width=120)
    if out is None:
        click.echo(text, nl=False)
        return
    write_text(out, text)
    print_text(f"converted spec: {out}")
