"""``dse reproduce``: a paper's tables and figures from fresh runs, beside the paper's own numbers."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dse.cli import EXIT_INTERRUPTED
from dse.cli.run import RunSettings, executor_for, progress, settings_from, stop_signal, unmirrored_options
from dse.cli.terminal import console, print_table
from dse.reproduce.gigaplacer import parts as gigaplacer
from dse.reproduce.gigaplacer.cases import chosen_problems
from dse.reproduce.gigaplacer.study import Study as PlacementStudy
from dse.reproduce.mcm import parts as mcm
from dse.reproduce.mcm.study import Study, StudyBudget
from dse.reproduce.output import budget, to_json, write
from dse.reproduce.phaze.context import DEFAULT_BUDGET, Context
from dse.reproduce.phaze.parts import WITHOUT_SEARCH, chosen_models, chosen_parts, reproduce
from dse.reproduce.phaze.published import read_paper
from dse.reproduce.section import Reproduction
from dse.results.result import digest, document_of
from dse.run.directory import JOURNAL_FILE, REPORT_FILE, RunDirectory
from dse.run.journal import Journal
from dse.run.owned_folder import OwnedFolder
from dse.wafer.options import MOVES
from hardware.inputs import fail
from policies.partition.contenders import ablations, contenders, identity
from policies.partition.methods import ask_for_extra, is_installed

_COST_MODELS = ("consistent", "phaze-2024")


@click.command("reproduce")
@click.argument("paper")
@click.argument("parts", nargs=-1, metavar="[TABLE…]")
@click.option("--models", metavar="NAME,…", help="Some of the paper's models (default: all).")
@click.option("--cost-model", type=click.Choice([*_COST_MODELS, "both"]), default="both", show_default=True)
@click.option("--samples", type=click.IntRange(1, 10**6), default=300, show_default=True, help="A method (mcm).")
@click.option("--seeds", type=click.IntRange(1, 1000), default=5, show_default=True, help="A method (mcm).")
@click.option(
    "--moves", type=click.IntRange(1, 10**12), default=MOVES, show_default=True, help="A search (gigaplacer)."
)
@unmirrored_options
def command(
    paper: str,
    parts: tuple[str, ...],
    models: str | None,
    cost_model: str,
    samples: int,
    seeds: int,
    moves: int,
    **options: Any,
) -> None:
    """Print the tables and figures of PAPER (phaze, mcm, gigaplacer) beside ours, from a fresh run.

    TABLE is any of table2, common, table4, table5, fig4, fig6, fig7, fig8, fig9 of phaze, table2, table3, simulator,
    ablation, fig5, fig6, fig7 of mcm, and table1, fig7, fig8, refinement, slicing-tree of gigaplacer; all of them when
    none is named. Every search has a limit of its own; what is not proven by then is printed with its gap.

    All of phaze takes 20 to 30 minutes on two idle cores, one model (--models bert-large) about a minute. All but fig7
    of mcm runs --samples evaluations of every method for --seeds seeds: 15 to 40 minutes each on two cores; there,
    --models names graphs in place of the paper's. gigaplacer runs searches of --moves moves on the twenty cases of the
    contest: an hour on two cores; there, --models names cases (A,D), folders, or what `dse wafer` takes.
    """
    settings = settings_from(options)
    if paper == gigaplacer.NAME:
        _finish(_gigaplacer(settings, parts, models, moves), settings)
    elif paper == "mcm":
        _finish(_mcm(settings, parts, models, StudyBudget(samples, seeds)), settings)
    else:
        _finish(_phaze(settings, paper, parts, models, cost_model), settings)


def _mcm(settings: RunSettings, parts: tuple[str, ...], models: str | None, budget: StudyBudget) -> Reproduction:
    chosen = mcm.chosen_parts(parts)
    asked = {"paper": "mcm", "parts": list(chosen), "models": models, "samples": budget.samples, "seeds": budget.seeds}
    work_s = 0.0 if chosen == ("fig7",) else 600.0
    learned, variants = (contenders(), ablations()) if is_installed() else ({}, {})
    if work_s:
        ask_for_extra("dse reproduce", "TABLE", ", ".join(chosen))
    learning = identity() if work_s else None
    with (
        _journal(settings, asked, digest([asked, learning])) as journal,
        progress(settings) as report,
        stop_signal(settings) as stop,
        executor_for(settings, work_s) as executor,
    ):
        study = Study(learned, variants, executor, journal, report, stop, budget, settings.seed)
        return mcm.reproduce(chosen, () if models is None else models.split(","), study)


def _gigaplacer(settings: RunSettings, parts: tuple[str, ...], models: str | None, moves: int) -> Reproduction:
    chosen, problems = gigaplacer.chosen_parts(parts), chosen_problems(models)
    asked = {"paper": gigaplacer.NAME, "parts": list(chosen), "models": models, "moves": moves}
    # Half a minute a search with the moves of ``dse wafer``.
    work_s = len(problems) * (5 + 30 * moves / MOVES)
    with (
        _journal(settings, asked, digest(document_of(problems))) as journal,
        progress(settings) as report,
        stop_signal(settings) as stop,
        executor_for(settings, work_s) as executor,
    ):
        study = PlacementStudy(problems, executor, journal, report, stop, moves, settings.seed)
        return gigaplacer.reproduce(chosen, study)


def _phaze(
    settings: RunSettings, paper: str, parts: tuple[str, ...], models: str | None, cost_model: str
) -> Reproduction:
    published = read_paper(paper)
    chosen, names = chosen_parts(parts), chosen_models(published, models)
    cost_models = _COST_MODELS if cost_model == "both" else (cost_model,)
    asked = {"paper": paper, "parts": list(chosen), "models": list(names), "cost_models": list(cost_models)}
    with (
        _journal(settings, asked, digest(published.model_dump(mode="json"))) as journal,
        progress(settings) as report,
        stop_signal(settings) as stop,
        executor_for(settings, 0.0 if set(chosen) <= set(WITHOUT_SEARCH) else 60.0 * len(names)) as executor,
    ):
        context = Context(published, names, cost_models, executor, journal, DEFAULT_BUDGET, report, stop, settings.seed)
        about = {**asked, "limits_s": DEFAULT_BUDGET.limits_s, "time_limit_s": settings.time_limit}
        return reproduce(context, chosen, {**about, "workers": executor.workers, "seed": settings.seed})


def _finish(done: Reproduction, settings: RunSettings) -> None:
    """Write, print and exit."""
    if settings.out is not None:
        write(done, settings.out)
    if settings.json:
        click.echo(to_json(done), nl=False)
    elif not settings.quiet:
        _show(done, settings.out)
    sys.exit(EXIT_INTERRUPTED if done.stopped == "interrupted" else 0)


@contextmanager
def _journal(settings: RunSettings, asked: dict[str, Any], paper_digest: str) -> Iterator[Journal]:
    """The journal of all searches: in the run directory, or in a folder that is gone afterwards."""
    if settings.resume and settings.out is None:
        raise fail("dse", "--resume", "", "needs the directory of the run: --out DIR")
    if settings.out is not None:
        arguments = {**asked, "seed": settings.seed}
        directory = RunDirectory(settings.out, "reproduce", arguments, paper_digest, settings.resume)
        with Journal(directory.path / JOURNAL_FILE) as journal:
            yield journal
        return
    with (
        OwnedFolder("dse-reproduce-", Path(tempfile.gettempdir())) as folder,
        Journal(folder.path / JOURNAL_FILE) as journal,
    ):
        yield journal


def _show(done: Reproduction, out: Path | None) -> None:
    screen = console()
    screen.print(f"[bold]{done.paper}[/bold]: {done.citation}", soft_wrap=True)
    screen.print(budget(done), soft_wrap=True)
    for section in done.sections:
        screen.print(f"\n[bold]{section.title}[/bold]", soft_wrap=True)
        for table in section.tables:
            print_table(table.headers, table.rows)
        for note in section.notes:
            screen.print(f"· {note}", soft_wrap=True, markup=False)
    if out is not None:
        screen.print(f"\nreport: {out / REPORT_FILE}", soft_wrap=True)
