"""What tests and benchmarks read: ``tests/data``, and cases of others, which are not part of the project.

The contest cases (``ispd2020/*.kgraph``, ``ispd2020/D.example.paint``, ``iopddl/*.json.gz``) are looked for in the
folder that the environment variable ``DSE_CASES`` names. Every test that reads one has a twin on a case of our own.
"""

import os
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"

CASES = "DSE_CASES"


def shared_data(*parts: str) -> Path:
    """The path of a file or folder of ``tests/data``."""
    return DATA.joinpath(*parts)


def case_of_others(*parts: str) -> Path:
    """The path of a file in the folder that ``DSE_CASES`` names; the test is skipped where it is not there."""
    folder = os.environ.get(CASES)
    if folder is None or not (path := Path(folder).joinpath(*parts)).exists():
        pytest.skip(f"{'/'.join(parts)} is not in the folder that {CASES} names")
    return path
