"""What ``--help`` shows: three examples that can be run, options in groups, lines of 80 columns."""

import shlex

import click
import pytest

from dse.cli import group
from dse.cli.help import FIRST, RUN, GroupedCommand
from dse.cli.methods import with_upper_defaults
from dse.cli.side_by_side import values_of
from dse.problem import pose, registered
from dse.run.options import ALIASES

FIRST_OPTIONS = 12


def commands(command=group, name="dse", parent=None):
    """(command, its context) of all commands and their verbs."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=80, terminal_width=80)
    yield command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from commands(command.get_command(context, each), each, context)


ALL = {context.command_path: (command, context) for command, context in commands()}
PROBLEMS = [f"dse {each.name} {each.verb}".strip() for each in registered().values()]


@pytest.mark.parametrize("path", ALL)
def test_help_fits_80_columns(path):
    command, context = ALL[path]
    assert max(map(len, command.get_help(context).splitlines())) <= 80


@pytest.mark.parametrize("path", [path for path in ALL if not isinstance(ALL[path][0], click.Group)])
def test_help_has_three_examples_of_its_command(path):
    examples = ALL[path][0].examples
    assert len(examples) == 3
    assert all(f"{example} ".startswith(f"{path} ") for example in examples)
    assert len(set(examples)) == 3


@pytest.mark.parametrize(("path", "example"), [(path, each) for path in PROBLEMS for each in ALL[path][0].examples])
def test_an_example_poses_a_problem(path, example):
    command, context = ALL[path]
    words = shlex.split(example)[len(path.split()) :]
    given = command.make_context(path, words, parent=context.parent).params
    problem = registered()[path.split()[1]].load()
    names = problem.Options.__dataclass_fields__
    own = {name: value for name, value in given.items() if name in names}
    for changed in [{problem.side_by_side: value} for value in values_of(problem, given)] or [{}]:
        options = problem.Options(**own | changed)
        assert pose(problem, with_upper_defaults(problem.name, options)).digest


@pytest.mark.parametrize("path", [path for path in ALL if path not in PROBLEMS])
def test_other_examples_have_options_that_exist(path):
    command, context = ALL[path]
    if isinstance(command, click.Group):
        return
    for example in command.examples:
        words = shlex.split(example)[len(path.split()) :]
        command.make_context(path, words, parent=context.parent)


LEARNING = [path for path in ALL if path.startswith(("dse pretrain ", "dse fabric ")) and path not in PROBLEMS]


@pytest.mark.parametrize("path", LEARNING)
def test_help_says_what_is_answered(path):
    command, _ = ALL[path]
    assert command.help
    assert len(" ".join(command.help.split()).split(". ")) > 1, "what it does, then what it answers"
    assert {each.group for each in command.params if isinstance(each, click.Option)} - {FIRST, RUN}


@pytest.mark.parametrize("path", [*PROBLEMS, *LEARNING])
def test_options_stand_in_groups_and_few_come_first(path):
    command, _ = ALL[path]
    assert isinstance(command, GroupedCommand)
    options = [each for each in command.params if isinstance(each, click.Option)]
    first = [each for each in options if not each.group]
    assert 4 <= len(first) <= FIRST_OPTIONS
    assert {"out", "json", "time_limit", *(["notes"] if path in PROBLEMS else [])} <= {each.name for each in first} | {
        each.name for each in options if "no effect" in (each.help or "")
    }
    assert any(each.group == RUN for each in options)


def test_an_alias_is_shown_once_and_accepted():
    command, context = ALL["dse plan"]
    shown = " ".join(command.get_help(context).replace("-\n  ", "-").split())
    for alias in ALIASES["global_batch"]:
        assert shown.count(f"--{alias}") == 1
        assert command.make_context("plan", ["llama3-8b", f"--{alias}", "64"]).params["global_batch"] == 64


def test_a_range_is_stated_where_it_is_broken(dse):
    answer = dse("plan", "llama3-8b", "--accelerators", 0)
    assert answer.code == 2
    assert "0 is not in the range 1<=x<=1048576." in answer.err
