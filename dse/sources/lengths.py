"""How long samples are where nobody says it: those of a traced ``config.json`` have their greatest length."""

import json
from collections.abc import Iterator, Mapping

from dse.importer.torch.transformers_config import POSITIONS
from dse.report.view import Decisive
from hardware.input_files import InputFile


def assumed_lengths(inputs: Mapping[str, InputFile], sequence: int | None) -> Iterator[str]:
    """A sentence for each text model among the ``inputs`` of a result whose length was not given."""
    for file in inputs.values() if sequence is None else ():
        document = _config(file)
        longest = next((document[key] for key in POSITIONS if isinstance(document.get(key), int)), None)
        if longest is not None:
            yield Decisive(
                f"Samples of {file.path} have its maximum of {longest:,} tokens; --sequence sets another length."
            )
        elif "vocab_size" in document:
            yield Decisive(f"Samples of {file.path} have the maximum of its class; --sequence sets another length.")


def _config(file: InputFile) -> Mapping[str, object]:
    """What a config of transformers holds; nothing of another file."""
    if not file.path.endswith(".json") or file.text is None:
        return {}
    try:
        document = json.loads(file.text)
    except (ValueError, RecursionError):  # of a result that somebody sent: what it carries need not be what was read
        return {}
    return document if isinstance(document, dict) and "model_type" in document else {}
