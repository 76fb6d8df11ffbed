"""Measured serving runs of AIConfigurator's table, as loads and shapes of :mod:`dse.serve`, and which may be fitted to.

The rows are not part of the project: they are read from ``serving/measured.csv`` in the folder that DSE_CASES names, or
from another file of that form. Which configurations (model, chip, engine, format, shape, origin) constants are fitted
to was decided before anything was fitted: in each group of engine and origin, the first third by the digest of the
configuration. ``python -m benchmarks.serving_rows`` writes the file where there is none.

How the engines of the public benchmark were launched is in ``data/serving/recipes.csv``, from its own scripts.
"""

import csv
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import yaml

from dse.serve.load import Lengths, Load
from dse.serve.shape import Formats, Shape, WeightFormat
from tests.shared_data import case_of_others

RECIPES = Path(__file__).parent / "data" / "serving" / "recipes.csv"
MARKS = Path(__file__).parent / "data" / "serving" / "fitted_configurations.yaml"
TABLE = ("serving", "measured.csv")
CONFIGURATION = (
    "model", "gpu", "engine", "precision", "tp", "pp", "attention_dp", "moe_tp", "moe_ep", "shape", "origin"
)  # fmt: skip

_SHORTEST = 0.8
"""Of the nominal length, where rows say ``0.8-1``."""

_BLOCK_SCALED = ("deepseek-r1", "qwen3-235b-a22b", "qwen3-32b", "glm-5", "qwen3.5-397b-a17b")
"""Models whose 8-bit checkpoints have a scale for each block."""

_SPARE, _FEWEST = 200, 8192
"""Tokens of a context beyond prompt and output, and the fewest of a step, in these scripts."""

_LATENT = ("deepseek-r1", "glm-5")


@dataclass(frozen=True)
class Recipe:
    """How an engine was launched; None and 1, 0 and 0.0 are its defaults.

    Attributes:
        chunk: new tokens of a step.
        receive_steps, wait_steps, wait_share: as :class:`dse.serve.simulation.Limits` has them.
    """

    chunk: int | None = None
    receive_steps: int = 1
    wait_steps: int = 0
    wait_share: float = 0.0


@dataclass(frozen=True)
class ServingRow:
    """A measured run.

    Attributes:
        key: of its row in the table.
        configuration: as the marks name it.
        model, chip, engine, origin: what ran.
        formats, shape, load: how.
        ttft_s, tpot_s: means over requests.
        is_fitted: whether constants may be fitted to it.
        recipe: how its engine was launched, where that is known.
    """

    key: str
    configuration: str
    model: str
    chip: str
    engine: str
    origin: str
    formats: Formats
    shape: Shape
    load: Load
    ttft_s: float
    tpot_s: float
    is_fitted: bool
    recipe: Recipe = Recipe()


def serving_rows(path: Path | None = None) -> list[ServingRow]:
    """The rows of a table; of the shared one where no path is given."""
    marks = yaml.safe_load(MARKS.read_text(encoding="utf-8"))
    fitted = {each for group in marks["fitted"].values() for each in group}
    return [_row(row, fitted) for row in _table(path or case_of_others(*TABLE))]


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _row(row: Mapping[str, str], fitted: set[str]) -> ServingRow:
    configuration = _configuration(row)
    return ServingRow(
        key=row["id"],
        configuration=configuration,
        model=row["model"],
        chip=row["gpu"],
        engine=row["engine"],
        origin=row["origin"],
        formats=formats_of(row),
        shape=Shape(
            tensor=int(row["tp"]),
            attention_data=int(row["attention_dp"]),
            expert=int(row["moe_ep"] or 1),
            expert_tensor=int(row["moe_tp"] or row["tp"]),
            pipeline=int(row["pp"]),
        ),
        load=load_of(row),
        ttft_s=1e-3 * float(row["ttft_ms"]),
        tpot_s=1e-3 * float(row["tpot_ms"]),
        is_fitted=configuration in fitted,
        recipe=recipe_of(row) if row["origin"] == "inferencex" else Recipe(),
    )


@cache
def _recipes() -> list[dict[str, str]]:
    return _table(RECIPES)


def recipe_of(row: Mapping[str, str]) -> Recipe:
    """The first recipe that a row of the public benchmark matches; defaults where there is none."""
    keys = ("engine", "gpu", "model", "precision", "tp", "isl", "osl")
    for each in _recipes():
        if int(row["concurrency"]) < int(each["from_concurrency"] or 0):
            continue
        if all(not each[key] or row[key] in each[key].split("|") for key in keys):
            prompt, output = int(row["isl"]), int(row["osl"])
            needed = -(-(int(row["concurrency"]) + prompt + 64) // 64) * 64
            sizes = {"context": prompt + output + _SPARE, "requests": max(needed, _FEWEST)}
            return Recipe(
                sizes[each["chunk"]] if each["chunk"] in sizes else int(each["chunk"]),
                int(each["receive_steps"] or 1), int(each["wait_steps"] or 0), float(each["wait_share"] or 0),
            )  # fmt: skip
    return Recipe()


def formats_of(row: Mapping[str, str]) -> Formats:
    """In which a row keeps numbers."""
    return Formats(_weights(row), _cache_bytes(row), _attention_weights(row))


def load_of(row: Mapping[str, str]) -> Load:
    """What a row's clients ask for, over all ranks."""
    return Load(_lengths(row["isl"], row), _lengths(row["osl"], row), int(row["concurrency"]))


def _configuration(row: Mapping[str, str]) -> str:
    return " ".join(row[each] or "-" for each in CONFIGURATION)


def _lengths(nominal: str, row: Mapping[str, str]) -> Lengths:
    longest = int(nominal)
    return Lengths(longest if row["lengths"] == "exact" else round(_SHORTEST * longest), longest)


def _weights(row: Mapping[str, str]) -> WeightFormat:
    if row["precision"] == "fp8" and row["model"] in _BLOCK_SCALED:
        return "fp8_block"
    return cast(WeightFormat, row["precision"])  # others are listed as not priced


def _attention_weights(row: Mapping[str, str]) -> WeightFormat | None:
    """Checkpoints with latent attention in four bits leave it in 16 (README of the table)."""
    return "bf16" if row["model"] in _LATENT and row["precision"] == "nvfp4" else None


def _cache_bytes(row: Mapping[str, str]) -> float:
    """Recipes of the public benchmark keep 8 bits, but for gpt-oss with vLLM on H100; others as their checkpoints, of
    which TensorRT-LLM's alone have scales for an 8-bit cache."""
    if row["origin"] == "inferencex":
        return 2.0 if (row["model"], row["gpu"], row["engine"]) == ("gpt-oss-120b", "h100-sxm", "vllm") else 1.0
    return 1.0 if row["engine"] == "trtllm" and row["precision"] == "fp8" else 2.0


def mark() -> None:
    """Write which configurations are for fitting; never over a file that is there."""
    assert not MARKS.exists(), f"{MARKS}: configurations are marked once, before anything is fitted"
    path = case_of_others(*TABLE)
    found = defaultdict(set)
    for row in _table(path):
        found[f"{row['engine']} {row['origin']}"].add(_configuration(row))
    chosen = {
        group: sorted(sorted(each, key=lambda one: hashlib.sha256(one.encode()).hexdigest())[: len(each) // 3])
        for group, each in sorted(found.items())
    }
    content = {
        "columns": " ".join(CONFIGURATION),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "fitted": chosen,
    }
    MARKS.write_text(yaml.safe_dump(content, sort_keys=False, width=120), encoding="utf-8")


if __name__ == "__main__":
    mark()
