"""The extra that learning needs."""

from importlib.util import find_spec

from dse.importer.libraries import install
from hardware.inputs import fail

_NEEDED = ("torch", "safetensors", "gymnasium")


def ask_for_extra(command: str, key: str, value: str) -> None:
    """Refuse to run without the extra ``learn``.

    Raises:
        InputError: it is not installed; names the command and its option.
    """
    if any(find_spec(name) is None for name in _NEEDED):
        raise fail(command, key, value, f"needs the extra learn: {install('learn')}")
