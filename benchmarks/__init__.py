"""One script per claim: each prints a table with its baseline in the same run. ``python -m benchmarks`` runs all."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
"""What only benchmarks read; cases that tests read too are in ``tests/data``."""
