"""The papers by name; one is imported when it is named.

To add one: a folder with ``SUMMARY`` in ``__init__.py`` and ``PAPER`` in ``parts.py``, and its name here.
"""

import importlib
from typing import Any

from dse.reproduce.paper import Paper
from hardware.inputs import choose

PAPERS = ("phaze", "mcm", "gigaplacer", "automap", "rdu", "silicon")


def summary_of(name: str) -> str:
    """One line on the paper ``name``, without importing what makes its parts."""
    return str(importlib.import_module(f"dse.reproduce.{name}").SUMMARY)


def paper_named(name: str) -> Paper[Any, Any]:
    """The paper ``name``.

    Raises:
        InputError: no paper of this name (the nearest one is offered).
    """
    choose("dse reproduce", "PAPER", name, PAPERS, "paper")
    paper: Paper[Any, Any] = importlib.import_module(f"dse.reproduce.{name}.parts").PAPER
    return paper
