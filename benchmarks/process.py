"""What is measured in a process of its own: a fresh one, so that nothing is loaded, cached or allocated before."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def answer_of(module: str, *arguments: object, **environment: str) -> dict[str, Any]:
    """The JSON object in the last line that ``python -m module arguments`` prints.

    Raises:
        RuntimeError: the process failed; with what it wrote.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def peak_gb() -> float:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
