"""The file of a campaign, ``dse.campaign/1``."""

from typing import Annotated, Any, Literal

from pydantic import Field

from hardware.inputs import Document

SCHEMA = "dse.campaign/1"


class CampaignDocument(Document):
    """A campaign.

    Attributes:
        schema_: name and version of the format.
        name: of the campaign. A run directory belongs to one campaign by its name; the rest of the file may change.
        problem: the command that answers the cells, where no axis states it.
        fixed: options of all cells.
        axes: by name the values. The name is that of an option, with a list of its values or a range (``from``, ``to``,
            and ``step``, ``factor`` or ``count``); or it is any name, with options by label. An axis or a label may
            set ``problem``.
        exclude: cells that are left out: those that have all values of one of these entries (``axis: value`` or
            ``axis: [values]``).
        only: where it is given, cells that have none of these entries are left out.
        choose: the axes that the reader decides, such as the chip; the others are conditions. Without it, the first.
        baselines: further choices by name, with a value for each axis of ``choose``, that others are compared with.
        weights: how much a value of an axis counts where conditions are averaged; 1 where nothing is stated.
        pareto: two or three columns of numbers (``value``, axes, figures), each ``min`` or ``max``: the page shows,
            under each condition, the choices that no other one beats in all of them.
        cell_time_limit_s: after which a cell is stopped; null for no limit.
        check_share: of the cells that ``dse check`` answers again; all, where they are few.
    """

    schema_: Literal["dse.campaign/1"] = Field(alias="schema")
    name: Annotated[str, Field(min_length=1, max_length=100)]
    problem: str | None = None
    fixed: dict[str, Any] = Field(default_factory=dict)
    axes: Annotated[dict[str, Any], Field(min_length=1)]
    exclude: list[dict[str, Any]] = Field(default_factory=list)
    only: list[dict[str, Any]] = Field(default_factory=list)
    choose: list[str] = Field(default_factory=list)
    baselines: dict[str, dict[str, Any]] = Field(default_factory=dict)
    weights: dict[str, dict[str, Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]]] = Field(
        default_factory=dict
    )
    pareto: Annotated[dict[str, Literal["min", "max"]], Field(max_length=3)] = Field(default_factory=dict)
    cell_time_limit_s: Annotated[float, Field(gt=0, le=1e7)] | None = None
    check_share: Annotated[float, Field(gt=0, le=1)] = 0.05
