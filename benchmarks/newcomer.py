"""A newcomer's first ten minutes: clone, ``make run``, ``dse --help``; with peak memory.

Targets: clone to answer in ≤ 5 minutes with installation, ``dse --help`` in ≤ 0.5 s, peak memory below 4 GB.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dse-newcomer-") as folder:
        clone = Path(folder) / "dse"
        begun = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        subprocess.run(["make", "run"], cwd=clone, check=True)
        total_s = time.perf_counter() - begun
        begun = time.perf_counter()
        command = [".venv/bin/dse", "codesign", "bert-large", "--quiet"]
        subprocess.run(command, cwd=clone, check=True)
        again_s = time.perf_counter() - begun
        times = []
        for _ in range(11):
            begun = time.perf_counter()
            subprocess.run([".venv/bin/dse", "--help"], cwd=clone, check=True, capture_output=True)
            times.append(time.perf_counter() - begun)
    peak_gb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"clone + make run, empty environment     {total_s:7.1f} s   target 300 s")
    print(f"dse codesign bert-large, second process {again_s:7.1f} s")
    print(
        f"dse --help, median of 11                {statistics.median(times):7.2f} s   target 0.5 s (≤ {max(times):.2f})"
    )
    print(f"peak memory of any process              {peak_gb:7.2f} GB  target 4 GB")


if __name__ == "__main__":
    sys.exit(main())
