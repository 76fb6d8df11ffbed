"""What a pretraining run keeps in its directory, and how it goes from there to its end.

``checkpoints/NUMBER/`` has the weights and the card of every checkpoint, ``training.pickle`` what the trainer needs to
go on from the last one, behind its SHA-256, and the journal the scores and what each iteration of training told.
``best/`` is the checkpoint that was chosen. A checkpoint is written before the trainer's state that leads on from it:
after a crash one is made again at most, and then the same.

``tensorboard/`` is the journal once more, for TensorBoard: ``training/…`` by samples, ``validation/…`` (geometric means
over the graphs) by number of checkpoint.
"""

import hashlib
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dse.run.directory import write_bytes
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal, ask
from hardware.inputs import fail
from policies.learning.curves import FOLDER, CurveWriter
from policies.partition.checkpoint import CARD_FILE, Checkpoint, load_checkpoint, save_checkpoint
from policies.partition.pretraining import (
    PretrainingPlan,
    Progressed,
    Score,
    ScoreName,
    Trainer,
    Validator,
    graph_name,
    selected,
)

TRAINED, VALIDATED = "checkpoints trained", "checkpoints validated"

_STATE_FILE, _CHECKPOINTS, _BEST = "training.pickle", "checkpoints", "best"

_DIGEST_BYTES = hashlib.sha256().digest_size

_SCORE, _CURVE = "checkpoint", "curve"
"""What the journal has of a checkpoint."""


class PretrainingRun:
    """The directory of one plan's run.

    Args:
        folder: where it is; belongs to this run alone.
        journal: its journal, open.
        plan: what is asked.
    """

    def __init__(self, folder: Path, journal: Journal, plan: PretrainingPlan) -> None:
        self.folder = folder
        self.plan = plan
        self._journal = journal
        self._shown = {_CURVE: 0, _SCORE: 0}

    @cached_property
    def _curves(self) -> CurveWriter:
        return CurveWriter(self.folder / FOLDER, 0)

    def latest(self) -> Progressed:
        """Where training goes on.

        Raises:
            InputError: the file was damaged.
        """
        path = self.folder / _STATE_FILE
        if not path.exists():
            return Progressed()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error
        digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        # Bytes that were changed can ask a pickle to do anything, or give other weights in silence.
        if hashlib.sha256(content).digest() != digest:
            raise fail(path, "", "", "is no state of a training: its content has not the digest at its beginning")
        number, samples, state = pickle.loads(content)
        return Progressed(number, samples, None, state)

    def keep(self, progressed: Progressed) -> None:
        """Keep a checkpoint, what its training told, and then the state that leads on from it."""
        assert progressed.checkpoint is not None
        save_checkpoint(self._place(progressed.number), progressed.checkpoint)
        self._journal.append(_key(progressed.number, _CURVE), [asdict(point) for point in progressed.curve])
        content = pickle.dumps((progressed.number, progressed.samples, progressed.state))
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
        """Validation graphs that have no score, where checkpoints have: they cannot run."""
        scored = next((score.zero_shot for score in self.scores()), None)
        names = (graph_name(name, spec) for spec in self.plan.packages for name in self.plan.validation)
        return [] if scored is None else [name for name in names if name not in scored]

    def iterations(self) -> int:
        """Iterations of training that are known."""
        numbers = range(1, self.plan.checkpoints + 1)
        return sum(len(self._journal.get(_key(number, _CURVE), ())) for number in numbers)

    def unscored(self) -> list[int]:
        """Checkpoints that are there and have no score yet."""
        return [number for number in range(1, self.latest().number + 1) if _key(number) not in self._journal]

    def checkpoint(self, number: int) -> Progressed:
        """A checkpoint, for validation.

        Raises:
            InputError: it was damaged.
        """
        checkpoint = load_checkpoint(self._place(number))
        samples = checkpoint.told.get("samples")
        if not isinstance(samples, int):
            raise fail(self._place(number) / CARD_FILE, "told.samples", samples, "must be a whole number")
        return Progressed(number, samples, checkpoint)

    def choose(self, name: ScoreName) -> Score:
        """Write the best checkpoint by that score to ``best/``, with all that is known of its scores in its card."""
        self.show()
        best = selected(self.scores(), name)
        chosen = load_checkpoint(self._place(best.number))
        told: dict[str, Any] = {**chosen.told, "chosen_by": name, "scores": best.document()}
        save_checkpoint(self.folder / _BEST, replace(chosen, told=told))
        return best

    def _place(self, number: int) -> Path:
        return self.folder / _CHECKPOINTS / f"{number:04}"


def _key(number: int, kind: str = _SCORE) -> str:
    return f"{kind}-{number:04}"


def pretrain(run: PretrainingRun, progress: ProgressCallback, stop: StopSignal) -> None:
    """Train and validate in this process, one after the other, until every checkpoint has its score.

    Raises:
        StoppedError: ``stop`` gave a reason; what was finished is kept.
    """
    trainer, validator = Trainer(run.plan), Validator(run.plan)
    at = run.latest()
    _score(run, validator, run.unscored(), progress, stop)
    while at.number < run.plan.checkpoints:
        at = trainer.advance(at, stop, progress)
        run.keep(at)
        progress(TRAINED, at.number, run.plan.checkpoints)
        _score(run, validator, [at.number], progress, stop)


def _score(
    run: PretrainingRun, validator: Validator, numbers: Iterable[int], progress: ProgressCallback, stop: StopSignal
) -> None:
    for number in numbers:
        ask(stop)
        run.keep_score(validator.score(run.checkpoint(number), stop))
        progress(VALIDATED, len(run.scores()), run.plan.checkpoints)


def chosen_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``, or in the ``best/`` of the run that it holds.

    Raises:
        InputError: there is none.
    """
    return load_checkpoint(chosen_folder(folder))


def chosen_folder(folder: Path) -> Path:
    """``folder`` itself, or the ``best/`` of the run that it holds."""
    return folder / _BEST if (folder / _BEST).is_dir() else folder
