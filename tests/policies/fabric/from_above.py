"""The problem as the roof puts it together."""

from dataclasses import replace

from dse.cli.methods import upper_methods
from dse.fabric.contract import FabricType
from dse.run.executor import InProcessExecutor


class FromAbove(FabricType):
    """With the costs of the floors above."""

    def answer(self, posed, run):
        methods = upper_methods("fabric", posed.options, InProcessExecutor(), None)
        return super().answer(posed, replace(run, methods=methods))
