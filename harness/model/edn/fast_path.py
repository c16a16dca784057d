"""Fast conversion between EDN and history lines, for common ops. It is ten times as fast as `harness.model.edn.ops`,
and gives equal results (tests/unit/model/test_edn_ops.py).

`quick` turns whole blocks of EDN lines into JSON by text replacement. It yields None for each line of an unusual shape.
In a line of the usual shape, all values are integers, all fields are known, and all micro-ops are sends and polls.
`text_of` does the reverse: it writes such ops as EDN text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from harness.model.edn import reader
from harness.model.edn.ops import MICRO, NAME, RECORD, form_of

# --- any form -------------------------------------------------------------------------------------------

_TOKENS: Final = re.compile(r'"[^"]*"|[^\s,\[\](){}";]+|[\[\](){}]')
_TAG: Final = re.compile(r"#([A-Za-z][^\s,\[\](){}\";]*)(?=[\[({])")
_UNSURE: Final = object()


def loads(text: str, where: str = "text") -> Any:
    """Returns the same as `reader.loads`.

    Twice as fast if the text has no escapes or comments, no sets, and no tags except at its beginning.
    """
    try:
        value = _form(text)
    except (ValueError, ArithmeticError):
        value = _UNSURE
    return reader.loads(text, where) if value is _UNSURE else value


def _form(text: str) -> Any:
    """Returns the EDN value in a text.

    Returns _UNSURE if the text is unusual or invalid; then `reader.loads` must be used.
    """
    if "\\" in text or ";" in text or text.count('"') % 2:
        return _UNSURE
    if tag := _TAG.match(text):
        inner = _form(text[tag.end() :])
        return inner if inner is _UNSURE else reader.Tagged(tag[1], inner)
    items, stack = list[Any](), list[tuple[str, list[Any]]]()
    for token in _TOKENS.findall(text):
        first = token[0]
        if first in "[({":
            if len(stack) >= reader.MAX_DEPTH:
                return _UNSURE
            stack.append((token, items))
            items = []
        elif first in "])}":
            if not stack or reader.CLOSERS[stack[-1][0]] != token:
                return _UNSURE
            opener, outer = stack.pop()
            outer.append(items if opener == "[" else tuple(items) if opener == "(" else reader.mapped(items))
            items = outer
        elif first == ":" and len(token) > 1:
            items.append(reader.keyword(token[1:]))
        elif token.isdecimal() or (first in "+-" and token[1:].isdecimal()):
            items.append(int(token))
        elif first == '"':
            items.append(token[1:-1])
        elif first in "#:":
            return _UNSURE
        else:
            items.append(reader.bare(token))
    return _UNSURE if stack or len(items) != 1 else items[0]


# --- lines ----------------------------------------------------------------------------------------------

PREFIX: Final = b"#" + RECORD.encode() + b"{"
_TYPES: Final = (b"invoke", b"ok", b"info", b"fail")
_FS: Final = (b"txn", b"send", b"poll", b"assign", b"subscribe", b"crash")
# These replacements, in this order, turn a line of the common shape into JSON. A line of any other shape becomes
# invalid JSON, or JSON with more quotes than its parts explain.
_REPLACE: Final = (
    (b", ", b","),
    *(
        (b":%s " % theirs, b'"%s":' % ours)
        for theirs, ours in (
            (b"index", b"index"),
            (b"time", b"time_ns"),
            (b"process", b"process"),
            (b"value", b"value"),
        )
    ),
    *((b":type :%s" % name, b'"type":"%s"' % name) for name in _TYPES),
    *((b":f :%s" % name, b'"f":"%s"' % name) for name in _FS),
    (b"[:send ", b'["send",'),
    (b"[:poll", b'["poll"'),
    (b" [[", b'":[['),  # after a key of a polled map
    (b" []", b'":[]'),
    (b"nil", b"null"),
)
# Keys of polled maps; except 00 and -0, which would be duplicates of 0.
_FIRST_KEY: Final = re.compile(rb'\{(?=(?:0|-?[1-9]\d*)":)')
_NEXT_KEY: Final = re.compile(rb',(?=(?:0|-?[1-9]\d*)":)')
_DIGITS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG: Final = b"0" * 19  # a number of this many digits may exceed 64 bits, and JSON would round it
_QUOTES: Final = 2 * (6 + 2)  # six field names, and two values that are strings


def quick(block: bytes) -> Iterator[dict[str, Any] | None]:
    """Converts the lines of a block, each of which is an op as EDN.

    Yields, for each line, the data that `data_of` returns for the op. Yields None for a line that this fast path cannot
    convert. Converts one line at a time, so that the garbage collector has few live objects to scan.
    """
    lines = block.split(b"\n")
    if b'"' in block or b"null" in block or _LONG in block.translate(_DIGITS):
        block = b"\n".join([b"" if _odd(line) else line for line in lines])
    if block[:1] == b"#" or b"\n#" in block:
        if block.startswith(PREFIX):
            block = block[len(PREFIX) - 1 :]
        block = block.replace(b"\n" + PREFIX, b"\n{")
    for theirs, ours in _REPLACE:
        block = block.replace(theirs, ours)
    block = _NEXT_KEY.sub(b',"', _FIRST_KEY.sub(b'{"', block)).replace(b" ", b",")
    return map(_checked, block.split(b"\n"))


def _odd(line: bytes) -> bool:
    return b'"' in line or b"null" in line or _LONG in line.translate(_DIGITS)


def _checked(line: bytes) -> dict[str, Any] | None:
    """Parses a line that `quick` has turned into JSON. Returns None if the line is not of the usual shape.

    The usual shape has all fields, and no quotes except the expected ones. Additional quotes are a sign of duplicate
    keys or unknown names.
    """
    try:
        data: dict[str, Any] = orjson.loads(line)
        value, quotes = data["value"], _QUOTES
        if data["f"] in MICRO:
            for mop in value:
                quotes += 2
                if mop[0] == "poll":
                    if len(mop) == 2:
                        quotes += 2 * len(mop[1])
                        mop[1] = [[int(key), pairs] for key, pairs in mop[1].items()]
                    elif len(mop) != 1:
                        return None
                elif mop[0] != "send":
                    return None
        elif value is not None and type(value) is not list:
            return None
        return data if len(data) == 6 and line.count(b'"') == quotes else None
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError, AttributeError, ValueError):
        return None


def text_of(data: Mapping[str, Any], record: bool = False) -> str:
    """Returns the EDN text of an op, given as the data of its history line. Raises ValueError if the data is not an op.

    record  write the tag of Jepsen's Op record in front of the map
    """
    return _quick_text(data, record) or reader.dumps(form_of(data, record))


_PLAIN: Final = str.maketrans("", "", "0123456789-[] ,")


def _numbers(value: Any) -> str:
    """Returns the EDN text of nested lists of integers. Raises ValueError for anything else."""
    text = repr(value)
    if text.translate(_PLAIN):
        raise ValueError
    return text.replace(",", "")


def _quick_text(data: Mapping[str, Any], record: bool) -> str | None:
    """Returns the EDN text of an op whose values are all integers. Returns None for other ops."""
    try:
        f, value = data["f"], data["value"]
        if len(data) != 6 or type(value) is not list or not NAME.fullmatch(f):
            return None
        if {type(data["index"]), type(data["time_ns"]), type(data["process"])} != {int}:
            return None
        if not NAME.fullmatch(data["type"]):
            return None
        value_text = " ".join(map(_quick_mop, value)) if f in MICRO else _numbers(value)[1:-1]
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    return (
        f"{'#' + RECORD if record else ''}{{:index {data['index']}, :time {data['time_ns']}, "
        f":type :{data['type']}, :process {data['process']}, :f :{f}, :value [{value_text}]}}"
    )


def _quick_mop(mop: Any) -> str:
    if mop[0] == "send":
        _, key, value = mop
        return f"[:send {_numbers(key)} {_numbers(value)}]"
    if mop[0] != "poll" or len(mop) > 2:
        raise ValueError
    if len(mop) == 1:
        return "[:poll]"
    entries = [f"{_numbers(key)} {_numbers(pairs)}" for key, pairs in mop[1] if type(pairs) is list]
    if len(entries) != len(mop[1]) or len({key for key, _ in mop[1]}) != len(entries):
        raise ValueError
    return "[:poll {" + ", ".join(entries) + "}]"
