"""A posed campaign: its run directory belongs to it by its name alone."""

from dataclasses import dataclass
from functools import cached_property

from dse.campaign.options import CampaignOptions
from dse.campaign.problem import Campaign
from dse.problem import Posed
from dse.results.result import digest

CampaignPosed = Posed[CampaignOptions, Campaign]


@dataclass(frozen=True)
class KeptByName(CampaignPosed):
    """A posed campaign whose run directory outlives a change of its file."""

    @cached_property
    def run_digest(self) -> str:
        """The same for a changed file: finished cells are found by their content, and the others are answered."""
        return digest(["campaign", self.problem.name])
