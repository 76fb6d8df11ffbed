"""What of published silicon can be reproduced, and with which options."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from dse.reproduce.paper import Paper, Part, Posed
from dse.reproduce.section import Section
from dse.reproduce.silicon import SUMMARY, tables
from dse.reproduce.silicon.rows import chips, rows, table
from dse.run.options import Option, Options
from hardware.inputs import choose

NAME = "silicon"

CITATION = (
    "Figures of vendors, analysts and measurements, each with its source in its row; Zhang et al., LLMCompass: "
    "Enabling Efficient Hardware Design for Large Language Model Inference, ISCA 2024"
)

Wanted = tuple[str, ...]
"""Names of rows; all where it is empty."""


@dataclass(frozen=True)
class SiliconOptions(Options):
    """The options of ``dse reproduce silicon``.

    Attributes:
        chips: names of rows, separated by commas; None: all.
    """

    COMMAND: ClassVar[str] = "reproduce silicon"

    chips: Annotated[
        str | None, Option("Dies, chips and servers to compare, by the names of their rows.", metavar="NAME,…")
    ] = None


_MAKERS: dict[str, Callable[[Collection[str]], Section]] = {
    "dies": tables.dies,
    "peaks": tables.peaks,
    "power": tables.powers,
    "bills": tables.bills,
    "servers": tables.servers,
    "blocks": tables.blocks,
    "designs": tables.designs,
}


def _make(part: str, wanted: Wanted) -> Section:
    return _MAKERS[part](wanted)


def _posed(options: SiliconOptions, _parts: tuple[str, ...]) -> Posed[Wanted]:
    wanted = () if options.chips is None else tuple(each.strip() for each in options.chips.split(","))
    listed = {name: table(name) for name in ("bills", "servers", "blocks", "designs")} | {"dies": rows()}
    known = {row["name"] for each in listed.values() for row in each} | {chip.name for chip in chips()}
    for name in wanted:
        choose("dse reproduce silicon", "--chips", name, known, "die, chip or server")
    return Posed(
        settings={"chips": list(wanted)},
        budget="Nothing is searched: figures follow from sizes.",
        identity=listed,
        predicted_s=dict.fromkeys(PARTS, 0.1),
        context=lambda _run: wanted,
    )


PARTS = {name: Part(title, partial(_make, name)) for name, title in tables.TITLES.items()}

PAPER = Paper(NAME, SUMMARY, CITATION, SiliconOptions, PARTS, _posed, quick={"chips": "h100-sxm,a100-sxm-80gb,latency"})
