"""The cases and measurements of tests and benchmarks: ``tests/data``, whose README names their sources."""

from pathlib import Path

DATA = Path(__file__).parent / "data"


def shared_data(*parts: str) -> Path:
    """The path of a file or folder of ``tests/data``."""
    return DATA.joinpath(*parts)
