"""The engine: graphs, problem definitions, exact and heuristic solvers, independent checkers, reports.

Single-process, deterministic by seed, and importable without torch and without Ray. Data flows one way: *file → graph →
problem → solver → solution → checker → result → report*.
"""

__version__ = "0.1.0"

DISTRIBUTION = "accelerator-dse"
"""What ``pip install`` calls it: ``dse`` is another project on PyPI."""
