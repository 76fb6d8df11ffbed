"""The user's Python code: calling it, and where in it an operator was called or an error raised."""

import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

from dse.importer.libraries import Library, missing
from hardware.inputs import InputError, fail, one_line

_PACKAGE = str(Path(__file__).parents[1])

_FRAMEWORKS = ("torch", "jax", "jaxlib")
"""Libraries that run the user's code, so that their frames are not the user's."""

_OPTIONAL: tuple[Library, ...] = ("torch", "jax")
"""Those of them that a user's file may need, and that need not be there."""

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of libraries, also of those that PYTHONPATH adds from another environment."""

_MAX_PRINTED_LINES = 20
"""Lines of a user's code that are shown, of each part of it that is called."""


def is_installed(path: Path) -> bool:
    """Whether a resolved path is that of Python or of a library."""
    return not _INSTALLED.isdisjoint(path.parts) or any(path.is_relative_to(folder) for folder in _python_folders())


@cache
def _python_folders() -> tuple[Path, ...]:
    return tuple(Path(folder).resolve() for folder in sysconfig.get_paths().values())


class UserCode:
    """Tells the user's files from those of this package and of the frameworks that are loaded."""

    def __init__(self) -> None:
        loaded = [sys.modules[name].__file__ for name in _FRAMEWORKS if sys.modules.get(name) is not None]
        self._libraries = tuple(str(Path(file).parent) for file in loaded if file is not None)
        self._is_users: dict[str, bool] = {}

    def where(self) -> str:
        """``file:line`` of :meth:`line`."""
        file, line = self.line()
        return f"{file}:{line}"

    def line(self) -> tuple[str, int]:
        """(file, line) of the innermost frame that is the user's.

        Where a module of the framework is all there is, that of its ``forward``.
        """
        frame: FrameType | None = sys._getframe(1)
        forward = "", 0
        while frame is not None:
            file = frame.f_code.co_filename
            if self._owns(file):
                return file, frame.f_lineno
            if file.startswith(self._libraries) and frame.f_code.co_name == "forward":
                forward = forward if forward[0] else (file, frame.f_lineno)
            elif file.startswith(_PACKAGE) and forward[0]:
                return forward  # the importer has called the module: what lies outside is the program, not the model
            frame = frame.f_back
        return forward

    def line_of(self, error: BaseException) -> tuple[str, int] | None:
        """(file, line) of the innermost frame of ``error`` that is the user's, in no library; None without one."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if self._owns(frame.filename) and not is_installed(Path(frame.filename).resolve()):
                return frame.filename, frame.lineno or 0
        return None

    def _owns(self, file: str) -> bool:
        if file not in self._is_users:
            self._is_users[file] = not file.startswith((*self._libraries, _PACKAGE, "<"))
        return self._is_users[file]


def guarded(name: str, action: Callable[[], Any]) -> Any:
    """What ``action`` returns; any exception of the user's code becomes one line with the user's file and line.

    An exit and any other BaseException counts as one; only Ctrl-C ends the program. What the user's code prints goes to
    stderr, with the file's name, since stdout is for the answer.

    Raises:
        InputError: the action failed.
    """
    try:
        with _printing_to_stderr(name):
            return action()
    except InputError:
        raise
    except BaseException as error:
        if type(error) is KeyboardInterrupt:
            raise
        for library in _OPTIONAL:
            if isinstance(error, ModuleNotFoundError) and error.name == library:
                raise missing(library, name, error) from error
        line = UserCode().line_of(error)
        file, key = (name, "") if line is None else (line[0], f"line {line[1]}")
        words = _words(error)
        if isinstance(error, NotImplementedError) and "meta" in words:
            words = f"an operator has no shape rule for the meta device ({words[:120]})"
        raise fail(file, key, "", f"{type(error).__name__}: {words[:300]}") from error


def _words(error: BaseException) -> str:
    """What the exception says of itself; its type where it says nothing, or fails at it."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # whatever the user's own __str__ raises
        words = ""
    return words or type(error).__name__


@contextmanager
def _printing_to_stderr(name: str) -> Iterator[None]:
    """Lines that the user's code prints, as messages on stderr."""
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        lines = [line for line in printed.getvalue().splitlines() if line.strip()]
        for line in lines[:_MAX_PRINTED_LINES]:
            sys.stderr.write(f"dse: {one_line(name, 200)}: {one_line(line, 200)}\n")
