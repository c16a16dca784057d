"""Finds the operations near an offset or a value of a key, for `harness around`.

A record is near an offset if it is at most n offsets away. In a poll, the n records before a value and the n records
after it are near this value. All other micro-operations and records are removed from the returned operations, as in the
results of `op-around-key-offset` and `op-around-key-value` of jepsen.tests.kafka. The history is read line by line, and
only lines that may contain the key are decoded. For an operation that never completed, its invocation is returned.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory, BadInput
from harness.model.op import INVOKE, Op
from harness.model.values_as_text import many, plain, seconds
from harness.stored import op_log

MICRO: Final = frozenset({"send", "poll", "txn"})
PROGRESS_S: Final = 2.0
LINES: Final = 1 << 16
OFFSETS_LISTED: Final = 16

Test = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Place:
    """What to search for: a key with an offset, or with a value if the offset is None.

    n  how far to look on each side: the number of offsets or, for a value, the number of records in the same poll
    """

    key: Any
    offset: int | None
    value: Any
    n: int

    def hit(self, offset: Any, value: Any) -> bool:
        """Returns whether a record has exactly this offset (or this value)."""
        return same(value, self.value) if self.offset is None else offset == self.offset


@dataclass(slots=True)
class Seen:
    """What a search has found so far.

    key  whether any operation sent or polled the key
    ops  number of operations near the place
    """

    key: bool = False
    ops: int = 0


@dataclass(slots=True)
class _Open:
    """Invocations near the place that have not completed yet.

    ops     process -> its invocation
    tokens  for each of these processes, a text that occurs in all its lines
    """

    ops: dict[Any, Op] = field(default_factory=dict)
    tokens: list[bytes] = field(default_factory=list)

    def put(self, op: Op) -> None:
        self.ops[op.process] = op
        self._renew()

    def end(self, process: Any) -> None:
        if self.ops.pop(process, None) is not None:
            self._renew()

    def _renew(self) -> None:
        self.tokens = [b'"process":' + orjson.dumps(process) + b"," for process in self.ops]


def given(text: str) -> Any:
    """Converts a key or a value from the command line: a JSON integer or string to its value.

    Any other text is returned unchanged.
    """
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return found if type(found) in (int, str) else text


def same(one: Any, two: Any) -> bool:
    """Returns whether two values have the same type and are equal: 1, 1.0 and true are all different."""
    return type(one) is type(two) and bool(one == two)


def near(pairs: Sequence[Sequence[Any]], place: Place) -> list[Sequence[Any]]:
    """Returns the records of a poll that are near the place, in the order of the poll.

    pairs  [offset, value] of each record of the key
    """
    if place.offset is not None:
        at = place.offset
        return [pair for pair in pairs if type(pair[0]) is int and abs(pair[0] - at) <= place.n]
    hits = [number for number, pair in enumerate(pairs) if same(pair[1], place.value)]
    kept = sorted({n for hit in hits for n in range(max(0, hit - place.n), hit + place.n + 1)})
    return [pairs[number] for number in kept if number < len(pairs)]


def _send(mop: Sequence[Any], place: Place) -> bool:
    pair = mop[2] if isinstance(mop[2], list) else [None, mop[2]]
    if place.offset is None:
        return same(pair[1], place.value)
    return type(pair[0]) is int and abs(pair[0] - place.offset) <= place.n


def trimmed(value: Any, place: Place, seen: Seen) -> list[Any]:
    """Returns the micro-operations near the place, reduced to the records near it; empty if there are none.

    Sets `seen.key` if the key occurs.
    """
    kept: list[Any] = []
    for mop in value if isinstance(value, list) else ():
        if mop[0] == "send" and same(mop[1], place.key):
            seen.key = True
            if _send(mop, place):
                kept.append(mop)
        elif mop[0] == "poll" and len(mop) == 2:
            for key, pairs in mop[1]:
                if same(key, place.key):
                    seen.key = True
                    nearby = near(pairs, place)
                    if nearby:
                        kept.append(["poll", [[key, nearby]]])
    return kept


def _possible(key: Any) -> Test:
    """Returns a quick test that is true for every line that contains the key, and perhaps for a few others."""
    if type(key) is int:
        return re.compile(rb"[\[,]\s*%d\s*," % key).search
    if type(key) is str and re.fullmatch(r"[\w .:-]*", key, re.ASCII):
        quoted = b'"%s"' % key.encode()
        return lambda line: quoted in line
    return lambda line: True


def _in_place(place: Place) -> Test:
    """Returns a quick test that is true for every line with a record near the place, and perhaps for a few others."""
    if place.offset is not None and place.n <= OFFSETS_LISTED:
        listed = b"|".join(b"%d" % (place.offset + n) for n in range(-place.n, place.n + 1))
        return re.compile(rb"\[\s*(?:%s)\s*," % listed).search
    if place.offset is None and type(place.value) is int:
        return re.compile(rb",\s*%d\s*\]" % place.value).search
    return lambda line: True


def find(run: Path, place: Place, seen: Seen, progress: Callable[[str], None] = lambda text: None) -> Iterator[Op]:
    """Yields the operations near the place, reduced to the records near it, in order of completion.

    Operations that never completed follow at the end, as invocations (type `invoke`). Updates `seen`. Raises BadInput
    if the history cannot be read, and BadHistory for a malformed line.
    """
    possible, in_place, open_ = _possible(place.key), _in_place(place), _Open()
    next_report = time.monotonic() + PROGRESS_S
    torn: BadHistory | None = None
    for number, (path, line_number, line) in enumerate(op_log.each(run)):
        if number % LINES == 0 and time.monotonic() > next_report:
            next_report = time.monotonic() + PROGRESS_S
            progress(f"{number:,} lines read")
        if torn is not None:
            raise torn
        candidate = (not seen.key or in_place(line)) and possible(line)
        if not candidate and not any(token in line for token in open_.tokens):
            continue
        try:
            op = op_json.decode(line, f"{path}, line {line_number}")
            found = trimmed(op.value, place, seen) if candidate and op.f in MICRO else []
        except BadHistory as error:
            if b'"schema"' not in line[:64]:
                torn = error  # allowed for the last line only: a killed writer may leave it incomplete
            continue
        except (TypeError, ValueError, IndexError):
            raise BadHistory(f"{path}, line {line_number}: malformed micro-operations") from None
        if op.type == INVOKE:
            if found:
                open_.put(op.with_(value=found))
            continue
        open_.end(op.process)
        if found:
            seen.ops += 1
            yield op.with_(value=found)
    for op in sorted(open_.ops.values(), key=lambda open_op: open_op.index):
        seen.ops += 1
        yield op


def require(seen: Seen, place: Place, run: Path) -> str:
    """Returns a message that nothing was found near the place. Raises BadInput if no operation sent or polled the key
    at all."""
    if not seen.key:
        raise BadInput(
            f"key {plain(place.key)}: no operation of {run} sends or polls it; "
            "`harness explain` lists the keys of the anomalies"
        )
    what = f"value {plain(place.value)}"
    if place.offset is not None:
        what = f"a record within {many(place.n, 'offset')} of {place.offset}"
    return f"key {plain(place.key)}: no operation sent or polled {what}"


def text(op: Op, place: Place) -> str:
    """Formats an operation as one line."""
    ended = "open" if op.type == INVOKE else op.type
    head = f"{seconds(op.time_ns):>11}  op {op.index:<8} process {op.process!s:<5} {op.f:<5}{ended:<5}"
    why = f"   ({plain(op.error)})" if op.error else ""
    return f"{head} {'; '.join(_mop(mop, place) for mop in op.value)}{why}"


def _mop(mop: Sequence[Any], place: Place) -> str:
    if mop[0] == "send":
        pair = mop[2] if isinstance(mop[2], list) else [None, mop[2]]
        return f"sent {_pair(pair, place)}"
    return "polled " + " ".join(_pair(pair, place) for pair in mop[1][0][1])


def _pair(pair: Sequence[Any], place: Place) -> str:
    shown = f"{'?' if pair[0] is None else pair[0]}:{plain(pair[1])}"
    return f"[{shown}]" if place.hit(pair[0], pair[1]) else shown


def data(op: Op) -> dict[str, Any]:
    """Returns the operation as plain data, in the format of the history."""
    return op_json.to_data(op)
