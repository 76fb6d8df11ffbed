"""Measures GEMMs, vector kernels and all-reduces with PyTorch on this machine, for ``dse calibrate SPEC FILE``.

Each row is the median over batches of calls, launches included, as a training step pays them; the clock is read when
the GPU has done all of a batch. On a CPU it serves as a trial. Needs the extra ``learn``.

The shapes are a grid: every kind of kernel from the smallest, where the launch is all, to the largest, where peak rates
are. Rows of a kind are in the order of their sizes, so that the fitted half and the held-out half of ``dse calibrate``,
which takes every other row, cover the same range.

With ``--all-reduce``, started on all accelerators of a node or a cluster, it measures all-reduces between them instead:

    python -m torch.distributed.run --nproc-per-node 8 -m benchmarks.measure_kernels links.csv --all-reduce
"""

import argparse
import csv
import itertools
import os
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

ALL_REDUCE_BYTES = tuple(2**power for power in range(10, 31))
"""From what the latency decides to what the links decide."""

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


def all_reduce_s(torch: object, size_bytes: int, device: str) -> float:
    """Seconds of an all-reduce of 16-bit elements, as every rank of the process group runs it at the same time.

    The number of calls follows from the size alone: every rank must make the same ones.
    """
    from torch import distributed

    tensor = torch.zeros(size_bytes // 2, dtype=torch.bfloat16, device=device)
    calls = max(3, min(100, 2**26 // size_bytes))

    def seconds(count: int) -> float:
        distributed.barrier()
        if device == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(count):
            distributed.all_reduce(tensor)
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    seconds(3)
    return statistics.median(seconds(calls) / calls for _ in range(BATCHES))


def write_all_reduces(out: Path, device: str, largest_bytes: int) -> None:
    """Measures all-reduces between the processes that ``torch.distributed.run`` started; the first of them writes."""
    import torch
    from torch import distributed

    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    ranks, is_first = distributed.get_world_size(), distributed.get_rank() == 0
    rows = []
    for size in (each for each in ALL_REDUCE_BYTES if each <= largest_bytes):
        rows.append(("all_reduce", size, ranks, "", f"{all_reduce_s(torch, size, device):.9g}"))
        if is_first:
            print(f"\r{len(rows)} sizes", end="", file=sys.stderr)
    if is_first:
        with out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows((HEADER, *rows))
        print(file=sys.stderr)
    distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="FILE.csv")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--largest", type=int, default=8192, help="longest side of a GEMM, a power of two from 256")
    parser.add_argument(
        "--all-reduce", action="store_true", help="measure all-reduces between the processes of this job"
    )
    parser.add_argument("--largest-bytes", type=int, default=2**30, help="largest all-reduce to measure, at least 1024")
    given = parser.parse_args()
    if given.all_reduce:
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            parser.error("--all-reduce: start it with python -m torch.distributed.run on two accelerators or more")
        if given.largest_bytes < ALL_REDUCE_BYTES[0]:
            parser.error(f"--largest-bytes must be at least {ALL_REDUCE_BYTES[0]}, but got {given.largest_bytes}")
        write_all_reduces(given.out, given.device, given.largest_bytes)
        return
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
