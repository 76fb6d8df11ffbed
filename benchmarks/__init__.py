"""One script per claim: each prints a table with its baseline in the same run. ``python -m benchmarks`` runs all."""
