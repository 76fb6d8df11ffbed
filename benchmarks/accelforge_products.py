"""Ideal times of products on a template next to AccelForge's optimal mapping of the same accelerator.

``python -m benchmarks.accelforge_products --python PATH`` runs AccelForge with another Python (it needs 3.12 or later:
``pip install accelforge==1.0.467`` in an environment of its own). The architecture is what
``dse chip tpuv4-phaze --accelforge`` writes.

AccelForge cuts dimensions into whole factors; the estimator rounds up. So its mapping may be slower, never faster.
"""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from hardware.accelforge import accelforge_yaml
from hardware.gemm import TensorWork, tensor_times
from hardware.operations import Gemm
from hardware.specs import accelerator

CHIP, HBM_BYTES = "tpuv4-phaze", 32 * 2**30

PRODUCTS = (
    (512, 512, 512, 1), (2048, 2048, 2048, 1), (4096, 4096, 4096, 1), (2048, 4096, 1024, 1), (4096, 1024, 1024, 1),
    (8192, 512, 2048, 1), (128, 4096, 4096, 1), (16, 4096, 4096, 1), (512, 512, 64, 64), (2048, 30522, 1024, 1),
)  # fmt: skip
"""Rows, columns, inner size, and how many of them."""

EQUAL = 1e-4
"""Times that differ by less are called equal: architectures state times of a bit with six digits."""

RECORD = Record(
    "accelforge_products",
    ("equal", "slower", "products", "largest"),
    {"main": ("m × n × k, number", "ours, s", "AccelForge, s", "AccelForge over ours")},
)


def ours(products: Sequence[tuple[int, int, int, int]]) -> list[float]:
    """Ideal seconds on all cores."""
    machines = accelerator(CHIP).machines
    times = (tensor_times([TensorWork(Gemm(*each))], machines, machines.tensor_cores, np.ones(1)) for each in products)
    return [float(np.maximum(each.on_chip_s, each.hbm_s)[0, 0]) for each in times]


def theirs(python: str, products: Sequence[tuple[int, int, int, int]]) -> list[float]:
    """Seconds of the fastest mappings by the AccelForge of another Python."""
    worker = Path(__file__).with_name("accelforge_mapper.py")
    with tempfile.TemporaryDirectory() as folder:
        architecture = Path(folder) / "architecture.yaml"
        text = accelforge_yaml(accelerator(CHIP).machines, HBM_BYTES, CHIP)
        architecture.write_text(text, encoding="utf-8")
        shapes = [",".join(map(str, each)) for each in products]
        command = [python, str(worker), str(architecture), *shapes]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
    seconds: list[float] = json.loads(ended.stdout)
    return seconds


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--python", required=True, metavar="PATH", help="a Python that has AccelForge")
    arguments = parser.parse_args()
    results = Results(RECORD)
    pairs = [*zip(PRODUCTS, ours(PRODUCTS), theirs(arguments.python, PRODUCTS), strict=True)]
    for (m, n, k, number), own, other in pairs:
        results.row("main", f"{m:,} × {n:,} × {k:,}, {number}", f"{own:.5g}", f"{other:.5g}", f"{other / own:.4g}")
    ratios = [other / own for _, own, other in pairs]
    results.figure("products", len(pairs))
    results.figure("equal", sum(abs(ratio - 1) <= EQUAL for ratio in ratios))
    results.figure("slower", sum(ratio > 1 + EQUAL for ratio in ratios))
    results.figure("largest", f"{max(ratios):.3g} times")
    results.save(arguments.record)
