"""``dse chip``: one chip as every command sees it: rates, ridge points, times of kernels, memory, links, cores."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dse.cli.help import GroupedCommand
from dse.cli.terminal import print_table, print_text, print_view_table
from dse.report.chip_kernels import (
    KERNEL_HEADERS,
    TEMPLATE_HEADERS,
    ShownKernel,
    beside_template,
    representative_kernels,
)
from dse.report.chip_silicon import (
    PricedChip,
    figure_text,
    priced_chip,
    silicon_document,
    silicon_notes,
    silicon_solution,
    silicon_tables,
)
from hardware.chips import Chip, chip
from hardware.inputs import fail
from hardware.kernel_model import kernel_model
from hardware.machines import Machines
from hardware.network import Network
from hardware.network_specs import network
from hardware.silicon.chips import silicon
from hardware.specs import accelerator, has_cores
from hardware.units import GIGA, MIB, TERA, gib_from_bytes

_EXAMPLES = (
    "dse chip h100-sxm",
    "dse chip docs/examples/chip-2026.yaml --out chip.html",
    "dse chip a100-sxm --as-template",
)

_PAGES = (".svg", ".html")

Row = tuple[str, str]


@click.command("chip", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("name", metavar="NAME|FILE")
@click.option(
    "--as-template", is_flag=True, help="Show a real chip with known cores next to the template with the same cores."
)
@click.option("--json", "as_json", is_flag=True, help="Print only the values, as JSON, on stdout.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a roofline chart to FILE.svg, or a page with floorplan, cost and sources to FILE.html.",
)
@click.option(
    "--accelforge",
    type=click.Path(path_type=Path),
    metavar="FILE.yaml",
    help="Write a template as an architecture of AccelForge to FILE.yaml.",
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(name: str, as_template: bool, as_json: bool, out: Path | None, accelforge: Path | None) -> None:
    """Show a chip: its peak rates by format, ridge points, times of typical kernels, memory, links, power and cores.

    Where the spec says what its dies are made of, also its area by block, power under its limit, yield, bill of
    materials, dollars an hour and carbon, each with an interval. Each time is marked as measured, fitted, derated or
    ideal. NAME is a chip from `dse specs` or its system, and FILE is your own YAML file. `dse specs NAME` shows the
    source of each value.
    """
    if out is not None and out.suffix not in _PAGES:
        raise fail("", "--out", str(out), "must be FILE.svg or FILE.html")
    shown = chip(name)
    package = silicon(name)
    priced = None if package is None else priced_chip(shown.title, package)
    if priced is None and out is not None and out.suffix == ".html":
        rule = "must be FILE.svg: the spec has no dies and no template of style systolic, simt or tile"
        raise fail("", "--out", str(out), rule)
    machines = accelerator(name).machines if has_cores(name) else None
    cores = None if machines is None else _cores(machines, priced)
    kernels = representative_kernels(kernel_model(name))
    taken = _as_template(name, shown) if as_template else None
    if accelforge is not None:
        _write_accelforge(accelforge, name, shown, machines)
    if as_json:
        click.echo(json.dumps(_document(shown, priced, cores, kernels, taken), indent=2, ensure_ascii=False))
    else:
        rates = dict(shown.rates)
        usual = next((each for each in ("bf16", "fp16") if each in rates), max(rates, key=rates.__getitem__))
        print_text(
            f"{shown.title}: {rates[usual] / TERA:,.4g} Tflop/s in {usual}, {gib_from_bytes(shown.hbm_bytes):g} GiB of "
            f"memory at {shown.hbm_bytes_per_s / GIGA:,.0f} GB/s"
        )
        print_table(("format", "peak Tflop/s", "ridge point, FLOP/byte"), _rates(shown))
        if taken is None:
            print_table(KERNEL_HEADERS, [each.row() for each in kernels])
        else:
            print_table(TEMPLATE_HEADERS, beside_template(kernels, *taken))
        print_table(("", ""), list(_parts(shown, machines, cores)))
        for table in [] if priced is None else silicon_tables(priced):
            print_view_table(table)
        for note in (*shown.notes, *([] if priced is None else silicon_notes(priced))):
            print_text(note)
    if out is None:
        return
    if priced is not None and out.suffix == ".html":
        _write_page(out, name, shown, priced)
    else:
        from dse.report.chart_svg import picture_svg
        from dse.report.roofline import roofline_chart
        from dse.run.directory import write_text

        title = f"{shown.title}: products are bound by memory left of the ridge points"
        write_text(out, picture_svg(roofline_chart(title, dict(shown.rates), shown.hbm_bytes_per_s)))
        if not as_json:
            print_text(f"roofline: {out}")


def _write_page(path: Path, name: str, shown: Chip, priced: PricedChip) -> None:
    from dse.report.chip_silicon import silicon_view
    from dse.report.render import page
    from dse.report.roofline import roofline_chart
    from dse.run.directory import write_text

    title = f"{shown.title}: products are bound by memory left of the ridge points"
    roofline = roofline_chart(title, dict(shown.rates), shown.hbm_bytes_per_s)
    write_text(path, page(silicon_view(priced, [roofline]), f"dse chip {name}"))


def _write_accelforge(path: Path, name: str, shown: Chip, machines: Machines | None) -> None:
    """InputError unless the chip is a template."""
    from dse.run.directory import write_text
    from hardware.accelforge import accelforge_yaml

    if machines is None or not shown.is_template:
        raise fail("", "--accelforge", name, "must be a template, whose cores AccelForge can map to")
    write_text(path, accelforge_yaml(machines, shown.hbm_bytes, shown.title))


def _as_template(name: str, shown: Chip) -> tuple[list[ShownKernel], list[ShownKernel]]:
    """The kernels on the template with the cores of the chip, derated and ideal.

    Raises:
        InputError: the chip is a template, or its cores are not known.
    """
    if shown.is_template:
        raise fail("", "--as-template", name, "must be a real chip, but is already a template")
    derated, ideal = (
        representative_kernels(kernel_model(name, as_template=True, ideal=is_ideal)) for is_ideal in (False, True)
    )
    return derated, ideal


def _rates(shown: Chip) -> list[tuple[str, str, str]]:
    return [
        (each, f"{rate / TERA:,.4g}", f"{rate / shown.hbm_bytes_per_s:,.0f}")
        for each, rate in sorted(shown.rates, key=lambda each: each[1])
    ]


def _cores(machines: Machines, priced: PricedChip | None) -> str:
    """The cores in one line; an area that is an estimate has its interval."""
    is_estimate = priced is not None and machines.area_mm2[0] == priced.area.value
    return machines.describe(0, f"{figure_text(priced.area)} mm²" if is_estimate and priced is not None else None)


def _parts(shown: Chip, machines: Machines | None, cores: str | None) -> Iterator[Row]:
    yield "system", shown.network
    for level, group in _levels(network(shown.network)):
        yield "link", _link_text(level, group)
    if shown.tdp_w is not None:
        yield "power limit", f"{shown.tdp_w:,g} W"
    if machines is not None and cores is not None:
        yield "cores", cores
        yield "clock", f"{machines.clock_hz / GIGA:g} GHz"
        yield "L2 of a core", f"{machines.tensor_l2_bytes[0] / MIB:g} MiB"
    timed = [key for key in type(shown.sustained).model_fields if getattr(shown.sustained, key)]
    yield "timed shares", f"{', '.join(timed)} (on {shown.timed_on})" if timed else "none"


def _levels(joined: Network, group: int = 0) -> Iterator[tuple[Network, int]]:
    """The network's levels, innermost first, each with the chips that one of its groups has; 0 for any number."""
    if joined.inner is not None:
        yield from _levels(joined.inner, joined.inner_accelerators)
    yield joined, group


def _link_text(level: Network, group: int) -> str:
    inside = f"among {group} chips" if group else "among all chips"
    reach = inside if level.inner is None else f"between groups of {level.inner_accelerators}"
    return f"{level.name}: {level.accelerator_bytes_per_s / GIGA:,.4g} GB/s per chip each way, {reach}"


def _document(
    shown: Chip,
    priced: PricedChip | None,
    cores: str | None,
    kernels: list[ShownKernel],
    taken: tuple[list[ShownKernel], list[ShownKernel]] | None,
) -> dict[str, Any]:
    beside = {} if taken is None else dict(zip(("template", "ideal_template"), taken, strict=True))
    return {
        "name": shown.name,
        "title": shown.title,
        "solution": {
            "peak_flops": dict(shown.rates),
            "ridge_flops_per_byte": {each: rate / shown.hbm_bytes_per_s for each, rate in shown.rates},
            "memory": {"bytes": shown.hbm_bytes, "bytes_per_s": shown.hbm_bytes_per_s},
            "link": [
                {"network": level.name, "bytes_per_s": level.accelerator_bytes_per_s, "chips": group or None}
                for level, group in _levels(network(shown.network))
            ],
            "power_limit_w": shown.tdp_w,
            **({} if priced is None else silicon_solution(priced)),
        },
        "system": shown.network,
        "cores": cores,
        "timed_on": shown.timed_on if shown.sustained.model_dump(exclude_defaults=True) else None,
        "kernels": [each.document() for each in kernels],
        **{key: [each.document() for each in of_template] for key, of_template in beside.items()},
        **({} if priced is None else {"silicon": silicon_document(priced)}),
        "notes": list(shown.notes),
    }
