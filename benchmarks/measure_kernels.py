"""Measures GEMMs and vector kernels with PyTorch on this machine, for ``dse calibrate SPEC FILE``.

Each row is the median over batches of calls, launches included, as a training step pays them; the clock is read when
the GPU has done all of a batch. On a CPU it serves as a trial. Needs the extra ``learn``.

The shapes are a grid: every kind of kernel from the smallest, where the launch is all, to the largest, where peak rates
are. Rows of a kind are in the order of their sizes, so that the fitted half and the held-out half of ``dse calibrate``,
which takes every other row, cover the same range.
"""

import argparse
import csv
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

DTYPES = ("float16", "bfloat16", "float32")
BATCHES = 7
"""Of calls; the median of their means is the time of a call."""

BATCH_S = 0.02
"""What a batch takes, about."""

HEADER = ("op", "m", "n", "k", "measured_s")


def shapes(largest: int) -> Iterator[tuple[str, int, int, int | None]]:
    """(kind, m, n, k) of all rows; ``largest``: the longest side of a GEMM, a power of two from 256."""
    sides = [2**power for power in range(6, largest.bit_length())]
    gemms = [("gemm", m, n, k) for m, n, k in itertools.product(sides, repeat=3) if max(m, n, k) <= 16 * min(m, n, k)]
    yield from sorted(gemms, key=_size)
    for kind in ("softmax", "layernorm", "gelu"):
        rows = [(kind, m, n, None) for m, n in itertools.product(sides, repeat=2) if n >= 128]
        yield from sorted(rows, key=_size)


def _size(row: tuple[str, int, int, int | None]) -> tuple[int, int, int]:
    _, m, n, k = row
    return m * n * (k or 1), m, n


def call_of(torch: object, kind: str, m: int, n: int, k: int | None, device: str, dtype: str) -> Callable[[], object]:
    """What is timed."""
    new = {"device": device, "dtype": getattr(torch, dtype)}
    if kind == "gemm":
        left, right = torch.randn(m, k, **new), torch.randn(k, n, **new)
        return lambda: left @ right
    tensor = torch.randn(m, n, **new)
    if kind == "softmax":
        return lambda: torch.softmax(tensor, dim=-1)
    if kind == "layernorm":
        return lambda: torch.nn.functional.layer_norm(tensor, (n,))
    return lambda: torch.nn.functional.gelu(tensor)


def measured_s(torch: object, call: Callable[[], object], device: str) -> float:
    """Seconds of a call."""
    drain = torch.cuda.synchronize if device == "cuda" else lambda: None

    def seconds(calls: int) -> float:
        drain()
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        drain()
        return time.perf_counter() - begun

    seconds(3)
    calls = max(1, round(BATCH_S / max(seconds(1), 1e-7)))
    return statistics.median(seconds(calls) / calls for _ in range(BATCHES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="FILE.csv")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--largest", type=int, default=8192, help="longest side of a GEMM, a power of two from 256")
    given = parser.parse_args()
    if given.largest < 256 or given.largest & (given.largest - 1):
        parser.error(f"--largest must be a power of two from 256, but got {given.largest}")
    import torch

    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU here")
    rows = list(shapes(given.largest))
    with given.out.open("w", newline="", encoding="utf-8") as file, torch.inference_mode():
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for number, (kind, m, n, k) in enumerate(rows, start=1):
            call = call_of(torch, kind, m, n, k, given.device, given.dtype)
            writer.writerow((kind, m, n, "" if k is None else k, f"{measured_s(torch, call, given.device):.9g}"))
            print(f"\r{number} of {len(rows)} kernels", end="", file=sys.stderr)
    print(file=sys.stderr)


if __name__ == "__main__":
    main()
