"""The options of ``dse campaign``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dse.run.options import Option, Options


@dataclass(frozen=True)
class CampaignOptions(Options):
    """The options of ``dse campaign``."""

    COMMAND: ClassVar[str] = "campaign"

    file: Annotated[
        str,
        Option("A campaign (YAML): problem, axes, what is chosen.", metavar="FILE", positional=True, is_source=True),
    ]
    yes: Annotated[bool, Option("Also answer a campaign of more cells or hours than are usual.")] = False
