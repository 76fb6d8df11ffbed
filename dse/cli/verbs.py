"""Commands of several verbs: ``dse NAME VERB``, where a problem states a verb of its own.

Its own verb answers the problem; further ones come from the floors above.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import click

from dse.cli.problem_command import command_of
from dse.problem import Registered
from hardware.inputs import choose


@dataclass(frozen=True)
class UpperVerb:
    """A verb from a floor above, before it is imported.

    Attributes:
        summary: one line for people.
        command: where its click command is, ``module:attribute``.
    """

    summary: str
    command: str

    def load(self) -> click.Command:
        """Its command."""
        module, name = self.command.split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


Verbs = Mapping[str, UpperVerb]

UPPER_VERBS: Mapping[str, Verbs] = MappingProxyType(
    {
        "fabric": MappingProxyType(
            {
                "train": UpperVerb(
                    "Collect labelled placements and train the learned cost model on them.",
                    "dse.cli.fabric:train_command",
                ),
                "evaluate": UpperVerb(
                    "Print the accuracy of cost models on graphs that they were not trained on.",
                    "dse.cli.fabric:evaluate_command",
                ),
                "tune": UpperVerb(
                    "Tune the weights of the placer's rules on random graphs.", "dse.cli.fabric_tune:command"
                ),
            }
        )
    }
)
"""By problem and verb."""


def command_or_verbs(problem: Registered, upper: Mapping[str, Verbs] = UPPER_VERBS) -> click.Command:
    """The command of a problem: a group where the problem states a verb."""
    if not problem.verb:
        return command_of(problem.load())
    return _Verbs(problem, upper.get(problem.name, {}))


class _Verbs(click.Group):
    """The verbs of a problem, each imported when it is called."""

    def __init__(self, problem: Registered, upper: Verbs) -> None:
        super().__init__(problem.name, help=problem.summary, subcommand_metavar="VERB [OPTIONS]")
        self._problem = problem
        self._upper = upper

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [self._problem.verb, *self._upper]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == self._problem.verb:
            return command_of(self._problem.load())
        return self._upper[cmd_name].load() if cmd_name in self._upper else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-"):
            choose(f"dse {self._problem.name}", "VERB", args[0], self.list_commands(ctx), "verb")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = {self._problem.verb: self._problem.summary} | {name: each.summary for name, each in self._upper.items()}
        with formatter.section("Commands"):
            formatter.write_dl(list(rows.items()))
