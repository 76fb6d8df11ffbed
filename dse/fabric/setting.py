"""How the placer searches by rules: their weights and the schedule of a chain, and settings that were tuned.

The weights are of relative terms (:func:`dse.fabric.rules.rule_scales`), and temperatures count in mean rises of the
cost, so a setting that was tuned on one fabric (:mod:`dse.fabric.tuning`) can be used on any; its file says on which.
"""

from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.fabric.rules import MIXTURE, RuleWeights
from dse.fabric.search.anneal import AnnealSettings
from hardware.documents import read_document
from hardware.fabrics import Fabric
from hardware.inputs import fail, validate
from hardware.spec_fields import NonNegative, StrictModel


@dataclass(frozen=True)
class Setting:
    """What is tuned.

    Attributes:
        weights: of the rules.
        initial_temperature, final_temperature, final_reach, attraction: as in
            :class:`dse.fabric.search.anneal.AnnealSettings`.
    """

    weights: RuleWeights
    initial_temperature: float
    final_temperature: float
    final_reach: float
    attraction: float

    @classmethod
    def untuned(cls) -> "Setting":
        """The mixture with the default schedule."""
        default = AnnealSettings()
        return cls(
            MIXTURE,
            default.initial_temperature,
            default.final_temperature,
            default.final_reach,
            default.attraction,
        )

    def schedule(self, settings: AnnealSettings) -> AnnealSettings:
        """Settings of a chain with this schedule; what is not tuned stays as it is."""
        return replace(
            settings,
            initial_temperature=self.initial_temperature,
            final_temperature=self.final_temperature,
            final_reach=self.final_reach,
            attraction=self.attraction,
        )

    def document(self) -> dict[str, Any]:
        """The setting as it is written."""
        return asdict(self)


Rule = Literal["hops", "wirelength", "max_load", "squared_load", "expert", "route", "off_chip"]
"""Names of rules in files."""

Share = Annotated[float, Field(gt=0, le=1)]


class WrittenSetting(StrictModel):
    """A :class:`Setting` as it is written; rules without a weight have weight 0."""

    weights: dict[Rule, NonNegative]
    initial_temperature: NonNegative
    final_temperature: Share
    final_reach: Share
    attraction: Annotated[float, Field(ge=0, le=1)]

    @field_validator("weights")
    @classmethod
    def _are_weights(cls, weights: dict[Rule, float]) -> dict[Rule, float]:
        RuleWeights(**weights)
        return weights

    def setting(self) -> Setting:
        """The setting."""
        weights = RuleWeights(**self.weights)
        return Setting(weights, self.initial_temperature, self.final_temperature, self.final_reach, self.attraction)


class TunedSetting(StrictModel):
    """A setting that was tuned, with where it comes from.

    Attributes:
        schema_: of the file.
        fabric: on which.
        simulator: its fingerprint (:func:`dse.fabric.evaluators.fingerprint.simulator_fingerprint`).
        first_graph, graphs: seeds of the training graphs (:func:`dse.fabric.cases.block_case`).
        moves_per_unit: moves of a chain, for each unit of a pipeline.
        simulations: of the whole run.
        seed: of the run.
        share_of_bound: simulated throughput over the bound, mean over the training graphs.
        mixture_share_of_bound: of the untuned mixture, on the same graphs.
        setting: the best one.
    """

    schema_: Literal["dse.fabric-rules/1"] = Field(alias="schema")
    fabric: Annotated[str, Field(min_length=1)]
    simulator: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    first_graph: Annotated[int, Field(ge=0)]
    graphs: Annotated[int, Field(ge=1)]
    moves_per_unit: Annotated[int, Field(ge=1)]
    simulations: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)]
    share_of_bound: NonNegative
    mixture_share_of_bound: NonNegative
    setting: WrittenSetting


def read_tuned(path: str | Path) -> TunedSetting:
    """The tuned setting of a file.

    Raises:
        InputError: an unreadable file, or any fault in it.
    """
    return validate(TunedSetting, read_document(path), path)


SHIPPED = "tuned.yaml"
"""The tuned setting of the package, next to this module."""


@dataclass(frozen=True)
class ChosenRules:
    """The rules and the schedule that a search uses.

    Attributes:
        setting: what it uses.
        note: why that is not a tuned one, a sentence; empty where it is.
    """

    setting: Setting
    note: str = ""


def tuned_for(fabric: Fabric, path: str | None = None) -> ChosenRules:
    """The setting in the file at ``path`` or, without one, the shipped setting if it was tuned on ``fabric``.

    Raises:
        InputError: a file at ``path`` that is unreadable or malformed, or was tuned under another simulator.
    """
    fingerprint = simulator_fingerprint(fabric)
    if path is not None:
        tuned = read_tuned(path)
        if tuned.simulator != fingerprint:
            rule = f"must be {fingerprint}, the simulator of {fabric.name}; tune rules for it (dse fabric tune)"
            raise fail(path, "simulator", tuned.simulator, rule)
        return ChosenRules(tuned.setting.setting())
    tuned = _shipped()
    if tuned.simulator == fingerprint:
        return ChosenRules(tuned.setting.setting())
    note = f"The rules in the package were tuned on {tuned.fabric}, not on {fabric.name}, so untuned rules were used."
    return ChosenRules(Setting.untuned(), note)


@cache
def _shipped() -> TunedSetting:
    with resources.as_file(resources.files("dse.fabric").joinpath(SHIPPED)) as path:
        return read_tuned(path)
