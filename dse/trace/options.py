"""The options of ``dse trace``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dse.run.options import Option, Options


@dataclass(frozen=True)
class TraceOptions(Options):
    """The options of ``dse trace``."""

    COMMAND: ClassVar[str] = "trace"

    files: Annotated[
        tuple[str, ...], Option("Profiles, one file per rank.", metavar="FILE", positional=True, is_source=True)
    ]
