"""The steps that ``dse reproduce automap`` plans: ``python -m benchmarks.hlo.dumps`` lowers and compresses them.

Places in source files are taken out: they differ from machine to machine, and nothing reads them.
"""

import gzip
import re
from pathlib import Path

from benchmarks.hlo.steps import lowered
from dse.reproduce.automap.models import DUMPED

FOLDER = Path(__file__).parents[2] / "dse" / "reproduce" / "automap" / "dumps"

_TABLES = re.compile(r"\nFileNames\n.*?\nStackFrames\n(?:[^\n]+\n)*", re.DOTALL)
_FRAME = re.compile(r" stack_frame_id=\d+")


def without_places(text: str) -> str:
    """HLO text without file names and stack frames."""
    return _FRAME.sub("", _TABLES.sub("\n", text, count=1))


if __name__ == "__main__":
    for name in DUMPED:
        text = without_places(lowered(name).compiler_ir("hlo").get_hlo_module().to_string())
        (FOLDER / f"{name}.hlo.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
