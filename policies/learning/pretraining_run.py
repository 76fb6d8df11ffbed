"""What a pretraining run keeps in its directory, and how it goes from there to its end.

``checkpoints/NUMBER/`` has the weights and the card of every checkpoint, ``training.npz`` what the trainer needs to
continue from the last one, after its SHA-256, and the journal the scores and the iterations of training. ``best/`` is
the checkpoint that was chosen. A checkpoint is written before the trainer's state that leads on from it: after a crash
at most one is recomputed, with the same result.

``tensorboard/`` is the journal once more, for TensorBoard: ``training/…`` by samples, ``validation/…`` (geometric means
over the environments) by number of checkpoint. A continued run writes the whole curves again.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dse.run.directory import JOURNAL_FILE, write_bytes
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal, ask
from dse.version import VERSION
from hardware.inputs import fail, shown
from policies.learning.checkpoint import BEST, CARD_FILE
from policies.learning.curves import FOLDER, CurvePoint, CurveWriter
from policies.learning.pretraining import PretrainingPlan, Snapshot, Trainer, Validator
from policies.learning.scores import Score, selected
from policies.learning.state_file import decoded, encoded

TRAINED, VALIDATED = "checkpoints trained", "checkpoints validated"

_STATE_FILE, _CHECKPOINTS = "training.npz", "checkpoints"

_FORMER_STATE_FILE = "training.pickle"
"""What the state was before it was read without pickles."""

_SCHEMA = "dse.training/1"
"""Name and version of the content of the state file. It is raised when what a training stores, or how, changes."""

_OF_ANOTHER_VERSION = "is the state of a training run of another version of dse"
_ANEW = "use a new directory, or delete this file to start over"

_DIGEST_BYTES = hashlib.sha256().digest_size

_SCORE, _CURVE = "checkpoint", "curve"
"""What the journal has of a checkpoint."""


class PretrainingRun:
    """The directory of one plan's run, with its journal open; a context that closes it.

    Args:
        folder: where it is; made if it is not there. It belongs to this run alone.
        plan: of the run.

    Raises:
        InputError: another process has the run open, or its journal is damaged.
    """

    def __init__(self, folder: Path, plan: PretrainingPlan) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.plan = plan
        self._journal = Journal(folder / JOURNAL_FILE)
        self._curves = CurveWriter(folder / FOLDER, first_step=0)
        self._shown = {_CURVE: 0, _SCORE: 0}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._curves.close()
        self._journal.close()

    def latest(self) -> Snapshot:
        """The snapshot from which training continues.

        Raises:
            InputError: the file was damaged, or another version wrote it.
        """
        path = self.folder / _STATE_FILE
        if not path.exists():
            former = self.folder / _FORMER_STATE_FILE
            if former.exists():
                raise fail(former, "", "", f"{_OF_ANOTHER_VERSION} and cannot be read; {_ANEW}")
            return Snapshot()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error
        digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        # Bytes that were changed would give other weights in silence.
        if hashlib.sha256(content).digest() != digest:
            raise fail(path, "", "", "is not a valid training state: its content does not match its digest")
        try:
            document = decoded(content)
        except ValueError as error:
            raise fail(path, "", "", f"is not a valid training state: {shown(str(error))}") from error
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
            version = document.get("dse") if isinstance(document, dict) else None
            by = f" ({shown(version)}; this is {VERSION})" if isinstance(version, str) else ""
            raise fail(path, "", "", f"{_OF_ANOTHER_VERSION}{by} and cannot be read; {_ANEW}")
        return Snapshot(document["number"], document["samples"], None, document["state"])

    def keep(self, snapshot: Snapshot) -> None:
        """Keep a checkpoint, its part of the curves, and then the state that leads on from it."""
        assert snapshot.checkpoint is not None
        self.plan.task.checkpoint_format.save(self._place(snapshot.number), snapshot.checkpoint)
        self._journal.append(_key(snapshot.number, _CURVE), [asdict(point) for point in snapshot.curve])
        state = {"number": snapshot.number, "samples": snapshot.samples, "state": snapshot.state}
        content = encoded({"schema": _SCHEMA, "dse": VERSION} | state)
        write_bytes(self.folder / _STATE_FILE, hashlib.sha256(content).digest() + content)
        self.show()

    def keep_score(self, score: Score) -> None:
        """Keep the score of a checkpoint."""
        self._journal.append(_key(score.number), score.document())
        self.show()

    def show(self) -> None:
        """Bring the curves up to what the journal has; scores that have arrived before their turn wait for it."""
        for _, points in self._not_shown(_CURVE):
            for point in points:
                scalars = {f"training/{name}": value for name, value in point["scalars"].items()}
                self._curves.append(point["samples"], scalars)
        for number, score in self._not_shown(_SCORE):
            self._curves.append(number, {f"validation/{name}": mean for name, mean in score["means"].items()})

    def _not_shown(self, kind: str) -> Iterator[tuple[int, Any]]:
        while (key := _key(self._shown[kind] + 1, kind)) in self._journal:
            self._shown[kind] += 1
            yield self._shown[kind], self._journal[key]

    def scores(self) -> list[Score]:
        """The scores that are known, by number."""
        numbers = range(1, self.plan.checkpoints + 1)
        return [Score.from_document(self._journal[_key(number)]) for number in numbers if _key(number) in self._journal]

    def left_out(self) -> list[str]:
        """Validation environments that have no score, where checkpoints have: they cannot be used."""
        scored = {name for score in self.scores() for values in score.values.values() for name in values}
        return [name for name in self.plan.task.validation_names if scored and name not in scored]

    def curve(self) -> list[CurvePoint]:
        """The iterations of training that are known, in their order."""
        numbers = range(1, self.plan.checkpoints + 1)
        points = [point for number in numbers for point in self._journal.get(_key(number, _CURVE), ())]
        return [CurvePoint(point["samples"], point["scalars"]) for point in points]

    def iterations(self) -> int:
        """How many iterations of training are known."""
        return len(self.curve())

    def unscored(self) -> list[int]:
        """Checkpoints that are there and have no score yet."""
        return [number for number in range(1, self.latest().number + 1) if _key(number) not in self._journal]

    def checkpoint(self, number: int) -> Snapshot:
        """A checkpoint, for validation.

        Raises:
            InputError: it was damaged.
        """
        checkpoint = self.plan.task.checkpoint_format.load(self._place(number))
        samples = checkpoint.provenance.get("samples")
        if not isinstance(samples, int):
            raise fail(self._place(number) / CARD_FILE, "provenance.samples", samples, "must be a whole number")
        return Snapshot(number, samples, checkpoint)

    def choose(self, criterion: str) -> Score:
        """Write the best checkpoint by that criterion to ``best/``, with all that is known of its scores in its card.

        Args:
            criterion: one of :attr:`~policies.learning.task.LearningTask.criteria`.
        """
        self.show()
        task = self.plan.task
        best = selected(self.scores(), task.criteria[criterion])
        chosen = task.checkpoint_format.load(self._place(best.number))
        provenance = {**chosen.provenance, "chosen_by": criterion, "scores": best.document()}
        task.checkpoint_format.save(self.folder / BEST, replace(chosen, provenance=provenance))
        return best

    def _place(self, number: int) -> Path:
        return self.folder / _CHECKPOINTS / f"{number:04}"


def _key(number: int, kind: str = _SCORE) -> str:
    return f"{kind}-{number:04}"


def pretrain(run: PretrainingRun, progress: ProgressCallback, stop: StopSignal) -> None:
    """Train and validate in this process, in sequence, until every checkpoint has its score.

    Raises:
        StoppedError: ``stop`` gave a reason; what was finished is kept.
    """
    trainer, validator = Trainer(run.plan), Validator(run.plan)
    latest = run.latest()
    _score(run, validator, run.unscored(), progress, stop)
    while latest.number < run.plan.checkpoints:
        latest = trainer.advance(latest, stop, progress)
        run.keep(latest)
        progress(TRAINED, latest.number, run.plan.checkpoints)
        _score(run, validator, [latest.number], progress, stop)


def _score(
    run: PretrainingRun, validator: Validator, numbers: Iterable[int], progress: ProgressCallback, stop: StopSignal
) -> None:
    for number in numbers:
        ask(stop)
        run.keep_score(validator.score(run.checkpoint(number), stop))
        progress(VALIDATED, len(run.scores()), run.plan.checkpoints)
