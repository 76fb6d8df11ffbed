"""The training steps that are planned, and which of their arguments are the variables of the paper's tables."""

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from dse.graph.step import StepGraph
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.reproduce.automap.published import FamilyName
from hardware.documents import text_of
from hardware.inputs import choose, fail
from hardware.spec_fields import is_path

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {"vgg19": "VGG-19", "t5-base": "T5-base", "t5-6": "T5-base", "t5-3b": "T5-3B", "t5-11b": "T5-11B"}
)
"""The steps of the package (``benchmarks/hlo/dumps.py`` makes them) whose tensors are split, and the paper's names.

``t5-6`` is the published T5-small. ``t5-base`` is the paper's T5-base, which it does not define: its sizes follow from
what is printed. Six encoder and six decoder layers with the variables of Table 3 have 180 variables, and the last
normalisations 4; of 188 (section 5.2.1) an embedding and three tables of positions are left, as in the published
weights of T5. At a width of 512, 51 million parameters (Table 1) give the words for each inner width. On configuration
C no device cut is possible behind device 22 of 32, because no variable is first read there (5.2.3): the head must take
9 to 10 parts of 32. Among multiples of 512, only an inner width of 1,024 with 37,888 words has such a head.
"""

PIPELINED: Mapping[str, str] = MappingProxyType(
    {
        "bert-48": "BERT-48",
        "t5-base": "T5-base",
        "t5-6": "T5-base",
        "t5-3b": "T5-3B",
        "t5-11b": "T5-11B",
        "vgg19": "VGG-19",
    }
)
"""Those that are cut into pipelines, and the paper's names; it prints no pipeline of VGG-19."""

DUMPED: tuple[str, ...] = tuple(dict.fromkeys((*BUILT_IN, *PIPELINED)))
"""All of them."""

REPRODUCED: tuple[str, ...] = tuple(name for name in DUMPED if name != "t5-6")
"""One for each model of the paper."""

_DUMPS = resources.files("dse.reproduce").joinpath("automap", "dumps")


@dataclass(frozen=True)
class Family:
    """Models whose variables have the same names.

    Attributes:
        name: of the paper's table.
        known_by: text in the name of some argument of such a step.
        variables: of the paper's table, and after them others, with what their names end in (regular expressions).
        layers: variables of layers that must be whole for the paper's plan to be best; none where it is best without.
        layers_text: the same for people.
    """

    name: FamilyName
    known_by: str
    variables: Mapping[str, str]
    layers: tuple[str, ...] = ()
    layers_text: str = ""

    def variable(self, argument: str) -> str | None:
        """The variable that a trained argument is; None for none of the known ones."""
        return next((name for name, ending in self.variables.items() if re.search(f"{ending}$", argument)), None)


def _keys(*names: str) -> str:
    return "".join(rf"\['{name}'\]" for name in names)


FAMILIES: tuple[Family, ...] = (
    Family(
        "T5",
        "['feed_forward']",
        MappingProxyType(
            {
                "q": _keys("query", "kernel"),
                "k": _keys("key", "kernel"),
                "v": _keys("value", "kernel"),
                "o": _keys("output", "kernel"),
                "conv1/kernel": _keys("conv1", "kernel"),
                "conv1/bias": _keys("conv1", "bias"),
                "conv2/kernel": _keys("conv2", "kernel"),
                "conv2/bias": _keys("conv2", "bias"),
                "embedding_weights": _keys("embedding"),
                "scale": _keys(r"norm\d?", "scale"),
                "bias": _keys(r"norm\d?", "bias"),
                "position tables": _keys("(en|de)coder", "(cross_)?bias"),
            }
        ),
    ),
    Family(
        "VGG",
        "['predictions']",
        MappingProxyType(
            {
                f"{layer}/{part}": _keys(r"conv\d+" if layer == "conv" else layer, part)
                for layer in ("conv", "fc1", "fc2", "predictions")
                for part in ("kernel", "bias")
            }
        ),
        ("conv/kernel", "conv/bias"),
        "convolutions",
    ),
)


def text_of_step(name_or_path: str) -> str:
    """The HLO text of a step: one that comes with the package, or a file.

    Raises:
        InputError: no step of this name (the nearest one is offered), or a file that cannot be read.
    """
    if is_path(name_or_path) or name_or_path.endswith(".hlo"):
        return text_of(name_or_path)
    choose("dse reproduce", "--models", name_or_path, DUMPED, "step")
    return gzip.decompress(_DUMPS.joinpath(f"{name_or_path}.hlo.gz").read_bytes()).decode()


@lru_cache(maxsize=4)
def step_of(name_or_path: str) -> StepGraph:
    """The step; raises as :func:`text_of_step` does, and for text that is not a step."""
    return step_graph(parse_hlo(text_of_step(name_or_path), name_or_path), name_or_path)


def family_of(name_or_path: str) -> Family:
    """The family of a step, by the names of its arguments.

    Raises:
        InputError: none of the families.
    """
    names = [argument.name for argument in step_of(name_or_path).trainable]
    for family in FAMILIES:
        if any(family.known_by in name for name in names):
            return family
    rule = "argument names must be as in benchmarks/hlo/steps.py for T5 or VGG"
    raise fail("dse reproduce", "--models", name_or_path, rule)


def title_of(name_or_path: str) -> str:
    """What a step is called in tables."""
    return name_or_path if name_or_path in DUMPED else Path(name_or_path).stem


def variables_of(name_or_path: str) -> Mapping[str, tuple[str, ...]]:
    """The names of the trained arguments of a step, by variable; those of no known variable under ``others``."""
    family = family_of(name_or_path)
    names: dict[str, list[str]] = {variable: [] for variable in family.variables}
    for argument in step_of(name_or_path).trainable:
        names.setdefault(family.variable(argument.name) or "others", []).append(argument.name)
    return {variable: tuple(each) for variable, each in names.items() if each}
