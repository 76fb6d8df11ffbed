"""Errors of the measured runs do not grow unless the changelog says so."""

import pytest

from benchmarks.truth import ERRORS_BY_ROW
from benchmarks.truth_gate import COLUMNS, classes, faults, unreleased

SILENT = "# Changelog\n\n## [Unreleased]\n\n### Changed\n\n- Something else.\n\n## [1.0.0]\n\n- class A: 9.9 %\n"


def row(name, error, quality="A", kind="dense", memory=None, fitted="no", fits="yes"):
    return dict(
        zip(COLUMNS, (name, quality, kind, "stack", 1.0, 1.0, error, 1.0, 1.0, memory, fitted, "no", fits), strict=True)
    )


def lines(*rows):
    return [tuple(each.values()) for each in rows]


RECORDED = lines(
    row("one", -4.0), row("two", 6.0), row("three", 8.0, "B", "experts", 2.0), row("far", 50.0, fitted="yes")
)


def test_rows_that_a_constant_was_fitted_to_are_in_no_class():
    found = classes(RECORDED)
    assert {name: sorted(errors) for name, errors in found.items()} == {
        "A": ["one", "two"], "B": ["three"], "C": [], "dense": ["one", "two"], "experts": ["three"],
        "all": ["one", "three", "two"], "memory": ["three"],
    }  # fmt: skip


def test_the_same_errors_and_better_ones_pass():
    better = lines(row("one", 1.0), row("two", 6.0), row("three", 8.0, "B", "experts", -1.0), row("new", 90.0, "C"))
    assert [*faults(RECORDED, RECORDED, SILENT)] == []
    assert [*faults(RECORDED, better, SILENT)] == []


@pytest.mark.parametrize(("error", "passes"), [(-4.58, True), (-4.62, False), (4.62, False)])
def test_a_class_that_is_worse_by_three_tenths_of_a_point_fails(error, passes):
    """Of A, whose two rows were off by 5 in the mean; the class `dense` has the same rows."""
    found = [*faults(RECORDED, lines(row("one", error), *map(as_row, RECORDED[1:])), SILENT)]
    assert [each.partition(":")[0] for each in found] == ([] if passes else ["class A", "class dense"])


def as_row(line):
    return dict(zip(COLUMNS, line, strict=True))


def test_what_the_changelog_says_passes_under_unreleased_alone():
    now = lines(row("one", -5.6), *map(as_row, RECORDED[1:]))
    said = SILENT.replace(
        "Something else.", "`benchmarks.truth`: class A is off by 5.8 %,\n  class dense by 5.8 %: why."
    )
    found = [*faults(RECORDED, now, SILENT)]
    assert found[0] == (
        "class A: the mean error of its 2 rows was 5.0 % and is 5.8 %; mend it, or say why in CHANGELOG.md, in an "
        "entry under Unreleased with `class A` and `5.8 %`"
    )
    assert [each.partition(":")[0] for each in found] == ["class A", "class dense", "class all"]
    assert [each.partition(":")[0] for each in faults(RECORDED, now, said)] == ["class all"]
    assert unreleased(said)[-1].endswith("class dense by 5.8 %: why.")


def test_a_row_that_counts_no_longer_or_fits_no_longer_is_named():
    gone = [*faults(RECORDED, RECORDED[1:], SILENT)]
    assert gone[0].startswith("one counts no longer in class all; mend it")
    fitted = lines(row("one", -4.0, fitted="yes"), *map(as_row, RECORDED[1:]))
    assert next(faults(RECORDED, fitted, SILENT)).startswith("one counts no longer")
    larger = lines(row("one", -4.0, fits="no"), *map(as_row, RECORDED[1:]))
    assert [*faults(RECORDED, larger, SILENT)] == [
        "one ran, and is now predicted not to fit; mend it, or say why in CHANGELOG.md, in an entry under Unreleased "
        "with `one`"
    ]
    assert [*faults(RECORDED, larger, SILENT.replace("Something", "one does not fit: something"))] == []


def test_memory_is_a_class_of_its_own():
    heavier = lines(*map(as_row, RECORDED[:2]), row("three", 8.0, "B", "experts", 2.5), as_row(RECORDED[3]))
    assert [each.partition(":")[0] for each in faults(RECORDED, heavier, SILENT)] == ["class memory"]


def test_the_recorded_classes_are_those_of_the_recorded_rows():
    recorded = {line[0]: line[1] for line in ERRORS_BY_ROW.rows("classes")}
    assert recorded == {name: len(errors) for name, errors in classes(ERRORS_BY_ROW.rows("rows")).items()}
