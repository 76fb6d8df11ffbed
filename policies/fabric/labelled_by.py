"""Learned costs hold for the fabric, simulator and table of operator slots by which their samples were labelled."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardware.inputs import fail
from policies.learning.checkpoint import CARD_FILE

LABELLED_BY = ("simulator", "operator_slots")
"""What of the samples' provenance a model holds for: the simulator with the fabric's constants, and the table of
operator slots."""


def require_labelled_by(folder: Path, provenance: Mapping[str, Any], labelled_by: Mapping[str, Any]) -> None:
    """Refuse what was learned, as the card in ``folder`` says, on labels of another provenance.

    Raises:
        InputError: another fabric, simulator or table of operator slots.
    """
    stated = provenance.get("samples")
    learned_from = stated if isinstance(stated, dict) else {}
    for name in LABELLED_BY:
        if learned_from.get(name) != labelled_by[name]:
            rule = (
                f"learned on {learned_from.get('fabric')}, but must be {labelled_by[name]} here; "
                "train a cost model for this fabric (dse fabric train)"
            )
            raise fail(folder / CARD_FILE, f"provenance.samples.{name}", learned_from.get(name), rule)
