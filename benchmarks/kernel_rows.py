"""Kernel times published with AIConfigurator, as shapes of :mod:`hardware.kernel_times`, and which may be fitted to.

The rows are not part of the project: they are read from ``serving/kernels`` in the folder that DSE_CASES names. Which
rows are for fitting was decided before anything was fitted, and is committed: ``benchmarks/data/kernel_rows.json``
holds a bit for each row and the digest of the table that the bits belong to. In each group of a table (chip, engine,
format, kernel), the first third by the digest of the row's key is for fitting.
``python -m benchmarks.kernel_rows`` writes the file where there is none.
"""

import csv
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware.kernel_times.experts import expert_sums, tokens_by_expert
from hardware.kernel_times.fitted import KernelKind
from hardware.kernel_times.form import Floats, Shapes
from hardware.precisions import Precision
from tests.shared_data import case_of_others

MARKS = Path(__file__).parent / "data" / "kernel_rows.json"
FOLDER = ("serving", "kernels")
SOURCE = "ai-dynamo/aiconfigurator at 095f58a51c4ca8e61b66ec108d86f223f8d559ce (Apache-2.0), kernel tables"

POWER_LAW = 1.2
ELEMENT_BYTES = {
    "bfloat16": 2.0, "half": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int8": 1.0, "nvfp4": 0.5625,
    "w4a16_mxfp4": 0.53, "w4a8_mxfp4_mxfp8": 0.53, "int4_wo": 0.53,
}  # fmt: skip
"""Of a stored element, with its share of scales."""

PRECISION: Mapping[str, Precision] = {
    "bfloat16": "bf16", "half": "bf16", "int8": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4",
    "w4a16_mxfp4": "bf16", "w4a8_mxfp4_mxfp8": "fp8", "int4_wo": "bf16",
}  # fmt: skip
"""In which products are computed."""

SMALL_FORMATS = ("w4a16_mxfp4", "w4a8_mxfp4_mxfp8", "int4_wo")
"""Four-bit weights with wider activations, whose experts are reported apart."""


@dataclass(frozen=True)
class Table:
    """A table of the source.

    Attributes:
        kind: of kernels.
        group: columns other than the chip in which kernels differ.
        format: the column of the format of products; None where nothing is computed.
        shape: of a row, by the names of the form.
    """

    kind: KernelKind
    group: tuple[str, ...]
    format: str | None
    shape: Callable[[Mapping[str, str]], Mapping[str, float]]


@dataclass(frozen=True)
class Group:
    """Rows of one variant on one chip.

    Attributes:
        table, chip, variant: which they are.
        precision: of products.
        shapes: of [N] rows.
        measured_s: [N].
        is_fitted: [N], whether a row is for fitting.
        rows: as in the table.
    """

    table: str
    kind: KernelKind
    chip: str
    variant: str
    precision: Precision
    shapes: Shapes
    measured_s: Floats
    is_fitted: Any
    rows: tuple[Mapping[str, str], ...]

    def part(self, chosen: Any) -> "Group":
        """The rows that a mask chooses."""
        shapes = {name: values[chosen] for name, values in self.shapes.items()}
        rows = tuple(row for row, is_chosen in zip(self.rows, chosen, strict=True) if is_chosen)
        return Group(
            self.table, self.kind, self.chip, self.variant, self.precision, shapes,
            self.measured_s[chosen], self.is_fitted[chosen], rows,
        )  # fmt: skip


def _numbers(row: Mapping[str, str], **columns: str) -> dict[str, float]:
    return {name: float(row[column]) for name, column in columns.items()}


def _dense(row: Mapping[str, str]) -> Mapping[str, float]:
    return _numbers(row, m="m", n="n", k="k") | {"element_bytes": ELEMENT_BYTES[row["dtype"]]}


def _attention(length: str) -> Callable[[Mapping[str, str]], Mapping[str, float]]:
    def shape(row: Mapping[str, str]) -> Mapping[str, float]:
        numbers = _numbers(row, samples="batch", heads="heads", key_heads="kv_heads", width="head_dim", window="window")
        return numbers | {length: float(row[length]), "cache_bytes": ELEMENT_BYTES[row["kv_dtype"]]}

    return shape


def _latent_prefill(row: Mapping[str, str]) -> Mapping[str, float]:
    return _numbers(row, samples="batch", tokens="tokens", heads="heads")


def _latent_decode(row: Mapping[str, str]) -> Mapping[str, float]:
    # SGLang's kernel for Hopper computes 64 heads at a time.
    together = 64.0 if row["engine"] == "sglang" and row["gpu"] != "b200" else 16.0
    numbers = _numbers(row, samples="batch", context="context", heads="heads")
    return numbers | {"cache_bytes": ELEMENT_BYTES[row["kv_dtype"]], "heads_together": together}


def _experts(row: Mapping[str, str]) -> Mapping[str, float]:
    tokens, chosen, experts = int(row["tokens"]), int(row["topk"]), int(row["experts"])
    ranks = int(row["moe_ep_size"])
    is_even = row["distribution"] == "balanced"
    loads = tokens_by_expert(experts, chosen, tokens, ranks, None if is_even else POWER_LAW)
    # Kernels that choose groups of experts first: equal loads there leave half of the experts idle, as times tell.
    is_fast = "min_latency" in row["kernel_source"]
    grouped = is_fast or (row["engine"] == "sglang" and row["dtype"] in ("fp8_block", "nvfp4"))
    if is_even and grouped and experts == 256 and ranks == 1:
        loads = loads[: experts // 2]
    return expert_sums(loads) | {
        "tokens": float(tokens),
        "hidden": float(row["hidden"]),
        "width": float(row["width"]) / float(row["moe_tp_size"]),
        "chosen": float(chosen),
        "experts": float(experts),
        "element_bytes": ELEMENT_BYTES[row["dtype"]],
    }


def _all_reduce(row: Mapping[str, str]) -> Mapping[str, float]:
    return _numbers(row, chips="gpus") | {
        "bytes": 2.0 * float(row["elements"]),
        "eager": float("eager" in row["kernel"]),
    }


def _nccl(row: Mapping[str, str]) -> Mapping[str, float]:
    rounds = 2.0 if row["operation"] == "all_reduce" else 1.0
    return _numbers(row, chips="gpus") | {
        "bytes": ELEMENT_BYTES[row["dtype"]] * float(row["elements"]),
        "rounds": rounds,
    }


TABLES: Mapping[str, Table] = {
    "gemm": Table("dense", ("engine", "version", "dtype"), "dtype", _dense),
    "moe": Table("experts", ("engine", "version", "kernel_source", "dtype"), "dtype", _experts),
    "attention_prefill": Table(
        "prefill", ("engine", "version", "attn_dtype", "kv_dtype"), "attn_dtype", _attention("tokens")
    ),
    "attention_decode": Table(
        "decode", ("engine", "version", "attn_dtype", "kv_dtype"), "attn_dtype", _attention("context")
    ),
    "mla_prefill": Table("latent prefill", ("engine", "version", "dtype", "kv_dtype"), "dtype", _latent_prefill),
    "mla_decode": Table("latent decode", ("engine", "version", "dtype", "kv_dtype"), "dtype", _latent_decode),
    "allreduce": Table("all-reduce", ("engine", "version", "kernel"), None, _all_reduce),
    "nccl": Table("nccl", ("version", "operation"), None, _nccl),
}


def groups(name: str) -> list[Group]:
    """The rows of a table by chip and variant, in the order of the table."""
    table, path = TABLES[name], case_of_others(*FOLDER, f"{name}.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    marks = marks_of(name, path, rows)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        found[row["gpu"], " ".join(row[column] for column in table.group)].append(place)
    return [
        _group(name, chip, variant, [rows[place] for place in places], marks[places])
        for (chip, variant), places in found.items()
    ]


def _group(name: str, chip: str, variant: str, rows: list[dict[str, str]], marks: Any) -> Group:
    table = TABLES[name]
    shapes = [table.shape(row) for row in rows]
    return Group(
        table=name,
        kind=table.kind,
        chip=chip,
        variant=variant,
        precision="bf16" if table.format is None else PRECISION[rows[0][table.format]],
        shapes={key: np.array([shape[key] for shape in shapes]) for key in shapes[0]},
        measured_s=np.array([float(row["ms"]) for row in rows]) * 1e-3,
        is_fitted=marks,
        rows=tuple(rows),
    )


def marks_of(name: str, path: Path, rows: list[dict[str, str]]) -> Any:
    """Which rows of a table are for fitting, [N], as committed."""
    marks = json.loads(MARKS.read_text(encoding="utf-8"))[name]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == marks["sha256"], f"{path}: is not the table that {MARKS.name} belongs to"
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(marks["fitted"]), dtype=np.uint8), count=len(rows))
    return bits.astype(bool)


def mark() -> None:
    """Write which rows are for fitting; never over a file that is there."""
    assert not MARKS.exists(), f"{MARKS}: rows are marked once, before anything is fitted"
    marks = {}
    for name, table in TABLES.items():
        path = case_of_others(*FOLDER, f"{name}.csv")
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        found = defaultdict(list)
        for place, row in enumerate(rows):
            key = "|".join(value for column, value in row.items() if column != "ms")
            found[row["gpu"], *(row[column] for column in table.group)].append(
                (hashlib.sha256(key.encode()).hexdigest(), place)
            )
        chosen = np.zeros(len(rows), dtype=bool)
        for places in found.values():
            chosen[[place for _, place in sorted(places)[: len(places) // 3]]] = True
        marks[name] = {
            "rows": len(rows),
            "for fitting": int(chosen.sum()),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "fitted": np.packbits(chosen).tobytes().hex(),
        }
    MARKS.write_text(json.dumps(marks, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    mark()
