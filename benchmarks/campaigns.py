"""What a campaign costs beside its cells, and what its cells save together.

Claim: 100,000 cells resume from a journal of a million lines with at most 2 GB of memory in 30 CPU seconds, and their
page is at most 3 MB; cells of a campaign have the answers that they have alone, to the last digit.

Method. (1) A journal of ten lines for each of 100,000 cells of ``dse plan``, nine of which are of files that have
changed since, is written without answering anything; a process of its own resumes the campaign from it and ends with
all files written. (2) The cells of ``docs/examples/campaign.yaml`` are answered by one campaign, and each by a command
of its own; value, bound, status and solution are compared. CPU seconds are those of the processes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.recording import Record, Results, cpu_s, parser_of
from dse.campaign.contract import PROBLEM
from dse.campaign.options import CampaignOptions
from dse.campaign.questions import command_line, content_key
from dse.campaign.rows import Row
from dse.campaign.solve import Answered, journal_entry
from dse.problem import pose
from dse.results.result import digest
from dse.results.session import Session, answer
from dse.run.journal import Journal

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "campaign.yaml"
LINES = 10
"""Lines of the journal for each cell."""

SOLUTION = ", ".join(f"key_{number}={number}" for number in range(18))
"""Of the length that rows have."""

AXES = {
    "on": ["h100-sxm", "h200-sxm", "mi300x", "b200", "a100-sxm"],
    "model": ["llama3-8b", "gpt3-5b", "nemotron-8b", "llama2-13b"],
    "sequence": {"from": 1024, "to": 5120, "step": 1024},
    "global_batch": {"from": 8, "to": 8000, "step": 8},
}

RECORD = Record(
    "campaigns",
    figures=(
        *("driver.cells", "driver.lines", "driver.memory", "driver.cpu", "driver.page", "driver.result"),
        *("sharing.cells", "sharing.alike", "sharing.together", "sharing.alone", "sharing.ratio"),
    ),
)

_RESUMED = """
import resource, sys
from pathlib import Path
from dse.campaign.contract import PROBLEM
from dse.campaign.options import CampaignOptions
from dse.results.session import Session, answer
made = answer(PROBLEM, CampaignOptions(sys.argv[1], yes=True), Session(out=Path(sys.argv[2]), resume=True))
assert made.status == "optimal", made.status
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)
"""


def fill(file: Path, out: Path) -> tuple[int, int]:
    """Write a run directory whose journal has every cell; (cells, lines)."""
    options = CampaignOptions(str(file), yes=True)
    try:
        answer(PROBLEM, options, Session(out=out, stop=lambda: "interrupted"))
    finally:
        (out / "result.json").unlink(missing_ok=True)
    campaign = pose(PROBLEM, options).problem
    lines: dict[str, str] = {}
    with Journal(out / "journal.jsonl") as journal:
        for number, cell in enumerate(campaign.cells):
            value = 1 + number % 997 / 997
            row = Row("optimal", f"cell {number}", "step_s", "s", "min", value, value, 0.0, "enumeration",
                      solution=f"data={number}, {SOLUTION}", answer=f"{number:016x}",
                      figures={"step_s": value, "mfu": 0.5}, seconds=0.01)  # fmt: skip
            key = content_key(campaign.settings(cell), 0)
            for line in range(LINES):
                lines |= journal_entry(Answered(row, key, {"none.yaml": f"{line:064x}"} if line else {}))
            if len(lines) > 10_000:
                journal.append_all(lines)
                lines = {}
        journal.append_all(lines)
        return len(campaign.cells), len(journal)


def driver(results: Results, folder: Path) -> None:
    """What the driver takes for cells that are all known."""
    file, out = folder / "campaign.json", folder / "run"
    document = {"schema": "dse.campaign/1", "name": "driver", "problem": "plan", "choose": ["on"], "axes": AXES}
    file.write_text(json.dumps(document))
    cells, lines = fill(file, out)
    command = [sys.executable, "-c", _RESUMED, str(file), str(out)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    results.figure("driver.cells", f"{cells:,}")
    results.figure("driver.lines", f"{lines:,}")
    results.figure("driver.memory", f"{float(printed[0]) / 1e9:.2f} GB")
    results.figure("driver.cpu", f"{float(printed[1]):.0f} s")
    results.figure("driver.page", f"{(out / 'report.html').stat().st_size / 1e6:.2f} MB")
    results.figure("driver.result", f"{(out / 'result.json').stat().st_size / 1e6:.0f} MB")


def sharing(results: Results, folder: Path) -> None:
    """The cells of the example together and alone."""
    out, before = folder / "example", cpu_s()
    subprocess.run(_dse("campaign", str(EXAMPLE), "--workers", "0", "--out", str(out)), check=True, capture_output=True)
    together_s = cpu_s() - before
    cells = json.loads((out / "result.json").read_text())["solution"]["cells"]
    posed = pose(PROBLEM, CampaignOptions(str(EXAMPLE)))
    alike, before = 0, cpu_s()
    for number, cell in enumerate(posed.problem.cells):
        words = command_line(posed.problem.settings(cell)).split()[1:]
        done = subprocess.run(_dse(*words, "--json", "--quiet"), check=True, capture_output=True, text=True)
        alone = json.loads(done.stdout)
        alike += (alone["objective"]["value"], alone["bound"], alone["status"]) == tuple(
            cells[key][number] for key in ("value", "bound", "status")
        ) and digest(alone["solution"]).removeprefix("sha256:").startswith(cells["answer"][number])
    alone_s = cpu_s() - before
    results.figure("sharing.cells", len(posed.problem.cells))
    results.figure("sharing.alike", alike)
    results.figure("sharing.together", f"{together_s:.1f} s")
    results.figure("sharing.alone", f"{alone_s:.1f} s")
    results.figure("sharing.ratio", f"{together_s / alone_s:.2f}")


def _dse(*words: str) -> list[str]:
    return [sys.executable, "-m", "dse", *words]


def main() -> None:
    """Both parts."""
    arguments = parser_of(__doc__).parse_args()
    results = Results(RECORD)
    with tempfile.TemporaryDirectory() as folder:
        sharing(results, Path(folder))
        driver(results, Path(folder))
    results.save(arguments.record)


if __name__ == "__main__":
    main()
