"""JSON whose bulk is one list of lists of whole numbers, read into arrays instead of Python objects.

Some of the numbers may be written as floats, as numbers that stand for a forbidden choice often are.

A file of a choice problem holds up to a hundred million costs. As Python objects they take 40 bytes each and a minute;
as arrays eight bytes and about three seconds for each GB of text.
"""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.list_kernels import counts_in, lists_in, read_rows
from hardware.documents import parse_document, text_in
from hardware.inputs import InputError

Ints = npt.NDArray[np.int64]

LEAST_BYTES = 2**20
"""Of lists that are read into arrays."""

_TOKEN = re.compile(rb"[-+.0-9Ee]+")


@dataclass(frozen=True, eq=False)
class Rows(Sequence[Ints]):
    """Lists of whole numbers, as views of one array.

    Attributes:
        values: [numbers].
        ends: where each list ends, [lists].
        others: numbers that are not whole numbers of at least 0, by their place in ``values``.
    """

    values: Ints
    ends: Ints
    others: Mapping[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Lists."""
        return len(self.ends)

    @overload
    def __getitem__(self, row: int) -> Ints: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Ints]: ...
    def __getitem__(self, row: int | slice) -> Ints | Sequence[Ints]:
        """One list, or some."""
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        place = range(len(self))[row]
        return self.values[self._start(place) : self.ends[place]]

    def faulty(self) -> Iterator[tuple[int, int, Any]]:
        """Of each of :attr:`others` its row, its place in that, and itself."""
        for number, value in self.others.items():
            row = int(np.searchsorted(self.ends, number, "right"))
            yield row, number - self._start(row), value

    def _start(self, row: int) -> int:
        return int(self.ends[row - 1]) if row else 0


def rows_of(text: bytes, cap: int, path: str) -> Rows | None:
    """A list of lists in JSON, numbers above ``cap`` (below 10^17 + 1) as ``cap``; None where it is anything else.

    Raises:
        InputError: one of the numbers is none; ``path`` names the file.
    """
    array = np.frombuffer(text, np.uint8)
    commas, opened = counts_in(array)
    values, ends = np.empty(commas + opened, np.int64), np.empty(opened, np.int64)
    numbers, rows = read_rows(array, np.int64(cap), values, ends)
    if rows < 0:
        return None
    values, ends = values[:numbers], ends[:rows]
    unread = np.flatnonzero(values < 0)
    tokens = (_TOKEN.match(text, -1 - place) for place in values[unread].tolist())
    parsed = parse_document(f"[{','.join(each[0].decode() for each in tokens if each)}]", path)
    others = dict[int, Any]()
    for number, value in zip(unread.tolist(), parsed, strict=True):
        is_whole = value >= 0 and float(value).is_integer()
        values[number] = int(min(value, cap)) if is_whole else 0
        if not is_whole:
            others[number] = value
    return Rows(values, ends, others)


def parsed_with_rows(content: bytes, keys: Sequence[str], cap: int, path: str) -> tuple[Any, Rows | None]:
    """A JSON document, and the list of lists under ``keys``, which is an empty list in the document.

    Args:
        content: the text.
        keys: that lead to the list.
        cap: stands for larger numbers of the list.
        path: of the file, for messages.

    Returns:
        The document as :func:`hardware.documents.parse_document` gives it, and the rows; the whole document and None
        where the list is small, or is not a list of lists of numbers.

    Raises:
        InputError: as :func:`hardware.documents.parse_document`; commas of the list do not count.
    """
    spans = lists_in(np.frombuffer(content, np.uint8), LEAST_BYTES).tolist()
    marks = {f"list {number} {secrets.token_hex(16)}": span for number, span in enumerate(spans)}
    parts, last = list[bytes](), 0
    for mark, (start, end) in marks.items():
        parts += [content[last:start], f'"{mark}"'.encode()]
        last = end
    try:
        document = parse_document(text_in(b"".join([*parts, content[last:]]), path), path)
        holder = document
        for key in keys[:-1]:
            holder = holder[key]
        start, end = marks.pop(holder[keys[-1]])
        rows = rows_of(content[start:end], cap, path)
        if rows is not None:
            holder[keys[-1]] = []
            lists = {mark: parse_document(text_in(content[slice(*span)], path), path) for mark, span in marks.items()}
            return _restored(document, lists), rows
    except (InputError, KeyError, TypeError):
        pass  # the whole text says what is wrong, and where
    return parse_document(text_in(content, path), path), None


def _restored(document: Any, lists: Mapping[str, Any]) -> Any:
    """The document with what its marks stand for."""
    if isinstance(document, dict):
        return {key: _restored(each, lists) for key, each in document.items()}
    if isinstance(document, list):
        return [_restored(each, lists) for each in document]
    return lists.get(document, document) if isinstance(document, str) else document
