"""Learned costs hold for the fabric, simulator and table of operator slots by which their samples were labelled."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardware.inputs import fail
from policies.learning.checkpoint import CARD_FILE

LABELLED_BY = ("simulator", "operator_slots")
"""What of the samples' provenance a model holds for: the simulator with the fabric's constants, and the table of
operator slots."""


def is_labelled_by(provenance: Mapping[str, Any], labelled_by: Mapping[str, Any]) -> bool:
    """Whether what was learned, as its card says, is of labels of this provenance."""
    learned_from = _learned_from(provenance)
    return all(learned_from.get(name) == labelled_by[name] for name in LABELLED_BY)


def _learned_from(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    stated = provenance.get("samples")
    return stated if isinstance(stated, dict) else {}


def require_labelled_by(folder: Path, provenance: Mapping[str, Any], labelled_by: Mapping[str, Any]) -> None:
    """Refuse what was learned, as the card in ``folder`` says, on labels of another provenance.

    Raises:
        InputError: another fabric, simulator or table of operator slots.
    """
    learned_from = _learned_from(provenance)
    for name in LABELLED_BY:
        if learned_from.get(name) != labelled_by[name]:
            rule = (
                f"must be {labelled_by[name]}, but the model was trained on {learned_from.get('fabric')}; "
                "train a cost model for this fabric (dse fabric train)"
            )
            raise fail(folder / CARD_FILE, f"provenance.samples.{name}", learned_from.get(name), rule)
