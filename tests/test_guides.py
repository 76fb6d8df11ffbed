"""Every command of a guide and of the first steps runs, and prints what the page shows.

Commands stand in ``sh`` blocks, what they print in the ``text`` block behind. They run in an empty folder that has the
checkout's ``docs`` and ``tests`` in it; those with ``ray job`` on a cluster of one node, which the test starts. With
DSE_PICTURES=1 the pictures of the guides are written anew.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.actors.ray_head import Head

ROOT = Path(__file__).parents[1]
GUIDES = [
    path
    for chapter in ("start", "guides")
    for path in sorted((ROOT / "docs" / chapter).glob("*.md"))
    if path.name != "index.md"
]
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAX_PICTURE_BYTES = 150_000
NOT_RUN = re.compile(r"#\s*not run: \S")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)\n+<!-- made by (\S+) -->")
CLUSTER = "ray job"
RUN_TIME = re.compile(r"(?<=[(])\d[\d.,]* m?s(?=[)])|(?<=, )\d[\d.,]* m?s(?=[)])|(?<=in )\d[\d.,]* (?:CPU )?s\b")


def commands(block):
    """The commands of an ``sh`` block, continued lines joined."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def plain(line):
    """A line of output without differences that mean nothing: spaces, rules, and how long the run took."""
    return RUN_TIME.sub("T", " ".join(line.replace("─", " ").split()))


def missing_lines(shown, printed):
    """Lines of a ``text`` block that the output does not have, in order."""
    lines, missing = iter([plain(line) for line in printed.splitlines()]), []
    for line in map(plain, shown.splitlines()):
        if line in ("", "…"):
            continue
        if line not in lines:
            missing.append(line)
            lines = iter([])
    return missing


@contextmanager
def cluster(is_needed, checkout):
    """The environment of a cluster of one node, if one is needed."""
    if not is_needed:
        yield {}
        return
    # A name short enough for Ray's sockets.
    with tempfile.TemporaryDirectory(prefix="dse-guide-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        head = Head(Path(folder), checkout)
        try:
            yield head.environment | {"RAY_API_SERVER_ADDRESS": head.address}
        finally:
            head.end()


def run(command, folder, cluster_environment):
    """What a command prints on both streams; it has to succeed."""
    environment = os.environ | {"COLUMNS": "80", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= cluster_environment
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def marked(path):
    """A guide as a parameter; those with a cluster wait for it."""
    marks = pytest.mark.slow if CLUSTER in path.read_text(encoding="utf-8") else ()
    return pytest.param(path, marks=marks, id=path.stem)


@pytest.mark.parametrize("path", [marked(path) for path in GUIDES])
def test_a_guide_does_what_it_says(path, tmp_path):
    for name in ("docs", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    text, printed = path.read_text(encoding="utf-8"), ""
    with cluster(CLUSTER in text, tmp_path) as environment:
        for kind, block in BLOCK.findall(text):
            if kind == "sh":
                wanted = [each for each in commands(block) if not NOT_RUN.search(each)]
                printed = "".join(run(each, tmp_path, environment) for each in wanted) or printed
            elif printed:
                assert missing_lines(block, printed) == [], printed
    for picture, made in PICTURE.findall(text):
        assert (tmp_path / made).is_file()
        if os.environ.get("DSE_PICTURES"):
            shutil.copyfile(tmp_path / made, path.parent / picture)
        assert (path.parent / picture).is_file()
        assert (path.parent / picture).stat().st_size <= MAX_PICTURE_BYTES


def test_lines_that_are_not_printed_are_found():
    printed = "bert: proven (1 exactly, 9.5 s).\n\n a   1\n b   2\n"
    assert missing_lines("bert: proven (1 exactly, 3 s).\n…\nb 2", printed) == []
    assert missing_lines("b 2\na 1", printed) == ["a 1"]
    assert missing_lines("c 3", printed) == ["c 3"]


def test_commands_are_read_from_blocks():
    assert commands("# why\ndse plan \\\n  x\n\ndse check y  # not run: slow\n") == [
        "dse plan    x",
        "dse check y  # not run: slow",
    ]
    assert NOT_RUN.search("dse check y  # not run: slow")
