"""Differences between two documents of JSON types."""

import math
from typing import Any

from dse.results.result import PROOF_TOLERANCE


def differences(where: str, stated: Any, expected: Any) -> list[str]:
    """In what ``stated``, an entry called ``where``, differs from ``expected``, to any depth.

    Numbers of the same type are the same within :data:`~dse.results.result.PROOF_TOLERANCE`; anything else, and every
    key, must be equal.
    """
    # Most documents are as expected: no entry of those needs a name.
    return [] if _is_same(stated, expected) else _faults(where, stated, expected)


def _is_same(stated: Any, expected: Any) -> bool:
    """Whether :func:`_faults` has nothing to say."""
    if isinstance(expected, dict):
        if not isinstance(stated, dict) or stated.keys() != expected.keys():
            return False
        return all(_is_same(stated[key], value) for key, value in expected.items())
    if isinstance(expected, list | tuple):
        if not isinstance(stated, list | tuple) or len(stated) != len(expected):
            return False
        return all(map(_is_same, stated, expected))
    return type(stated) is type(expected) and (stated == expected or _close(stated, expected))


def _faults(where: str, stated: Any, expected: Any) -> list[str]:
    """What :func:`differences` says."""
    if isinstance(expected, dict):
        if not isinstance(stated, dict) or set(stated) != set(expected):
            return [f"{where} must have the keys {sorted(expected)}"]
        return [fault for key, value in expected.items() for fault in _faults(f"{where}.{key}", stated[key], value)]
    if isinstance(expected, list | tuple):
        if not isinstance(stated, list | tuple) or len(stated) != len(expected):
            return [f"{where} must have {len(expected)} entries"]
        pairs = enumerate(zip(stated, expected, strict=True))
        return [fault for number, pair in pairs for fault in _faults(f"{where}[{number}]", *pair)]
    if _is_same(stated, expected):
        return []
    return [f"{where} must be {expected}, but got {stated}"]


def _close(stated: Any, expected: Any) -> bool:
    return type(expected) is float and math.isclose(stated, expected, rel_tol=PROOF_TOLERANCE)
