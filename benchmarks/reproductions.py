"""Tables of ``dse reproduce`` as the pages of docs/evidence show them, each from a fresh run of the command.

``python -m benchmarks.reproductions NAME`` makes one of them, with one thread; the names are those of result files.
``--out DIR`` keeps the run in DIR and continues one that is there: CPU seconds are then of the last call alone, and
only records without them can be made in several calls.
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
from dse.reproduce.automap.models import title_of
from dse.reproduce.automap.pipeline_tables import EXCESS
from dse.reproduce.automap.pipelines import OBJECTIVES
from dse.reproduce.automap.tables import PAPERS_STEP_TIME, STEP_TIME
from dse.reproduce.output import DOCUMENT_FILE
from dse.reproduce.rdu.study import VERSIONS
from dse.reproduce.rdu.tables import MODELS

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
    "refine + rl": "`rl`: refining, learning from scratch",
    "refine zero-shot": "from `shipped/refine`, zero-shot",
    "refine fine-tuned": "from `shipped/refine`, fine-tuned",
}
"""What pages call the methods of ``dse reproduce mcm``."""


def learning_table3(results: Results, sections: Sections) -> None:
    """Methods on BERT: throughput over greedy's, and samples to shares of the best."""
    table = sections["table3"]["tables"][0]
    rows = {row[0]: dict(zip(table["headers"], row, strict=True)) for row in table["rows"]}
    for method, cells in rows.items():
        reached = (cells[f"relative to greedy at {samples}"] for samples in (20, 100))
        counts = (cells[f"samples to {level} of the best known"] for level in (0.8, 0.9))
        results.row("main", METHODS[method], *reached, *counts)

    def mean(method: str, column: str) -> float:
        return float(rows[method][column].split()[0])

    results.figure("best", f"{1 / mean('greedy', 'share of best known at 100'):.2f}")
    results.figure("tuned", f"{mean('plain rl fine-tuned', 'relative to greedy at 100'):.2f}")
    results.figure("scratch", f"{mean('plain rl', 'relative to greedy at 100'):.2f}")


RDU = {
    "accuracy": ("table1", 0, ("cost model", "RE", "RE, placer", "ρ", "ρ, placer", "RE / trees that see all, 90 %")),
    "ranks": ("fig2", 0, ("cost model", "gemm", "mlp", "ffn", "mha")),
    "models": (
        "table2",
        0,
        ("graph", "cost model", "RE, past", "RE, present", "ρ, past", "ρ, present"),
    ),
    "models_throughput": (
        "table2",
        1,
        (
            "graph",
            "placed under",
            *(f"{what}, {version}" for version in VERSIONS for what in ("samples/s", "gain", "gap")),
        ),
    ),
    "ablation": ("table3", 0, ("cost model", "gemm", "mlp", "ffn", "mha")),
    "annotations": ("annotations", 0, ("cost model", "RE", "RE without them", "ratio")),
    "left_out": ("left-out", 0, ("cost model", "gemm", "mlp", "ffn", "mha")),
    "effort": ("effort", 0, ("what", "how much", "CPU s")),
    "placement": (
        "placement",
        0,
        ("block", "cost", "throughput against expert rule", "latency", "CPU s", "graphs"),
    ),
}
"""Tables by name: the part that has it, its number there, and its columns."""

PAPERS = "the paper's model (Algorithm 1)"
STACK, GRAPH = "stack of trees and perceptrons on all features", "ours: mean of the stack and a graph network"


def rdu(results: Results, sections: Sections) -> None:
    """All tables as they are printed."""
    printed = {name: sections[part]["tables"][number] for name, (part, number, _) in RDU.items()}
    for name, table in printed.items():
        for row in table["rows"]:
            results.row(name, *row)
    rows = {
        name: {row[0]: dict(zip(RDU[name][2], row, strict=True)) for row in printed[name]["rows"]}
        for name in ("accuracy", "left_out")
    }
    accuracy, left_out = rows["accuracy"], rows["left_out"]
    ratio, _, interval = accuracy[STACK]["RE / trees that see all, 90 %"].partition(" ")
    results.figure("stack_better", f"{100 * (1 - float(ratio)):.0f} %")
    results.figure("interval", interval)
    results.figure("network", accuracy[GRAPH]["RE"])
    results.figure("stack", accuracy[STACK]["RE"])
    results.figure("mha", f"{left_out[STACK]['mha'].split()[1].removesuffix('×')} times")
    results.figure("paper", accuracy[PAPERS]["RE"])
    results.figure("paper_rho", accuracy[PAPERS]["ρ"])
    for note in sections["table2"]["notes"]:
        name, _, size = note.partition(": ")
        if name in MODELS:
            results.figure(f"size.{name}", size.removesuffix(".").replace(" in ", " and "))


def automap(results: Results, sections: Sections) -> None:
    """How far the paper's plans are from the best ones."""
    compared = {
        (each["model"], each["cost_model"], each["quantity"]): each["ours"]
        for section in sections.values()
        for each in section["comparisons"]
    }
    steps = {"t5": "t5-base", "t5_3b": "t5-3b", "t5_11b": "t5-11b", "vgg": "vgg19"}
    for path, step in steps.items():
        best, papers = (compared[title_of(step), "reshard", each] for each in (STEP_TIME, PAPERS_STEP_TIME))
        results.figure(path, f"{100 * (papers / best - 1):.2g} %")

    def excess(step: str, configuration: str, objective: str) -> float | None:
        return compared[f"{title_of(step)} on {configuration}", objective, EXCESS]

    nearest = []
    for step in ("bert-48", "t5-3b", "t5-11b"):
        for configuration in "ABC":
            known = [excess(step, configuration, objective) for objective in OBJECTIVES]
            nearest += [min(each for each in known if each is not None)] if known[0] is not None else []
    results.figure("table7", f"{100 * min(nearest):.1f} to {100 * max(nearest):.1f} %")
    results.figure("t5_two", f"{100 * excess('t5-base', 'A', 'length'):.1f} %")
    results.figure("t5_four", f"{100 * excess('t5-base', 'C', 'computing'):.1f} %")
    searched, memory = sections["table7"]["tables"][2:4]
    longer = {(row[0], row[1]): row for row in searched["rows"]}
    results.figure("searched", longer["t5-base", "C"][3])
    results.figure("searched_longer", longer["t5-base", "C"][-1].removeprefix("+"))
    for row in sections["table5"]["tables"][0]["rows"]:
        results.row("counts", *row[:4], *row[5:8])
    for row in sections["table7"]["tables"][0]["rows"]:
        if row[0] == title_of("vgg19"):
            results.row("cnn", row[1], *row[5:7])
    row = dict(zip(memory["headers"], next(r for r in memory["rows"] if r[0] == "weights / recomputed"), strict=True))
    results.figure("four_stages", row["4 stages"])
    results.figure("three_stages", row["3 stages"])


REPRODUCTIONS = (
    Reproduction(
        ("automap", "table3", "table4", "table5", "table7"),
        Record(
            "automap",
            (
                *("t5", "t5_3b", "t5_11b", "vgg", "table7", "t5_two", "t5_four", "searched", "searched_longer"),
                *("four_stages", "three_stages", "cpu"),
            ),
            {
                "counts": ("step", "variables / dims", "target", "paper", "`count`", "`count*`", "`cost*`"),
                "cnn": ("servers", "cuts in front of", "devices"),
            },
        ),
        automap,
    ),
    Reproduction(
        ("mcm", "table3", "--samples", "100", "--seeds", "2"),
        Record(
            "learning_table3",
            ("best", "tuned", "scratch", "cpu"),
            {"main": ("method", "20", "100", "0.8", "0.9")},
        ),
        learning_table3,
    ),
    Reproduction(
        ("rdu", "--graphs", "1176"),
        Record(
            "rdu",
            (
                *("stack_better", "interval", "network", "stack", "mha", "paper", "paper_rho"),
                *(f"size.{name}" for name in MODELS),
            ),
            {name: columns for name, (_, _, columns) in RDU.items()},
        ),
        rdu,
    ),
)
RECORDS = tuple(each.record for each in REPRODUCTIONS)


def main() -> None:
    """One file."""
    parser = parser_of(__doc__)
    parser.add_argument("name", choices=[record.name for record in RECORDS], metavar="NAME")
    parser.add_argument("--out", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    wanted = next(each for each in REPRODUCTIONS if each.record.name == arguments.name)
    if arguments.out and "cpu" in wanted.record.figures:
        parser.error(f"{wanted.record.name} states its CPU seconds, so that it is made in one call, without --out")
    results, begun = Results(wanted.record), cpu_s()
    with tempfile.TemporaryDirectory() as folder:
        out = arguments.out or Path(folder, "out")
        command = [sys.executable, "-m", "dse", "reproduce", *wanted.arguments, "--workers", "0", "--out", str(out)]
        resume = ["--resume"] if out.exists() else []
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*command, *resume, "--quiet"], cwd=ROOT, env=environment, check=True)
        document = json.loads((out / DOCUMENT_FILE).read_text(encoding="utf-8"))
    wanted.fill(results, {section["part"]: section for section in document["sections"]})
    if "cpu" in wanted.record.figures:
        results.figure("cpu", f"{cpu_s() - begun:.0f} CPU seconds")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
