"""``dse specs``: the hardware specs that come with the package."""

import json

import click

from dse.cli.terminal import console, print_table
from hardware.chips import chip, list_chips
from hardware.cost_model import cost_model
from hardware.energy_model import TEMPLATE_PROCESS_NM
from hardware.fabrics import fabric, list_fabrics
from hardware.network_specs import list_networks, network
from hardware.packages import list_packages, package
from hardware.space import architecture_space, space_spec
from hardware.spec_fields import spec_names
from hardware.specs import accelerator, list_specs
from hardware.units import GIGA, MEGA, MIB, TERA, gib_from_bytes

Row = tuple[str, ...]


@click.command("specs")
@click.option("--json", "as_json", is_flag=True, help="Print only the specs, as JSON, on stdout.")
def command(as_json: bool) -> None:
    """List accelerators, networks, cost models, spaces, chips by their data sheets, packages and fabrics.

    Wherever an option takes the name of an accelerator, network, space or package, it also takes your own YAML file.
    """
    tables = {
        "accelerators": _accelerators(),
        "networks": _networks(),
        "cost models": _cost_models(),
        "spaces": _spaces(),
    }
    tables |= {"chips": _chips(), "packages": _packages(), "fabrics": _fabrics()}
    if as_json:
        content = {
            name: [dict(zip(headers, row, strict=True)) for row in rows] for name, (headers, rows) in tables.items()
        }
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    for title, (headers, rows) in tables.items():
        print_table(headers, rows, title)
    for name in list_specs():
        for note in accelerator(name).notes:
            console().print(f"{name}: {note}.", style="dim")
    console().print("Every constant carries its source in the spec's YAML file (hardware/specs).")


def _accelerators() -> tuple[Row, list[Row]]:
    headers: Row = ("accelerator", "peak Tflop/s", "HBM GB", "HBM GB/s", "area mm²", "nm", "W", "network", "what it is")
    rows: list[Row] = []
    for name in list_specs():
        spec = accelerator(name)
        rows.append(
            (
                name,
                f"{spec.machines.peak_flops[0] / TERA:.1f}",
                f"{gib_from_bytes(spec.hbm_bytes):g}",
                f"{spec.machines.hbm_bytes_per_s / GIGA:g}",
                f"{spec.machines.area_mm2[0]:.1f}",
                f"{spec.machines.process_nm or TEMPLATE_PROCESS_NM:g}",
                "" if spec.tdp_w is None else f"{spec.tdp_w:g}",
                spec.network,
                spec.title,
            )
        )
    return headers, rows


def _chips() -> tuple[Row, list[Row]]:
    headers = ("chip", "peak Tflop/s by precision", "HBM GB", "HBM GB/s", "system", "what it is")
    rows: list[Row] = [
        (
            each.name,
            " ".join(f"{precision} {peak / TERA:,.0f}" for precision, peak in each.peak_flops.items()),
            f"{gib_from_bytes(each.hbm_bytes):g}",
            f"{each.hbm_bytes_per_s / GIGA:,.0f}",
            each.network,
            each.title,
        )
        for each in map(chip, list_chips())
    ]
    return headers, rows


def _networks() -> tuple[Row, list[Row]]:
    headers = ("network", "GB/s each way", "latency µs")
    networks = map(network, list_networks())
    return headers, [(each.name, f"{each.bytes_per_s / GIGA:.4g}", f"{1e6 * each.latency_s:g}") for each in networks]


def _packages() -> tuple[Row, list[Row]]:
    headers: Row = ("package", "chips", "Tflop/s a chip", "SRAM MB", "link GB/s", "weights")
    rows: list[Row] = [
        (
            each.name,
            str(each.chips),
            f"{each.peak_flops / TERA:g}",
            f"{each.sram_bytes / MEGA:g}",
            f"{each.link_bytes_per_s / GIGA:g}",
            each.weights,
        )
        for each in map(package, list_packages())
    ]
    return headers, rows


def _fabrics() -> tuple[Row, list[Row]]:
    headers: Row = ("fabric", "grid", "compute units", "memory units", "Tflop/s", "SRAM MB", "off-chip GB/s")
    rows: list[Row] = []
    for each in map(fabric, list_fabrics()):
        computes, memories = len(each.grid.sites("compute")), len(each.grid.sites("memory"))
        rows.append(
            (
                each.name,
                f"{each.rows} x {each.columns}",
                str(computes),
                str(memories),
                f"{computes * each.compute_flops / TERA:.1f}",
                f"{memories * each.memory_bytes / MIB:g}",
                f"{each.channels * each.channel_bytes_per_s / GIGA:.1f}",
            )
        )
    return headers, rows


def _cost_models() -> tuple[Row, list[Row]]:
    headers: Row = ("cost model", "HBM GB/s", "weight gradients", "optimizer", "state factor", "default network")
    rows: list[Row] = []
    for name in spec_names("cost_models"):
        model = cost_model(name)
        training = model.training
        rows.append(
            (
                name,
                f"{model.hardware.hbm_bytes_per_s.value / GIGA:g}",
                "yes" if training.weight_gradients.value else "no",
                training.optimizer.name,
                f"{model.state_factor:g}",
                training.network.name,
            )
        )
    return headers, rows


def _spaces() -> tuple[Row, list[Row]]:
    headers: Row = ("space", "points", "within the default area", "smallest share of it")
    rows: list[Row] = []
    for name in spec_names("spaces"):
        space = space_spec(name)
        share = space.min_share_of_budget
        within = len(architecture_space(space=space))
        rows.append((name, f"{space.points:,}", f"{within:,}", "" if share is None else f"{share.value:g}"))
    return headers, rows
