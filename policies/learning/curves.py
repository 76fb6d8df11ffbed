"""Curves for TensorBoard: scalars by step, written by tensorboardX."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardware.inputs import fail

FOLDER = "tensorboard"
"""Of a run's curves, in its directory."""

_FILES = "*tfevents*"


@dataclass(frozen=True)
class CurvePoint:
    """One iteration of a training.

    Attributes:
        samples: that were learned from until its end.
        scalars: by name, all finite.
    """

    samples: int
    scalars: Mapping[str, float]


class CurveWriter:
    """Writes the curves of one run; what was appended is on the disk.

    tensorboardX's ``SummaryWriter`` hands its events to a thread, so that they may still be missing after its
    ``flush``. Its ``EventsWriter`` writes them at once.

    Args:
        folder: of the event files; it is made with the first scalars.
        first_step: of what will be appended. Scalars from this step on in earlier files of the folder are superseded,
            and TensorBoard hides them; where it is 0, nothing else is in them, and they are removed.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        self._folder, self._first_step = folder, first_step
        self._events: Any = None

    def append(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add the scalars of a step by their tags.

        Raises:
            InputError: they cannot be written, as when the disk is full.
        """
        if not scalars:
            return
        # Only here: it brings PyTorch along, which takes a process that writes no curves a second.
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        try:
            if self._events is None:
                self._events = self._opened()
            self._events.write_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
            self._events.flush()
        except OSError as error:
            raise fail(self._folder, "", "", f"cannot be written: {error.strerror or error}") from error

    def _opened(self) -> Any:
        """The writer of tensorboardX."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._folder.mkdir(parents=True, exist_ok=True)
        earlier = list(self._folder.glob(_FILES))
        # A name has the time in seconds; two files of one second must not be the same.
        events = EventsWriter(str(self._folder / "events"), f".{time.time_ns()}")
        if earlier:
            start = SessionLog(status=SessionLog.START)
            events.write_event(Event(wall_time=time.time(), step=self._first_step, session_log=start))
            events.flush()
        if self._first_step == 0:
            for path in earlier:
                path.unlink()
        return events

    def close(self) -> None:
        """Close the file; what is appended later goes into another one."""
        if self._events is not None:
            self._events.close()
            self._events = None
