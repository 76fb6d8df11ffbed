"""``dse specs``: the hardware specs that come with the package."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from types import MappingProxyType
from typing import Any

import click
from rich.text import Text

from dse.cli.help import GroupedCommand
from dse.cli.terminal import print_list, print_table, print_text
from dse.plan.stack import list_stacks, stack
from hardware.chip_space import ChipSpace, any_space
from hardware.chip_spec import known_as
from hardware.chips import chip, list_chips, list_templates
from hardware.cost_model import cost_model
from hardware.documents import read_document
from hardware.fabric_specs import fabric, list_fabrics
from hardware.inputs import choose
from hardware.network_specs import list_networks, network
from hardware.packages import list_packages, package
from hardware.space import architecture_space
from hardware.spec_fields import is_path, spec_names
from hardware.spec_rows import spec_rows
from hardware.specs import accelerator, list_specs
from hardware.units import GIGA, MEGA, MIB, TERA, gib_from_bytes

Row = tuple[str, ...]


_EXAMPLES = (
    "dse specs",
    "dse specs networks",
    "dse specs h100-sxm",
)


@click.command("specs", cls=GroupedCommand, examples=_EXAMPLES)
@click.argument("words", nargs=-1, metavar="[KIND|NAME|FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print only the specs, as JSON, on stdout.")
def command(words: tuple[str, ...], as_json: bool) -> None:
    """List the hardware specs by kind, show those of one KIND, or show one spec with the source of every value.

    KIND is a kind listed by `dse specs`, NAME is a spec, and FILE is your own YAML file. Every option that accepts a
    spec name also accepts a file.
    """
    name = " ".join(words)  # some kinds have two
    if not name:
        _show_all(as_json)
    elif name in _KINDS:
        headers, rows = _KINDS[name].table()
        if as_json:
            click.echo(_json(_records(headers, rows)))
        else:
            print_table(headers, rows)
    else:
        _show_specs(_documents(name), as_json)


def _show_all(as_json: bool) -> None:
    if as_json:
        click.echo(_json({title: _records(*kind.table()) for title, kind in _KINDS.items()}))
        return
    for title, kind in _KINDS.items():
        print_list(title, kind.names())
    print_text("\ndse specs KIND shows the values of a kind; dse specs NAME shows one spec with its sources.")


def _documents(name: str) -> dict[str, Mapping[str, Any]]:
    """The documents of this name by kind; of a file by its path.

    Raises:
        InputError: no spec of this name (the nearest one is offered), or a file that cannot be read.
    """
    if is_path(name):
        return {name: read_document(name)}
    name = known_as().get(name, name)
    known = [*_KINDS, *dict.fromkeys(each for kind in _KINDS.values() for each in kind.names())]
    choose("dse specs", "NAME", name, known, "spec")
    return {title: kind.document(name) for title, kind in _KINDS.items() if name in kind.names()}


def _built_in(name: str, package: str, *folders: str) -> Mapping[str, Any]:
    """The document of a spec of the package."""
    with resources.as_file(resources.files(package).joinpath(*folders, f"{name}.yaml")) as path:
        document: Mapping[str, Any] = read_document(path)
    return document


def _show_specs(documents: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        click.echo(_json(documents))
        return
    for title, document in documents.items():
        headline = next((document[key] for key in _HEADLINE if key in document), "")
        print_text(Text.assemble((title, "bold"), f": {' '.join(str(headline).split())}"))
        if isinstance(document.get("name"), str) and document["name"] in list_specs():
            for note in accelerator(document["name"]).notes:
                print_text(Text(note, style="dim"))
        print_table(("key", "value", "source"), spec_rows(_figures(document)))


def _records(headers: Row, rows: list[Row]) -> list[dict[str, str]]:
    return [dict(zip(headers, row, strict=True)) for row in rows]


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


def _chips() -> tuple[Row, list[Row]]:
    headers: Row = ("chip", "peak Tflop/s by format", "HBM GB", "HBM GB/s", "W", "system", "description")
    rows: list[Row] = [
        (
            each.name,
            " ".join(f"{product_format} {_tflops(rate)}" for product_format, rate in each.rates),
            f"{gib_from_bytes(each.hbm_bytes):g}",
            f"{each.hbm_bytes_per_s / GIGA:,.0f}",
            "" if each.tdp_w is None else f"{each.tdp_w:g}",
            each.network,
            each.title,
        )
        for each in map(chip, list_chips())
    ]
    return headers, rows


def _tflops(rate: float) -> str:
    return f"{rate / TERA:,.0f}" if rate >= 100 * TERA else f"{rate / TERA:.4g}"


def _templates() -> tuple[Row, list[Row]]:
    headers: Row = ("template", "peak Tflop/s", "HBM GB", "HBM GB/s", "area mm²", "network", "description")
    rows: list[Row] = []
    for name in list_templates():
        spec = accelerator(name)
        rows.append(
            (
                name,
                f"{spec.machines.peak_flops[0] / TERA:.1f}",
                f"{gib_from_bytes(spec.hbm_bytes):g}",
                f"{spec.machines.hbm_bytes_per_s / GIGA:g}",
                f"{spec.machines.area_mm2[0]:.1f}",
                spec.network,
                spec.title,
            )
        )
    return headers, rows


def _networks() -> tuple[Row, list[Row]]:
    headers = ("network", "GB/s per direction, by level", "latency µs")
    rows: list[Row] = []
    for name in list_networks():
        levels = [network(name)]
        while (inner := levels[0].inner) is not None:
            levels.insert(0, inner)
        rates = " / ".join(f"{each.bytes_per_s / GIGA:.4g}" for each in levels)
        rows.append((name, rates, " / ".join(f"{1e6 * each.latency_s:g}" for each in levels)))
    return headers, rows


def _packages() -> tuple[Row, list[Row]]:
    headers: Row = ("package", "chips", "Tflop/s per chip", "SRAM MB", "link GB/s", "weights")
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
    headers: Row = ("space", "points", "within the default area", "smallest area share")
    rows: list[Row] = []
    for name in spec_names("spaces"):
        space = any_space(name)
        if isinstance(space, ChipSpace):
            rows.append((name, f"{space.points:,}", "", ""))
            continue
        share = space.min_share_of_budget
        within = len(architecture_space(space=space))
        rows.append((name, f"{space.points:,}", f"{within:,}", "" if share is None else f"{share.value:g}"))
    return headers, rows


def _constants(title: str, folder: str) -> tuple[Row, list[Row]]:
    """Specs that are only constants: how many each has."""
    headers: Row = (title, "values")
    documents = {name: _built_in(name, "hardware", "specs", folder) for name in spec_names(folder)}
    return headers, [(name, str(len(spec_rows(_figures(document))))) for name, document in documents.items()]


def _figures(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document without what it is called."""
    return {key: value for key, value in document.items() if key not in _HEADLINE}


def _stacks() -> tuple[Row, list[Row]]:
    headers: Row = ("stack", "description")
    return headers, [(name, stack(name).description) for name in list_stacks()]


@dataclass(frozen=True)
class _Kind:
    """A kind of spec: its names, its table, and where its files are (package, folders)."""

    names: Callable[[], list[str]]
    table: Callable[[], tuple[Row, list[Row]]]
    place: tuple[str, ...]

    def document(self, name: str) -> Mapping[str, Any]:
        """The document of one spec."""
        return _built_in(name, *self.place)


def _constants_of(title: str, folder: str) -> _Kind:
    return _Kind(partial(spec_names, folder), partial(_constants, title, folder), ("hardware", "specs", folder))


_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "chips": _Kind(list_chips, _chips, ("hardware", "specs", "chips")),
        "networks": _Kind(list_networks, _networks, ("hardware", "specs", "networks")),
        "stacks": _Kind(list_stacks, _stacks, ("dse.plan", "stacks")),
        "templates": _Kind(list_templates, _templates, ("hardware", "specs", "chips")),
        "cost models": _Kind(partial(spec_names, "cost_models"), _cost_models, ("hardware", "specs", "cost_models")),
        "spaces": _Kind(partial(spec_names, "spaces"), _spaces, ("hardware", "specs", "spaces")),
        "packages": _Kind(list_packages, _packages, ("hardware", "specs", "packages")),
        "fabrics": _Kind(list_fabrics, _fabrics, ("hardware", "specs", "fabrics")),
        **{
            title: _constants_of(title, folder)
            for title, folder in (
                ("operator slots", "operator_slots"),
                ("deratings", "derating"),
                ("vector cycles", "vector_cycles"),
                ("energy models", "energy"),
                ("area models", "area"),
                ("silicon", "silicon"),
            )
        },
    }
)
"""By their names for users."""

_HEADLINE = ("title", "description", "name")
"""Keys of a document that say what it is."""
