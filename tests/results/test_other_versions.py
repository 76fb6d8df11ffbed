"""A result of another version is said to be one, with the command that makes it anew, where it does not hold here."""

import json
import shlex
import subprocess

import pytest

from dse.results.result import seal_of
from dse.run import versions
from dse.version import VERSION
from tests.fuzz.examples import GRAPH, PLACEMENT

COMMIT = "0123456789abcdef"


@pytest.fixture
def run(dse, tmp_path, monkeypatch):
    """A run of ``dse partition`` with some settings that are not the defaults."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dse.results.other_versions.git_revision", lambda: "fedcba9876543210")
    (tmp_path / "my graph.json").write_text(json.dumps(GRAPH))
    asked = ("partition", "my graph.json", "--chips", "3", "--method", "greedy", "--seed", "4", "--workers", "0")
    assert dse(*asked, "--quiet", "--out", "run").code == 0
    return tmp_path / "run"


def changed(run, change, version):
    """Change the result, and say which release made it, or which commit."""
    file = run / "result.json"
    document = json.loads(file.read_text())
    change(document)
    document["versions"] |= {"dse": version} if version[0].isdigit() else {"commit": COMMIT[:9]}
    if version == "no commit":
        del document["versions"]["commit"]
    file.write_text(json.dumps(document | {"seal": seal_of(document)}))


OTHER_FORMATS = {
    "another digest": lambda document: document["problem"].update(digest="sha256:0"),
    "another name": lambda document: document["problem"].update(name="smaller"),
    "an option that is new": lambda document: document["settings"].pop("samples"),
}
UNREADABLE = {
    "an option that is gone": lambda document: document["settings"].update(elegance=3),
    "a key that is gone": lambda document: document.update(elegance=3),
    "another schema": lambda document: document.update(schema="dse.result/0"),
}

BY = {
    "0.0.3": "(0.0.3; this is 0.1.0)",
    "commit": "(commit 012345678; this is commit fedcba987)",
    "no commit": "(one that states no commit; this is commit fedcba987)",
}
ANEW = "`dse partition 'my graph.json' --chips 3 --method greedy --seed 4 --out NEW` recomputes it"


@pytest.mark.parametrize("version", BY)
@pytest.mark.parametrize("change", OTHER_FORMATS.values(), ids=OTHER_FORMATS)
def test_what_does_not_hold_is_one_line(dse, run, monkeypatch, version, change):
    monkeypatch.setattr("dse.results.other_versions.VERSION", "0.1.0")
    changed(run, change, version)
    checked = dse("check", "run")
    assert checked.code == 1
    assert checked.out == f"violation: run/result.json: written by another version of dse {BY[version]}; {ANEW}\n"


def test_a_result_file_alone_says_which_commit_made_it(dse, run):
    changed(run, OTHER_FORMATS["another digest"], "commit")
    (run / "run.yaml").unlink()
    (run / "result.json").rename("received.json")
    assert dse("check", "received.json").out.startswith(
        "violation: received.json: written by another version of dse (commit 012345678; "
    )


def test_a_commit_is_no_word(dse, run):
    changed(run, lambda document: document["versions"].update(commit="soon"), "0.0.3")
    assert "versions.commit must be" not in dse("check", "run").out  # another version's, in one line
    changed(run, lambda document: document["versions"].update(commit="fedcba987"), VERSION)
    assert dse("check", "run").out == "ok\n"


@pytest.mark.parametrize("command", ["check", "report"])
@pytest.mark.parametrize("change", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_one_line(dse, run, command, change):
    changed(run, change, "0.0.3")
    refused = dse(command, "run")
    assert refused.code == 2
    (line,) = refused.err.splitlines()
    assert line.startswith("error: run/result.json: written by another version of dse (0.0.3; this is ")
    assert line.endswith(ANEW)


def test_what_only_the_check_reads_is_one_line_too(dse, run):
    changed(run, lambda document: document["metrics"].update(elegance=1), "0.0.3")
    assert dse("check", "run").err.endswith(f"{ANEW}\n")


def test_the_command_makes_a_result_that_holds(dse, run):
    changed(run, OTHER_FORMATS["another digest"], "0.0.3")
    command = shlex.split(dse("check", "run").out.split("`")[1])
    assert dse(*command[1:], "--quiet").code == 0
    assert dse("check", "NEW").out == "ok\n"


def test_what_holds_holds_whoever_made_it(dse, run):
    changed(run, lambda document: None, "0.0.3")
    assert dse("check", "run").out == "ok\n"


def test_an_edited_result_is_no_other_versions(dse, run):
    changed(run, OTHER_FORMATS["another digest"], "0.0.3")
    file = run / "result.json"
    file.write_text(file.read_text().replace("0.0.3", "0.0.4"))
    assert "the file was edited after it was written" in dse("check", "run").out


def test_another_input_that_cannot_be_read_is_named(dse, run):
    changed(run, OTHER_FORMATS["another digest"], "0.0.3")
    assert "none.json" in dse("check", "run", "none.json").err


def test_several_inputs_and_values_stand_as_they_are_given(dse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers.json").write_text(json.dumps(PLACEMENT))
    asked = ("codesign", "bert-large", "gpt2-xl", "--weights", "1,2", "--fixed", "tpuv4", "--accelerators", "8")
    asked += ("--global-batch", "16", "--microbatch", "1", "--tensor-parallel", "1")
    assert dse(*asked, "--workers", "0", "--quiet", "--out", "run").code == 0
    changed(tmp_path / "run", OTHER_FORMATS["another digest"], "0.0.3")
    words = shlex.split(dse("check", "run").out.split("`")[1])
    assert words[:4] == ["dse", "codesign", "bert-large", "gpt2-xl"]
    assert set(asked) <= {*words}


def test_a_commit_is_that_of_the_checkout_and_of_no_repository_around_it(tmp_path, monkeypatch):
    """As of a virtual environment inside a user's own repository."""
    package = tmp_path / "environment" / "site-packages" / "dse" / "run"
    package.mkdir(parents=True)
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "mine"]):
        subprocess.run(
            ["git", "-c", "user.name=me", "-c", "user.email=me@example.com", *words], cwd=tmp_path, check=True
        )
    monkeypatch.setattr(versions, "__file__", str(package / "versions.py"))
    assert versions.git_revision.__wrapped__() is None
