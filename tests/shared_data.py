"""Where the shared cases and measurements are; tests that need them skip where they are missing."""

import os
from pathlib import Path

import pytest


def shared_data(*parts: str) -> Path:
    """The path of a file or folder of the shared data, or a skip of the calling test.

    The data lie in ``data/`` of a folder ``shared`` beside the checkout, or where ``DSE_SHARED_DATA`` points.
    """
    root = Path(os.environ.get("DSE_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"shared data {'/'.join(parts)} not found beside the checkout")
    return path
