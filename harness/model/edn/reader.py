"""Reader and writer of EDN, the data format of Jepsen's histories.

    nil true false 17 1.5 "text"      None True False int float str
    :keyword  symbol  \\c             Keyword, Symbol, Char: subclasses of str
    [1 2]   (1 2)   #{1 2}   {:a 1}   list, tuple, Bag, dict
    #tag value                        Tagged(tag, value)
    17N 1.5M 2/3                      int; Decimal; Fraction

Tags are data: no objects are constructed from them. Nesting is limited to MAX_DEPTH, duplicate map keys are
errors, and errors contain the line and the column. A map key that is a collection is wrapped in Frozen, which is
hashable. Not supported: metadata, namespaced maps `#:ns{}`. Source: the EDN format specification.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadHistory

MAX_DEPTH: Final = 64


class Keyword(str):
    """A keyword `:name`, without the colon."""

    __slots__ = ()


keyword: Final = lru_cache(4096)(Keyword)  # a history has few distinct keywords, and calling a class is slower


class Symbol(str):
    """A symbol: a name without a prefix."""

    __slots__ = ()


class Char(str):
    """A character, written \\c."""

    __slots__ = ()


class Bag(tuple[Any, ...]):
    """A set. It keeps its elements in the order in which they are written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tagged value, written #tag value."""

    tag: str
    value: Any


class Frozen:
    """A wrapper that makes a collection hashable, so that it can be a map key.

    Two of these wrappers are equal if the EDN texts of their collections are equal.
    """

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
LONG_INT: Final = 4000  # digits; Python refuses to convert integers that are much longer
_RATIO: Final = re.compile(r"[+-]?\d+/\d+\Z", re.ASCII)
_CONSTANTS: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_SPECIAL: Final = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
_CHARS: Final = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "b": "\b", "f": "\f"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # cannot be encoded in UTF-8, but can be written as an escape
CLOSERS: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}


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


def bare(token: str) -> Any:
    """Returns the value of a token that begins with no special character: a constant, a number or a symbol.

    Raises ValueError or ArithmeticError if the token is none of these.
    """
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    number = _NUMBER.match(token)
    if number is None:
        return Fraction(token) if _RATIO.match(token) else Symbol(token)
    if number["big"]:
        return int(token[:-1])
    return Decimal(token[:-1]) if number["exact"] else float(token)


def put(into: dict[Any, Any], key: Any, value: Any) -> None:
    """Sets into[key] = value.

    Some keys differ in EDN, but are equal in Python, such as :a and "a", or 1 and true. If `into` already has such an
    equal key of another EDN type, the new key is wrapped in Frozen.
    """
    if key in into and type(key) is not Frozen and type(next(k for k in into if k == key)) is not type(key):
        key = Frozen(key)
    into[key] = value


def mapped(items: list[Any]) -> dict[Any, Any]:
    """Returns the map whose keys and values alternate in `items`.

    Raises ValueError if their number is odd or a key occurs twice.
    """
    if len(items) % 2:
        raise ValueError("a map needs a value for each key")
    result: dict[Any, Any] = {}
    for position in range(0, len(items), 2):
        key = items[position]
        if isinstance(key, list | dict | tuple | Tagged):
            key = Frozen(key)
        put(result, key, items[position + 1])
        if 2 * len(result) != position + 2:
            raise ValueError(f"duplicate key {_short(key)} in a map")
    return result


def _short(value: Any) -> str:
    text = dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


_BUILD: Final[dict[str, Any]] = {"[": list, "(": tuple, "#{": Bag, "{": mapped}
_DISCARD: Final = object()


def _close(opener: str, items: list[Any]) -> Any:
    return items if opener == "[" else _BUILD[opener](items)


def _special(text: str, at: int) -> tuple[Any, int] | None:
    """Reads a constant that begins with ##, such as ##NaN; _TOKEN does not match these.

    Returns (value, end), or None if there is no such constant at this position.
    """
    match = re.compile(r"[\s,]*(##-?[A-Za-z]+)").match(text, at)
    if match and match.group(1) in _SPECIAL:
        return _SPECIAL[match.group(1)], match.end()
    return None


class _Reader:
    """A reader of EDN forms, one after another. Uses an explicit stack instead of recursion."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where, self.at = text, where, 0

    def fail(self, why: str, at: int | None = None) -> BadHistory:
        return BadHistory(f"{_place(self.text, self.at if at is None else at, self.where)}: not EDN ({why})")

    def form(self) -> Any:
        """Reads and returns the next form.

        Raises BadHistory if it is not valid, and EOFError if the text ends before the form does.
        """
        text, match_token = self.text, _TOKEN.match
        # Each level: (opener, items, pending prefixes: tags and discards whose form is still to come).
        items, prefixes = list[Any](), list[Any]()
        stack: list[tuple[str, list[Any], list[Any]]] = [("", items, prefixes)]
        while True:
            match = match_token(text, self.at)
            if match is None:
                value, self.at = self._other()
            else:
                kind, self.at = match.lastgroup or "", match.end()
                token = match[kind]
                if kind == "int" and len(token) < LONG_INT:
                    value = int(token)
                elif kind == "keyword":
                    value = keyword(token)
                elif kind == "open":
                    if len(stack) > MAX_DEPTH:
                        raise self.fail(f"nested deeper than {MAX_DEPTH}")
                    items, prefixes = [], []
                    stack.append((token, items, prefixes))
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
            while prefixes and value is not _DISCARD:
                prefix = prefixes.pop()
                value = _DISCARD if prefix is _DISCARD else Tagged(prefix, value)
            if value is not _DISCARD:
                if len(stack) == 1:
                    return value
                items.append(value)

    def _other(self) -> tuple[Any, int]:
        """Reads a form that _TOKEN does not match. Returns (value, end). Raises the same errors as `form`."""
        special = _special(self.text, self.at)
        if special is not None:
            return special
        # Either the text ends here, or there may be an unterminated string.
        if _BLANK.match(self.text, self.at) or self.text.find('"', self.at) >= 0:
            raise EOFError
        raise self.fail("unexpected text")

    def _closed(self, stack: list[tuple[str, list[Any], list[Any]]], token: str, prefixes: list[Any]) -> Any:
        opener, items, _ = stack[-1]
        if len(stack) == 1 or CLOSERS[opener] != token:
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
            return int(token) if kind == "int" else bare(token)
        except (ValueError, InvalidOperation, ZeroDivisionError) as error:
            raise self.fail(str(error)) from None


def loads(text: str, where: str = "text") -> Any:
    """Returns the value of a text that contains exactly one form.

    Otherwise raises BadHistory, with `where`, line and column.
    """
    reader = _Reader(text, where)
    try:
        value = reader.form()
    except EOFError:
        raise reader.fail("the text ends too early", len(text)) from None
    if not _BLANK.match(text, reader.at):
        raise reader.fail("more than one form")
    return value


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    escaped = escaped.replace("\t", "\\t").replace("\r", "\\r")
    return '"' + _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'


def _float(value: float) -> str:
    if value != value:
        return "##NaN"
    if value in (float("inf"), float("-inf")):
        return "##Inf" if value > 0 else "##-Inf"
    return repr(value)


def dumps(value: Any) -> str:
    """Returns the EDN text of a value. Raises TypeError if the value's type is not one that `loads` returns."""
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
        code = f"u{ord(value):04x}" if _SURROGATE.fullmatch(value) else str(value)
        return "\\" + names.get(str(value), code)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Decimal):
        return f"{value}M"
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, Tagged):
        text = dumps(value.value)
        return f"#{value.tag}{text}" if text[0] in '{[("' else f"#{value.tag} {text}"
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
