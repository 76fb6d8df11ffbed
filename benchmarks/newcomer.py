"""A newcomer's first ten minutes: the commands of docs/start/ten-minutes.md in a fresh clone.

Also ``dse --help``, and the memory of the largest process. Targets: clone to answer in ≤ 5 minutes with installation,
``dse --help`` in ≤ 0.5 s, peak memory below 4 GB.
"""

import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import ROOT
from benchmarks.recording import Record, Results, parser_of

PAGE = ROOT / "docs" / "start" / "ten-minutes.md"
STEP = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECORD = Record("newcomer", ("help", "peak"), {"steps": ("step", "CPU time")})


def steps(text: str) -> Iterator[tuple[str, str]]:
    """The heading and the commands of each step of a page, without comments."""
    for heading, block in STEP.findall(text):
        yield heading, re.sub(r"  # .*", "", block)


def cpu_s() -> float:
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """CPU time of each step, then ``dse --help`` and the memory of the largest process."""
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    outside = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    with tempfile.TemporaryDirectory(prefix="dse-newcomer-") as folder:
        clone = Path(folder) / "dse"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        environment = outside | {"PATH": f"{clone / '.venv' / 'bin'}:{outside['PATH']}"}
        for heading, commands in steps(PAGE.read_text(encoding="utf-8")):
            used = cpu_s()
            subprocess.run(["bash", "-e", "-c", commands], cwd=clone, env=environment, capture_output=True, check=True)
            results.row("steps", heading, f"{cpu_s() - used:.0f} s")
        times = []
        for _ in range(11):
            began = time.perf_counter()
            subprocess.run(["dse", "--help"], cwd=clone, env=environment, check=True, capture_output=True)
            times.append(time.perf_counter() - began)
    results.figure("help", f"{statistics.median(times):.2f} s")
    results.figure("peak", f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20:.2f} GB")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
