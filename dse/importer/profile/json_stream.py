"""JSON too large for memory: the entries of a long list of the top level, in turn.

A profile is one object whose list of events makes up nearly all of it. No more of it is in memory than a piece of the
text and one event. Numbers with a fraction stay text, because a double does not hold nanoseconds of an epoch.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, TextIO

from hardware.inputs import InputError, fail

PIECE_CHARACTERS = 2**22
_MAX_ENTRY_CHARACTERS = 2**26
"""Of one entry of the list, or of one other value of the top level."""

_CUT_OFF = 16
"""Characters at the end of what is there that a token which is cut off may begin in."""

_DECODER = json.JSONDecoder(parse_float=str, strict=False)
_SPACE, _SEPARATORS = re.compile(r"\s*"), re.compile(r"[\s,]*")


class JsonStream:
    """The top level of a JSON document, read once from the beginning to the end.

    Attributes:
        header: the entries of the top level that were read so far, without the long lists.

    Args:
        stream: the text.
        where: its file, for errors.
    """

    def __init__(self, stream: TextIO, where: str) -> None:
        self.header: dict[str, Any] = {}
        self._stream, self._where = stream, where
        self._text, self._at, self._ended = "", 0, False

    def lists(self, names: Collection[str]) -> Iterator[tuple[str, Iterator[Any]]]:
        """Each list of the top level that has one of ``names``, with its entries, which must be used up in turn.

        A document that is a list itself is the first of ``names``.

        Raises:
            InputError: it is not JSON, not complete, or has an entry that is larger than any of a profile.
        """
        opening = self._next(_SPACE)
        if opening == "[":
            self._at += 1
            yield next(iter(names)), self._entries()
            self._end()
            return
        if opening != "{":
            raise fail(self._where, "", "", "must be a JSON object")
        self._at += 1
        while (character := self._next(_SEPARATORS)) != "}":
            if character == "":
                raise self._cut_off("the object of the top level does not end")
            name = self._value("the top level")
            if not isinstance(name, str) or self._next(_SPACE) != ":":
                raise fail(self._where, "", "", "is not valid JSON: a key of the top level is missing")
            self._at += 1
            if self._next(_SPACE) == "[" and name in names:
                self._at += 1
                yield name, self._entries()
            else:
                self.header[name] = self._value(name)
        self._at += 1
        self._end()

    def _end(self) -> None:
        if self._next(_SPACE):
            raise fail(self._where, "", self._text[self._at :], "must end with the object of the top level")

    def _entries(self) -> Iterator[Any]:
        """The entries of a list whose opening bracket is behind."""
        decode, separators, count = _DECODER.raw_decode, _SEPARATORS.match, 0
        while True:
            match = separators(self._text, self._at)
            assert match is not None, "it also matches nothing"
            self._at = match.end()
            try:
                entry, self._at = decode(self._text, self._at)
            except (ValueError, RecursionError):
                if self._next(_SEPARATORS) == "]":
                    self._at += 1
                    return
                entry = self._value(f"entry {count}")
            count += 1
            yield entry

    def _next(self, skipped: re.Pattern[str]) -> str:
        """The next character behind what is ``skipped``; empty at the end."""
        while True:
            match = skipped.match(self._text, self._at)
            assert match is not None, "it also matches nothing"
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self, key: str) -> Any:
        """The value that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                at_end = error.pos >= len(self._text) - _CUT_OFF or error.msg.startswith("Unterminated string")
                if not at_end:
                    raise fail(self._where, key, "", f"is not valid JSON: {error.msg}") from error
                if not self._more():
                    raise self._cut_off(f"{key} does not end") from error
            except (ValueError, RecursionError) as error:
                rule = "is nested too deeply, or has a number too long, for a profile"
                raise fail(self._where, key, "", rule) from error
            else:
                # A number at the end of the piece may go on in the next one.
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value
            if len(self._text) - self._at > _MAX_ENTRY_CHARACTERS:
                raise fail(self._where, key, "", "is larger than any event of a profile")

    def _more(self) -> bool:
        """Whether there is another piece of the text, which is appended to what is not yet used."""
        if self._ended:
            return False
        piece = self._stream.read(PIECE_CHARACTERS)
        self._ended = not piece
        self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)

    def _cut_off(self, what: str) -> InputError:
        return fail(self._where, "", "", f"is cut off: {what}")
