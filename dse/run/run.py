"""What an answer needs in addition to its problem: where work runs, how it reports, how it is stopped, where it is
recorded.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from dse.run.directory import write_bytes
from dse.run.executor import Executor, InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.run.tables import Tables


@dataclass(frozen=True)
class Run:
    """How one answer is made. The defaults make it in this process, silently, recording nothing.

    Attributes:
        executor: where independent parts run.
        progress: called with the progress of each phase.
        stop: called between two pieces of work.
        seed: of all random choices.
        journal: finished work of this run, read and extended; None where nothing is recorded.
        tables: what the run puts in tables, for its report.
        directory: the run directory, for files that are written during the work; None where there is none.
        methods: methods that upper floors add to the problem's own, or put in their place.
        time_limit_s: how long the work may take from :attr:`began_s`; infinite where there is no limit.
        item_timeout_s: how long a worker may take for one item, if there is a limit.
        began_s: when the run began (:func:`time.monotonic`).
    """

    executor: Executor = field(default_factory=InProcessExecutor)
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop
    seed: int = 0
    journal: Journal | None = None
    tables: Tables = field(default_factory=Tables)
    directory: Path | None = None
    methods: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: MappingProxyType({}))
    time_limit_s: float = math.inf
    item_timeout_s: float | None = None
    began_s: float = field(default_factory=time.monotonic)

    @property
    def spent_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began_s

    def with_share(self, share: float) -> Self:
        """The same run for a part of it that may take ``share`` of the time limit, counted from the beginning."""
        if math.isinf(self.time_limit_s):
            return self
        limit_s, stop = share * self.time_limit_s, self.stop
        return replace(
            self, time_limit_s=limit_s, stop=lambda: stop() or ("time limit" if self.spent_s > limit_s else None)
        )

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the run directory, whole or not at all; nothing where there is none.

        Raises:
            InputError: it cannot be written.
        """
        if self.directory is not None:
            write_bytes(self.directory / name, content.encode() if isinstance(content, str) else content)
