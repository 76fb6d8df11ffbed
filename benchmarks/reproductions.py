"""Tables of ``dse reproduce`` as the pages of docs/evidence show them, each from a fresh run of the command.

``python -m benchmarks.reproductions NAME`` makes one of them, with one thread; the names are those of result files.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.process import ROOT
from benchmarks.recording import Record, Results, cpu_s, parser_of
from dse.reproduce.output import DOCUMENT_FILE

Sections = Mapping[str, Mapping[str, Any]]
"""The parts of a reproduction by name, as ``reproduction.json`` has them."""


class Reproduction(NamedTuple):
    """The arguments of a command, the file that its tables go to, and what fills it."""

    arguments: tuple[str, ...]
    record: Record
    fill: Callable[[Results, Sections], None]


METHODS = {
    "greedy": "greedy",
    "random": "random partitions of the solver",
    "anneal": "annealing",
    "hill-climb": "FIX hill climbing",
    "refine": "`refine`, not learning",
    "screen": "`screen`, not learning",
    "dp": "dynamic programming",
    "portfolio": "`portfolio`",
    "plain rl": "`plain`, from scratch",
    "plain rl zero-shot": "`plain`, zero-shot from `shipped/plain`",
    "plain rl fine-tuned": "`plain`, fine-tuned",
    "bare prior": "the diagonal prior, not learning",
    "prior + rl": "`prior`, from scratch",
    "refine + rl": "`rl`: refining, learning from nothing",
    "refine zero-shot": "from `shipped/refine`, zero-shot",
    "refine fine-tuned": "from `shipped/refine`, fine-tuned",
}
"""What pages call the methods of ``dse reproduce mcm``."""


def learning_table3(results: Results, sections: Sections) -> None:
    """Methods on BERT: throughput over greedy's, and samples to shares of the best."""
    table = sections["table3"]["tables"][0]
    rows = {row[0]: dict(zip(table["headers"], row, strict=True)) for row in table["rows"]}
    for method, cells in rows.items():
        reached = (cells[f"over greedy at {samples}"] for samples in (20, 100))
        counts = (cells[f"samples to {level} of the best known"] for level in (0.8, 0.9))
        results.row("main", METHODS[method], *reached, *counts)

    def mean(method: str, column: str) -> float:
        return float(rows[method][column].split()[0])

    results.figure("best", f"{1 / mean('greedy', 'of the best known at 100'):.2f}")
    results.figure("tuned", f"{mean('plain rl fine-tuned', 'over greedy at 100'):.2f}")
    results.figure("scratch", f"{mean('plain rl', 'over greedy at 100'):.2f}")


REPRODUCTIONS = (
    Reproduction(
        ("mcm", "table3", "--samples", "100", "--seeds", "2"),
        Record(
            "learning_table3",
            ("best", "tuned", "scratch", "cpu"),
            {"main": ("method", "20", "100", "0.8", "0.9")},
        ),
        learning_table3,
    ),
)
RECORDS = tuple(each.record for each in REPRODUCTIONS)


def main() -> None:
    """One file."""
    parser = parser_of(__doc__)
    parser.add_argument("name", choices=[record.name for record in RECORDS], metavar="NAME")
    arguments = parser.parse_args()
    wanted = next(each for each in REPRODUCTIONS if each.record.name == arguments.name)
    results, begun = Results(wanted.record), cpu_s()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        command = [sys.executable, "-m", "dse", "reproduce", *wanted.arguments, "--workers", "0", "--out", str(out)]
        subprocess.run([*command, "--quiet"], cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)
        document = json.loads((out / DOCUMENT_FILE).read_text(encoding="utf-8"))
    wanted.fill(results, {section["part"]: section for section in document["sections"]})
    results.figure("cpu", f"{cpu_s() - begun:.0f} CPU seconds")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
