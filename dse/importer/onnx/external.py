"""Files next to an ONNX model that hold the values of its tensors."""

import os
from pathlib import Path
from typing import Any

from hardware.input_files import located
from hardware.inputs import fail

MAX_BYTES = 2**31
"""Of a file that values are read from: it is read whole, for its digest."""


def folder_of(model: Path) -> Path:
    """The folder in which files next to ``model`` are looked for."""
    return Path(os.path.abspath(model)).parent if model.exists() else located(model).parent


def external_file(model: Path, tensor: Any) -> Path:
    """Where the values of ``tensor`` lie: a file in the folder of ``model``, which need not be there.

    Raises:
        InputError: the file would be outside the folder, also through a link, or values are beyond its end.
    """
    stated = {entry.key: entry.value for entry in tensor.external_data}
    location, key = stated.get("location", ""), f"values.{tensor.name}.location"
    folder = folder_of(model)
    file = Path(os.path.normpath(folder / location))
    inside = not os.path.isabs(location) and location != "" and file.is_relative_to(folder)
    if not inside or not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise fail(model, key, location, "must be a file in the model's folder")
    if not file.is_file():
        return file
    size, numbers = file.stat().st_size, (stated.get(name) or "0" for name in ("offset", "length"))
    offset, length = (int(number) if number.isdecimal() and len(number) < 19 else -1 for number in numbers)
    if offset < 0 or length < 0 or offset + length > size:
        span = f"offset {stated.get('offset', 0)}, length {stated.get('length', 0)}"
        raise fail(model, f"values.{tensor.name}", span, f"must lie within {file.name}, which has {size:,} bytes")
    if size > MAX_BYTES:
        raise fail(model, key, location, f"must be at most {MAX_BYTES:,} bytes to be read for small tensors")
    return file
