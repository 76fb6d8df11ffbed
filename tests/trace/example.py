"""``python -m tests.trace.example`` writes the profiles that the documentation shows: two ranks of a made-up model."""

from pathlib import Path

from tests.trace.profiles import training_step, write

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "profiles"
CONTENTS = {f"rank{rank}.json": training_step(rank, arrives=24.0 * rank) for rank in range(2)}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in CONTENTS.items():
        write(FOLDER / name, content)
