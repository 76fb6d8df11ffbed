"""An answer in Python: the result with the problem that it answers, its tables, its figure and its check."""

import importlib.util
import shutil
from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, Generic, cast

import pyarrow as pa
from typing_extensions import TypeVar

from dse.problem import Posed, problem_type
from dse.report.charts import first_chart
from dse.report.render import fragment, page
from dse.report.units import memory_text
from dse.report.view import FolderFiles, View
from dse.results.check import faults_of
from dse.results.infeasibility import Infeasibility
from dse.results.result import Result, Status
from dse.run.directory import REPORT_FILE, RESULT_FILE, RunDirectory, inside, write_text
from dse.run.tables import Tables
from hardware.inputs import fail

SolutionT = TypeVar("SolutionT", covariant=True, default=Any)
MetricsT = TypeVar("MetricsT", covariant=True, default=Any)


class Answer(Generic[SolutionT, MetricsT]):
    """The answer that ``dse.codesign(…)`` and the other problems return; solution and metrics are typed by problem.

    Attributes:
        result: the result, as ``result.json`` has it.
        posed: the posed problem.
        view: the answer as shown: verdict, notes, tables and page.

    Args:
        result: a result that has passed the problem's checker.
        posed: the posed problem.
        tables: the tables of the run.
    """

    def __init__(self, result: Result, posed: Posed[Any, Any], tables: Tables | None = None) -> None:
        self.result = result
        self.posed = posed
        self._tables = tables if tables is not None else Tables()

    @property
    def value(self) -> float | None:
        """The value of the objective; None if there is no feasible answer."""
        return self.result.objective.value

    @property
    def unit(self) -> str:
        """The unit of value and bound."""
        return self.result.objective.unit

    @property
    def bound(self) -> float | None:
        """A value that no solution can beat; None if none is known."""
        return self.result.bound

    @property
    def gap(self) -> float | None:
        """|value − bound| / max(|value|, |bound|)."""
        return self.result.gap

    @property
    def status(self) -> Status:
        """``optimal`` (proven), ``feasible``, ``infeasible`` (proven), ``interrupted`` or ``unknown``."""
        return self.result.status

    @property
    def solution(self) -> SolutionT:
        """The solution in the user's own names: a dictionary whose type is in :mod:`dse.results.documents`."""
        return cast(SolutionT, self.result.solution)

    @property
    def metrics(self) -> MetricsT:
        """Further figures of the answer: a dictionary whose type is in :mod:`dse.results.documents`."""
        return cast(MetricsT, self.result.metrics)

    @property
    def infeasibility(self) -> Infeasibility | None:
        """Why no solution exists, if that is proven."""
        return self.result.infeasibility

    @cached_property
    def view(self) -> View:
        """Verdict, notes, tables and page."""
        return problem_type(self.result.command).view(self.result, self.posed, self._tables)

    @cached_property
    def _documents(self) -> Mapping[str, str | bytes]:
        return self.view.files()

    @cached_property
    def pictures(self) -> Mapping[str, str | bytes]:
        """The pictures and traces of a run directory by name; making them takes a while."""
        made = {name: make() for name, make in self.view.pictures.items()}
        return {name: content for name, content in made.items() if content is not None}

    @property
    def files(self) -> Mapping[str, str | bytes]:
        """The files of a run directory other than tables, report and result, by name."""
        return {**self._documents, **self.pictures}

    @property
    def file_names(self) -> list[str]:
        """The names of :attr:`files`, of pictures that cannot be made, and of folders."""
        return [*self._documents, *self.view.pictures, *self.view.folders]

    def tables(self) -> dict[str, Any]:
        """The tables of the run by name, and those of the view by title (or, without a title, by the first header).

        They are pandas DataFrames, or Arrow tables without pandas. A column without a header is called ``name``,
        ``value`` or ``column N``.
        """
        tables = dict(self._tables.items())
        for shown in self.view.tables:
            headers = _headers(shown.headers)
            columns = [[row[place] for row in shown.rows] for place in range(len(headers))]
            name = shown.title or next(filter(None, shown.headers), "answer")
            tables[_free(name, tables)] = pa.table(columns, names=headers)
        if importlib.util.find_spec("pandas") is None:
            return tables
        return {name: table.to_pandas() for name, table in tables.items()}

    def figure(self) -> Any:
        """The first chart of the report as a plotly figure, or a breakdown of the answer's time, memory or cost.

        None if there is no answer.
        """
        chart = first_chart(self.view)
        if chart is None:
            return None
        from dse.report.chart_plotly import figure_of  # loads plotly

        return figure_of(chart)

    def check(self) -> list[str]:
        """The violations that an independent check finds; empty if there are none."""
        return faults_of(self.result, self.posed)

    def save(self, path: str | Path) -> Path:
        """Write only the result (to a ``.json`` file), or result, tables, report and files (into a new directory)."""
        target = Path(path)
        if target.suffix == ".json":
            return write_text(target, self.result.to_json())
        problem = problem_type(self.result.command)
        arguments = problem.run_arguments(self.posed.options.document(), self.result.seed)
        self.write(RunDirectory(target, self.result.command, arguments, self.posed.run_digest, resume=False))
        return target / RESULT_FILE

    def write(self, directory: RunDirectory, is_drawn: bool = True) -> None:
        """Write everything that belongs to a run: tables, files, report, and the result last; pictures only if
        ``is_drawn``.

        A directory without a result is not finished, and ``--resume`` completes it.
        """
        with directory.writing():
            self._tables.write(directory.path)
            if self.value is not None:
                for name, content in (self.files if is_drawn else self._documents).items():
                    directory.write(name, content)
                for name, folder in self.view.folders.items():
                    _write_folder(inside(directory.path, name), folder)
                directory.write(REPORT_FILE, self.html(is_drawn))
        directory.write(RESULT_FILE, self.result.to_json())

    def html(self, is_drawn: bool = True) -> str:
        """The whole report as one self-contained page (``report.html`` of a run directory), with or
        without drawings.
        """
        return page(self.view, self.result.provenance, is_drawn)

    def _repr_html_(self) -> str:
        return fragment(self.view)

    def __repr__(self) -> str:
        return f"<{self.result.command} {self.posed.name}: {self.view.verdict}>"


def _write_folder(path: Path, folder: FolderFiles) -> None:
    """Write its files, if there is room for them.

    Raises:
        InputError: the disk has less room than they need.
    """
    need, free = folder.size_bytes(), shutil.disk_usage(path.parent).free
    if need > free:
        rule = f"its {folder.count:,} files need {memory_text(need)}, but the disk has only {memory_text(free)} free"
        raise fail(path, "", "", rule)
    folder.write(path)


def _headers(headers: tuple[str, ...]) -> list[str]:
    """Names of columns, all different."""
    names: list[str] = []
    for place, header in enumerate(headers, start=1):
        unnamed = "name" if place == 1 else "value" if len(headers) == 2 else f"column {place}"
        names.append(_free(header or unnamed, names))
    return names


def _free(name: str, taken: Collection[str]) -> str:
    """``name``, or with a number if it is taken."""
    numbered = (f"{name} {number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)
