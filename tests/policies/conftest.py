from pathlib import Path

import pytest


@pytest.fixture
def quiet_home():
    """RLlib makes a folder for each algorithm in the user's home."""
    results = Path("~/ray_results").expanduser()
    before = set(results.glob("*"))
    yield
    for folder in set(results.glob("*")) - before:
        for file in folder.glob("*"):
            file.unlink()
        folder.rmdir()
    if results.exists() and not any(results.iterdir()):
        results.rmdir()
