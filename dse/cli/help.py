"""What ``--help`` shows of a command: its answer, examples, and options in groups, on lines of 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

WIDTH = 80

FIRST, RUN = "", "Running"
"""Groups of options: those that people need first, and how a command runs."""


class GroupedOption(click.Option):
    """An option under a heading of ``--help``, without its aliases and without the range of its values."""

    def __init__(self, *args: Any, group: str = FIRST, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """(the option with its value, help)."""
        record = super().get_help_record(ctx)
        if record is None or self.is_flag:
            return record
        flags, described = record
        return flags.replace(", ".join(self.opts), self.opts[0], 1), described


class GroupedCommand(click.Command):
    """A command whose help has examples, and its options in groups.

    Args:
        examples: whole commands that run in a checkout.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The description, and the examples."""
        super().format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options by group: first those that people need first, last how the command runs."""
        groups: dict[str, list[tuple[str, str]]] = {FIRST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(parameter, "group", RUN if groups.get(RUN) else FIRST), []).append(record)
        last = groups.pop(RUN, [])
        for title, records in (*groups.items(), *([(RUN, last)] if last else [])):
            with formatter.section(title or "Options"):
                formatter.write_dl(records)
        if others := other_names(self):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"Names used by other tools are also accepted: {others}.")


def other_names(command: click.Command) -> str:
    """The aliases of a command's options."""
    from dse.run.options import ALIASES  # pydantic takes a while to import, and `dse --help` needs none

    names: Mapping[str, Sequence[str]] = {
        f"--{name.replace('_', '-')}": ALIASES[name]
        for name in (each.name for each in command.params)
        if name in ALIASES
    }
    return "; ".join(f"{', '.join(f'--{alias}' for alias in aliases)} for {name}" for name, aliases in names.items())
