"""``KEY=VALUE,…``, as plans are written in options."""

from collections.abc import Sequence

from hardware.inputs import Fault, InputError, fail, shown


def pairs_of(text: str) -> list[tuple[str, str]]:
    """(key, value) in the order of ``text``.

    Raises:
        InputError: parts without a sign of equality, one fault each.
    """
    pairs, faults = [], []
    for item in text.split(","):
        key, separator, value = item.partition("=")
        if not separator:
            faults.append(Fault("--plan", "", shown(item.strip()), "must be KEY=VALUE,… or a YAML file (.yaml)"))
        pairs.append((key.strip(), value.strip()))
    if faults:
        raise InputError(faults)
    return pairs


def require_once(keys: Sequence[str], where: str) -> None:
    """InputError at a key that is given twice."""
    for key in keys:
        if keys.count(key) > 1:
            raise fail(where, key, "", "the key is given twice")
