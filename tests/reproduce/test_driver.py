"""One driver for all papers: options, parts, journal, what is skipped, and what is written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import pyarrow.parquet as pq
import pytest

from dse.reproduce.driver import chosen_parts, job_of, journal_of, reproduce
from dse.reproduce.output import COMPARISONS_TABLE, DOCUMENT_FILE, write
from dse.reproduce.paper import Paper, Part, Posed
from dse.reproduce.papers import PAPERS, paper_named, summary_of
from dse.reproduce.section import Comparison, Section, Table
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.options import Option, Options
from dse.run.progress import StoppedError
from dse.run.run import Run
from hardware.inputs import InputError


@dataclass(frozen=True)
class SquareOptions(Options):
    COMMAND: ClassVar[str] = "reproduce square"

    numbers: Annotated[str | None, Option("Some numbers.", metavar="N,…")] = None
    limit: Annotated[int, Option("The largest number.", min=1, max=9)] = 3


@dataclass(frozen=True)
class Context:
    numbers: tuple[int, ...]
    run: Run
    searched: list


def squares(context):
    for number in context.numbers:
        if str(number) not in context.run.journal:
            context.searched.append(number)
            context.run.journal.append(str(number), number**2)
    values = [context.run.journal[str(number)] for number in context.numbers]
    lines = (
        Comparison("2", "", "square", "", values[1], 4.0),
        Comparison("2", "", "cube", "", values[1], 8.0, "a square is no cube"),
        Comparison("3", "", "square", "", values[-1], None),
    )
    return Section("squares", "Squares", (Table(("square",), tuple((str(value),) for value in values)),), (), lines)


def test_numbers_far_from_the_papers_are_listed_with_their_causes(journal, tmp_path):
    def far(context):
        lines = (
            Comparison("a", "x", "time", "s", 2.0, 1.0, cause="slow"),
            Comparison("a", "x", "cost", "", 0.7, 1.0, cause="slow"),
            Comparison("b", "x", "time", "s", 1.3, 1.0, cause="slow"),
            Comparison("a", "y", "time", "s", 0.5, 1.0),
            Comparison("a", "y", "near", "", 1.2, 1.0, cause="not to be seen"),
            Comparison("a", "y", "unlike", "", 9.0, 1.0, "another quantity", "not to be seen"),
        )
        return Section("squares", "Squares", (Table(("square",), (("4",),)),), (), lines)

    done = reproduce(job_of(paper([], squares=far), ("squares",), SquareOptions()), run_with(journal))
    _, table = done.sections[0].tables
    assert table.headers == ("under", "more than 20 % from the paper's value (ours / paper's)", "cause")
    assert table.rows == (
        ("x", "a: time 2.00×, cost 0.70×; b: time 1.30×", "slow"),
        ("y", "a: time 0.50×", "not known"),
    )
    write(done, tmp_path)
    rows = pq.read_table(tmp_path / f"{COMPARISONS_TABLE}.parquet").to_pylist()
    assert [row["cause"] for row in rows] == ["slow", "slow", "slow", "not known", None, None]
    (section,) = json.loads((tmp_path / DOCUMENT_FILE).read_text())["sections"]
    assert [each["cause"] for each in section["comparisons"]] == [row["cause"] for row in rows]


def test_zeros_and_changes_of_another_sign_are_far_from_the_papers():
    lines = (
        Comparison("a", "", "cuts", "", 5.0, 0.0, cause="other cuts"),
        Comparison("a", "", "adapters", "", 0.0, 4.0, cause="other cuts"),
        Comparison("a", "", "change", "%", 1.0, -3.0, cause="other cuts"),
        Comparison("a", "", "smaller change", "%", -2.0, -3.0, cause="other cuts"),
        Comparison("a", "", "same change", "%", -3.1, -3.0, cause="other cuts"),
        Comparison("a", "", "nothing", "", 0.0, 0.0, cause="other cuts"),
        Comparison("a", "", "unlike", "", 5.0, 0.0, "another quantity"),
        Comparison("a", "", "not made", "", None, 5.0),
    )
    assert [each.differs_much for each in lines] == [True] * 4 + [False] * 4
    assert [each.ratio for each in lines[:3]] == [None, 0.0, None]
    (table,) = Section("squares", "Squares", (), (), lines).with_differences().tables
    # Nothing here depends on a cost model.
    assert table.headers == ("more than 20 % from the paper's value (ours / paper's)", "cause")
    numbers = "a: cuts 5 for 0, adapters 0 for 4, change 1 for -3 %, smaller change -2 for -3 %"
    assert table.rows == ((numbers, "other cuts"),)


def stopping(context):
    raise StoppedError("time limit")


def note(context):
    return Section("note", "A note", (), ("nothing is searched",))


def paper(searched, missing=None, **parts):
    def pose(options, wanted):
        numbers = tuple(range(1, options.limit + 1))
        return Posed(
            settings={"numbers": list(numbers)},
            budget=f"{len(numbers)} numbers.",
            identity=None,
            predicted_s={"squares": 40.0, "figure": 90.0, "note": 0.0},
            context=lambda run: Context(numbers, run, searched),
        )

    made = {
        "squares": Part("Squares", parts.get("squares", squares), parts.get("squares_missing")),
        "figure": Part("A figure", parts.get("figure", stopping), missing),
        "note": Part("A note", note),
    }
    return Paper("square", "Squares.", "Pythagoras", SquareOptions, made, pose, {"drawing": "figure"})


def run_with(journal, stop=lambda: None, progress=lambda *_: None):
    return Run(InProcessExecutor(), progress, stop, 5, journal)


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield journal


def test_the_parts_that_are_named_are_made_in_the_papers_order(journal):
    assert chosen_parts(paper([]), ("note", "squares")) == ("squares", "note")
    assert chosen_parts(paper([]), ()) == ("squares", "figure", "note")
    assert chosen_parts(paper([]), ("drawing",)) == ("figure",)
    done = reproduce(job_of(paper([]), ("note", "squares"), SquareOptions()), run_with(journal))
    assert [section.part for section in done.sections] == ["squares", "note"]
    assert done.settings["parts"] == ["squares", "note"]
    assert (done.settings["numbers"], done.settings["seed"], done.settings["workers"]) == ([1, 2, 3], 5, 1)
    assert done.summary.endswith("3 numbers.")
    assert done.stopped is None


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (("sqares",), {}, "did you mean squares"),
        ((), {"limit": 0}, "--limit: 0"),
        ((), {"limit": "2"}, "--limit"),
        ((), {"numbers": 3}, "--numbers"),
    ],
    ids=str,
)
def test_bad_parts_and_options_are_refused_in_one_line(names, options, expected):
    with pytest.raises(InputError, match=expected) as caught:
        job_of(paper([]), names, SquareOptions(**options))
    assert len(str(caught.value).splitlines()) == 1


def test_a_skipped_part_says_why_in_section_and_document(journal, tmp_path):
    missing = "needs what is not installed"
    done = reproduce(job_of(paper([], missing), (), SquareOptions()), run_with(journal))
    assert [section.skipped for section in done.sections] == [None, missing, None]
    assert done.sections[1].notes == (missing,)
    assert done.sections[1].title == "A figure"
    assert done.stopped is None
    write(done, tmp_path / "out")
    document = json.loads((tmp_path / "out" / DOCUMENT_FILE).read_text())
    assert [section["skipped"] for section in document["sections"]] == [None, missing, None]
    assert f"Skipped: {missing}" in (tmp_path / "out" / "report.html").read_text()
    rows = pq.read_table(tmp_path / "out" / f"{COMPARISONS_TABLE}.parquet").to_pylist()
    assert [row["reason"] for row in rows if row["part"] == "figure"] == [f"skipped: {missing}"]


@pytest.mark.parametrize("name", PAPERS)
def test_a_quick_run_has_options_of_its_own(name):
    paper = paper_named(name)
    defaults, quick = paper.options().document(), paper.options(**paper.quick).document()
    assert {key for key in defaults if defaults[key] != quick[key]} == set(paper.quick) != set()


def test_where_nothing_can_be_made_nothing_begins():
    with pytest.raises(InputError, match="needs what is not installed"):
        job_of(paper([], "needs what is not installed"), ("figure",), SquareOptions())
    job = job_of(paper([], "needs what is not installed"), (), SquareOptions())
    # The part that cannot be made takes no time.
    assert job.predicted_s == 40


def test_a_part_that_is_stopped_is_skipped_and_the_others_say_so_too(journal):
    replies = iter([None])
    stop = lambda: next(replies, "time limit")  # noqa: E731
    order = job_of(paper([]), (), SquareOptions())
    done = reproduce(order, run_with(journal, stop))
    # What takes no time is made all the same.
    assert [section.skipped for section in done.sections] == [None, "not reached: time limit", None]
    assert done.stopped == "time limit"
    raised = reproduce(job_of(paper([], squares=stopping), ("squares", "note"), SquareOptions()), run_with(journal))
    assert [section.skipped for section in raised.sections] == ["not reached: time limit", None]


def test_finished_searches_are_not_made_again(tmp_path):
    searched = []
    job = job_of(paper(searched), ("squares",), SquareOptions())
    sections = []
    for resume in (False, True):
        with journal_of(job, 5, tmp_path / "run", resume) as journal:
            sections.append(reproduce(job, run_with(journal)).sections)
    assert searched == [1, 2, 3]
    assert sections[0] == sections[1]
    other = job_of(paper(searched), ("squares",), SquareOptions(limit=4))
    with pytest.raises(InputError, match="arguments"), journal_of(other, 5, tmp_path / "run", True):
        pass
    with pytest.raises(InputError, match="--out DIR"), journal_of(job, 5, None, True):
        pass


def test_progress_names_each_part(journal):
    heard = []
    reproduce(job_of(paper([]), (), SquareOptions()), run_with(journal, progress=lambda *each: heard.append(each)))
    assert heard == [(f"square {part}", done, 1) for part in ("squares", "figure", "note") for done in (0, 1)]


def test_only_like_quantities_have_a_ratio(journal, tmp_path):
    write(reproduce(job_of(paper([]), ("squares",), SquareOptions()), run_with(journal)), tmp_path)
    rows = pq.read_table(tmp_path / f"{COMPARISONS_TABLE}.parquet").to_pylist()
    assert [(row["ratio"], row["reason"]) for row in rows] == [(1.0, None), (None, "a square is no cube"), (None, None)]
    assert rows[1]["paper"] == 8


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_offers_what_the_driver_needs(name):
    offered = paper_named(name)
    assert offered.name == name
    assert offered.summary == summary_of(name)
    assert set(offered.synonyms.values()) <= set(offered.parts)
    assert not set(offered.synonyms) & set(offered.parts)
    assert offered.citation
    posed = offered.pose(offered.options(), tuple(offered.parts))
    assert isinstance(posed.predicted_s, Mapping)
    assert set(posed.predicted_s) == set(offered.parts)
    assert all(seconds >= 0 for seconds in posed.predicted_s.values())
    json.dumps([posed.settings, posed.identity])
    made = [part for part, each in offered.parts.items() if each.missing is None]
    if made:
        assert job_of(offered, (made[-1],), offered.options()).predicted_s > 0
    else:  # nothing of it can be made without what the roof adds
        with pytest.raises(InputError, match="learn"):
            job_of(offered, (), offered.options())
