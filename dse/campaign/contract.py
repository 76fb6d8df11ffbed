"""``dse campaign`` by the contract of a problem."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dse.campaign import check
from dse.campaign.compare import compared
from dse.campaign.formats import MetricsDocument, SolutionDocument
from dse.campaign.options import CampaignOptions
from dse.campaign.posed import CampaignPosed
from dse.campaign.posing import posed_campaign
from dse.campaign.problem import Campaign
from dse.campaign.report import view
from dse.campaign.rows import SETTLED, columns_of, figures_of, rows_of
from dse.campaign.solve import rows_of_cells
from dse.campaign.table import TABLE, table_of
from dse.problem import ProblemType, result_of
from dse.report.view import View
from dse.results.result import Result
from dse.run.run import Run
from dse.run.tables import Tables
from hardware.input_files import runs_code

METHOD = "cells"


class CampaignType(ProblemType[CampaignOptions, Campaign]):
    """Every combination of the values of a few axes, each answered by its problem."""

    name = "campaign"
    help = (
        "Answer every combination of the values of a few axes (models, chips, workloads, …), and say which choice is "
        "best where.\n\nFILE states the axes and the command that answers a cell (docs/guides/run-a-campaign.md). With "
        "--out and --resume, a changed FILE answers only what is new. A cell that fails is a row of the table."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "dse campaign docs/examples/campaign.yaml --out runs/campaign",
        "dse campaign docs/examples/campaign.yaml --out runs/campaign --resume",
        "dse campaign docs/examples/campaign.yaml --workers 8 --json",
    )
    Options: ClassVar[type[Any]] = CampaignOptions
    Solution = SolutionDocument
    Metrics: ClassVar[Any] = MetricsDocument
    unchecked = ("seconds",)
    steering: ClassVar[tuple[str, ...]] = ("yes",)
    movable: ClassVar[tuple[str, ...]] = ("file",)  # in Python, a dictionary is called by its content

    def pose(self, options: CampaignOptions) -> CampaignPosed:
        """The cells, once every value is known to pose one."""
        return posed_campaign(options)

    def answered_by(self, options: CampaignOptions) -> tuple[str, ...]:
        """Cells have methods of their own."""
        return (METHOD,)

    def predicted_s(self, posed: CampaignPosed) -> float:
        """The sum over the cells."""
        return posed.problem.predicted_s

    def answer(self, posed: CampaignPosed, run: Run) -> Result:
        """All cells, or those that were finished until the run was stopped."""
        started = time.perf_counter()
        rows, stopped = rows_of_cells(posed.problem, posed.inputs, run)
        settled = sum(row.status in SETTLED for row in rows)
        labels, columns = check.labels_of(posed), columns_of(rows)
        result = result_of(
            self.name,
            posed,
            method=METHOD,
            seed=run.seed,
            value=float(settled),
            bound=float(len(rows)),
            status="interrupted" if stopped == "interrupted" else None,
            solution={"cells": labels | columns, "figures": figures_of(rows)},
            evaluations=sum(row.status != "open" for row in rows),
            seconds=time.perf_counter() - started,
        )
        if stopped is not None:
            result.metrics["stopped"] = stopped
        result.metrics.update(check.expected_metrics(posed, rows, result))
        result.metrics["seconds"] = [row.seconds for row in rows]
        run.tables.put(TABLE, table_of(posed, rows))
        return result

    def faults(self, result: Result, posed: CampaignPosed) -> list[str]:
        """A random share of the cells answered again; everything else from the cells."""
        return check.violations(result, posed)

    def open_claims(self, result: Result, posed: CampaignPosed) -> Mapping[str, str]:
        """The cells that are not in the sample."""
        campaign, rows = posed.problem, rows_of(result.solution["cells"], result.solution["figures"])
        claims = {}
        if not runs_code() and any(check.is_of_code(campaign.settings(cell)) for cell in campaign.cells):
            claims["solution (cells of Python files)"] = "may need --run-code"
        count, all_of_them = len(check.sample(rows, posed, result.seed)), len(rows)
        if count == all_of_them:
            return claims
        answered = len(check.repeatable(rows))
        if count == answered:
            return claims | {"solution (cells stopped or open)": "depend on when they were stopped"}
        reason = f"{count:,} of {all_of_them:,} cells were answered again; --prove answers all of them again"
        return claims | {
            "solution.cells": reason,
            "solution.figures": reason,
            "metrics.choices": "follows from the cells",
        }

    def proof_faults(self, result: Result, posed: CampaignPosed) -> list[str] | None:
        """All cells answered again."""
        return check.violations(result, posed, all_cells=True)

    def view(self, result: Result, posed: CampaignPosed, tables: Tables) -> View:
        """Choices, the best one by two conditions, what failed, the cells."""
        del tables
        return view(result, posed)

    def compared(self, results: Sequence[Result]) -> Mapping[str, tuple[Any, ...]]:
        """The values of cells that differ, and the choices of least regret."""
        return compared(results)

    def is_finished(self, result: Result) -> bool:
        """Whether another run would answer no cell: none is open, and none was stopped by a limit."""
        counts = result.metrics.get("counts", {})
        return not counts.get("open") and not counts.get("stopped")


PROBLEM = CampaignType()
