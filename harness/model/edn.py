"""EDN, the notation of Jepsen's histories: text -> plain data, and back.

    nil true false 17 1.5 "text"      None True False int float str
    :keyword  symbol  \\c             Keyword, Symbol, Char: strings of their own classes
    [1 2]   (1 2)   #{1 2}   {:a 1}   list, tuple, Bag, dict
    #tag value                        Tagged(tag, value)
    17N 1.5M                          int; Decimal

Tags are data: nothing is constructed from them. Nesting is capped at MAX_DEPTH, duplicate map keys are
refused, and errors name line and column. A map key that is a collection becomes a Frozen, which keeps it.
Not supported: metadata, namespaced maps `#:ns{}`. Source: the EDN format specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from harness.model.errors import BadHistory

MAX_DEPTH: Final = 64


class Keyword(str):
    """:name, without the colon."""

    __slots__ = ()


class Symbol(str):
    """A bare name."""

    __slots__ = ()


class Char(str):
    """One character, written \\c."""

    __slots__ = ()


class Bag(tuple[Any, ...]):
    """A set, in the order in which it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """#tag value."""

    tag: str
    value: Any


class Frozen:
    """A collection as a map key: equal when its text is."""

    __slots__ = ("text", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.text = value, dumps(value)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and other.text == self.text

    def __repr__(self) -> str:
        return self.text


_TOKEN: Final = re.compile(
    r"""[\s,]*(?:;[^\n]*[\s,]*)*
    (?: (?P<int>[+-]?\d+)(?=[\s,\]\)\}\[\(\{";]|$)
      | (?P<open>\[|\(|\{|\#\{)
      | (?P<close>[\]\)\}])
      | :(?P<keyword>[^\s,\[\](){}";]+)
      | "(?P<string>(?:[^"\\]|\\.)*)"
      | (?P<discard>\#_)
      | \#(?P<tag>[A-Za-z][^\s,\[\](){}";]*)
      | \\(?P<char>[^\s,\[\](){}";]+|.)
      | (?P<bare>[^\s,\[\](){}";\#\\:][^\s,\[\](){}";]*)
    )""",
    re.VERBOSE | re.DOTALL,
)
_BLANK: Final = re.compile(r"[\s,]*(?:;[^\n]*[\s,]*)*\Z")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?P<big>N)|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?P<exact>M)?)\Z")
_CONSTANTS: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_SPECIAL: Final = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
_CHARS: Final = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "b": "\b", "f": "\f"}
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}


def _place(text: str, at: int, where: str) -> str:
    line = text.count("\n", 0, at)
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return f"{where}, column {column}" if line == 0 else f"{where}, line {line + 1}, column {column}"


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] == "u":
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text, flags=re.DOTALL)


def _bare(token: str) -> Any:
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    number = _NUMBER.match(token)
    if number is None:
        return Symbol(token)
    if number["big"]:
        return int(token[:-1])
    return Decimal(token[:-1]) if number["exact"] else float(token)


def _map(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a map needs a value for each key")
    result: dict[Any, Any] = {}
    for position in range(0, len(items), 2):
        key = items[position]
        if isinstance(key, list | dict | Bag | tuple):
            key = Frozen(key)
        if key in result:
            raise ValueError(f"duplicate key {key!r} in a map")
        result[key] = items[position + 1]
    return result


_BUILD: Final[dict[str, Any]] = {"[": list, "(": tuple, "#{": Bag, "{": _map}
_DISCARD: Final = object()


def _close(opener: str, items: list[Any]) -> Any:
    return items if opener == "[" else _BUILD[opener](items)


def _special(text: str, at: int) -> tuple[Any, int] | None:
    """The constants that begin with ##, which the token expression leaves out."""
    match = re.compile(r"[\s,]*(##-?[A-Za-z]+)").match(text, at)
    if match and match.group(1) in _SPECIAL:
        return _SPECIAL[match.group(1)], match.end()
    return None


class _Reader:
    """Reads forms one after another, with an explicit stack."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where, self.at = text, where, 0

    def fail(self, why: str, at: int | None = None) -> BadHistory:
        return BadHistory(f"{_place(self.text, self.at if at is None else at, self.where)}: not EDN ({why})")

    def form(self) -> Any:
        """The next form. Raises BadHistory; EOFError when the text ends inside it."""
        text, match_token = self.text, _TOKEN.match
        # Each level: (opener, items, pending prefixes: tags and discards that await their form).
        stack: list[tuple[str, list[Any], list[Any]]] = [("", [], [])]
        while True:
            _, items, prefixes = stack[-1]
            match = match_token(text, self.at)
            if match is None:
                special = _special(text, self.at)
                if special is None:
                    if _BLANK.match(text, self.at):
                        raise EOFError
                    if text.find('"', self.at) >= 0:
                        raise EOFError  # a string that does not end
                    raise self.fail("unexpected text")
                value, self.at = special
            else:
                kind, self.at = match.lastgroup or "", match.end()
                token = match.group(kind)
                if kind == "int":
                    value = int(token)
                elif kind == "keyword":
                    value = Keyword(token)
                elif kind == "open":
                    if len(stack) > MAX_DEPTH:
                        raise self.fail(f"nested deeper than {MAX_DEPTH}")
                    stack.append((token, [], []))
                    continue
                elif kind == "close":
                    value = self._closed(stack, token, prefixes)
                    _, items, prefixes = stack[-1]
                elif kind in ("tag", "discard"):
                    prefixes.append(_DISCARD if kind == "discard" else token)
                    if len(prefixes) > MAX_DEPTH:
                        raise self.fail(f"more than {MAX_DEPTH} tags in a row")
                    continue
                else:
                    value = self._atom(kind, token)
            keep = True
            while prefixes:
                prefix = prefixes.pop()
                if prefix is _DISCARD:
                    keep = False
                    break
                value = Tagged(prefix, value)
            if keep:
                if len(stack) == 1:
                    return value
                items.append(value)

    def _closed(self, stack: list[tuple[str, list[Any], list[Any]]], token: str, prefixes: list[Any]) -> Any:
        opener, items, _ = stack[-1]
        if len(stack) == 1 or _CLOSERS[opener] != token:
            raise self.fail(f"unexpected {token}", self.at - 1)
        if prefixes:
            raise self.fail("a tag without a value", self.at - 1)
        stack.pop()
        try:
            return _close(opener, items)
        except (ValueError, TypeError) as error:
            raise self.fail(str(error), self.at - 1) from None

    def _atom(self, kind: str, token: str) -> Any:
        try:
            if kind == "string":
                return _unescape(token) if "\\" in token else token
            if kind == "char":
                if len(token) == 5 and token[0] == "u":
                    return Char(chr(int(token[1:], 16)))
                return Char(_CHARS.get(token, token))
            return _bare(token)
        except (ValueError, InvalidOperation) as error:
            raise self.fail(str(error)) from None


def loads(text: str, where: str = "text") -> Any:
    """The single form of a text. Raises BadHistory with `where`, line and column when it is not one."""
    reader = _Reader(text, where)
    try:
        value = reader.form()
    except EOFError:
        raise reader.fail("the text ends too early", len(text)) from None
    if not _BLANK.match(text, reader.at):
        raise reader.fail("more than one form")
    return value


def forms(text: str, where: str = "text") -> Iterator[Any]:
    """Every form of a text, one after another."""
    reader = _Reader(text, where)
    while not _BLANK.match(text, reader.at):
        try:
            yield reader.form()
        except EOFError:
            raise reader.fail("the text ends too early", len(text)) from None


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("\t", "\\t").replace("\r", "\\r") + '"'


def _float(value: float) -> str:
    if value != value:
        return "##NaN"
    if value in (float("inf"), float("-inf")):
        return "##Inf" if value > 0 else "##-Inf"
    return repr(value)


def dumps(value: Any) -> str:
    """The EDN text of what `loads` gives. Raises TypeError for anything else."""
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if -(1 << 63) <= value < 1 << 63 else f"{value}N"
    if isinstance(value, Keyword):
        return ":" + str(value)
    if isinstance(value, Symbol):
        return str(value)
    if isinstance(value, Char):
        names = {char: name for name, char in _CHARS.items()}
        return "\\" + names.get(str(value), str(value))
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Decimal):
        return f"{value}M"
    if isinstance(value, Tagged):
        return f"#{value.tag} {dumps(value.value)}"
    if isinstance(value, Frozen):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{dumps(key)} {dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Bag):
        return "#{" + " ".join(map(dumps, value)) + "}"
    if isinstance(value, tuple):
        return "(" + " ".join(map(dumps, value)) + ")"
    if isinstance(value, list):
        return "[" + " ".join(map(dumps, value)) + "]"
    raise TypeError(f"no EDN for {type(value).__name__}")
