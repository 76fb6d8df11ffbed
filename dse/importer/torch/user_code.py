"""Where in the user's code an operator was called, or an error raised: outside PyTorch and this package."""

import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

_PACKAGE = str(Path(__file__).parents[2])


class UserCode:
    """Tells the user's files from those of PyTorch and of this package.

    Args:
        torch: the library; None where it could not be imported.
    """

    def __init__(self, torch: Any) -> None:
        self._library = "<" if torch is None else str(Path(torch.__file__).parent)
        self._is_users: dict[str, bool] = {}

    def where(self) -> str:
        """``file:line`` of :meth:`line`."""
        file, line = self.line()
        return f"{file}:{line}"

    def line(self) -> tuple[str, int]:
        """(file, line) of the innermost frame that is the user's.

        Where a module of PyTorch is all there is, that of its ``forward``.
        """
        frame: FrameType | None = sys._getframe(1)
        forward = "", 0
        while frame is not None:
            file = frame.f_code.co_filename
            if self._owns(file):
                return file, frame.f_lineno
            if file.startswith(self._library) and frame.f_code.co_name == "forward":
                forward = forward if forward[0] else (file, frame.f_lineno)
            elif file.startswith(_PACKAGE) and forward[0]:
                return forward  # the importer has called the module: what lies outside is the program, not the model
            frame = frame.f_back
        return forward

    def line_of(self, error: BaseException) -> tuple[str, int] | None:
        """(file, line) of the innermost frame of ``error`` that is the user's; None where there is none."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if self._owns(frame.filename):
                return frame.filename, frame.lineno or 0
        return None

    def _owns(self, file: str) -> bool:
        if file not in self._is_users:
            self._is_users[file] = not file.startswith((self._library, _PACKAGE, "<"))
        return self._is_users[file]
