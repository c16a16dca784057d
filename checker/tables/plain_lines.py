"""Parses many lines of the usual form at once, into arrays.

Most lines of a history consist of the six fields of an op, with sends, polls or keys of integers only. A regular
expression finds stretches of such lines; numpy then reads all their integers, and the characters around an integer show
what it is. All other lines are left to `checker.tables.read_history`, which also reports what is wrong with a line.

The forms are those that `harness.model.op_json` and Jepsen write:

    {"index":7,"time_ns":5,"process":1,"type":"ok","f":"txn","value":[["poll",[[3,[[0,9]]]]],["send",4,[1,8]]]}
    {:index 7, :time 5, :type :ok, :process 1, :f :txn, :value [[:poll {3 [[0 9]]}] [:send 4 [1 8]]]}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from checker.tables.packing import AnyInts, Bools, Ints
from checker.tables.schema import FAIL, INFO, OK, TYPE_CODES
from harness.model.edn import fast_path

Letters: TypeAlias = npt.NDArray[np.uint8]

STRETCH_BYTES: Final = 8192  # shorter stretches are not worth the start of the array operations
WORD: Final = 8  # bytes; each line has at least as many before its first integer
INVOKE: Final = 3  # beside the codes of TYPE_CODES
FS: Final = ("send", "poll", "txn", "assign", "subscribe")
SEND, POLL, TXN, ASSIGN, SUBSCRIBE = range(len(FS))

_N: Final = rb"(?:0|[1-9]\d{0,17}+)"  # not beyond 64 bits; a negative number is left to the other reader
_TYPE: Final = rb"(?:invoke|ok|info|fail)"


def _listed(item: bytes, separator: bytes) -> bytes:
    """Returns the pattern of one or more items."""
    return rb"%s(?:%s%s)*+" % (item, separator, item)


def _json() -> re.Pattern[bytes]:
    pair = rb"\[%s,%s\]" % (_N, _N)
    polled = rb"\[%s,\[(?:%s)?\]\]" % (_N, _listed(pair, b","))
    mop = rb'\["(?:send",%s,(?:%s|%s)|poll"(?:,\[(?:%s)?\])?)\]' % (_N, _N, pair, _listed(polled, b","))
    value = rb'(?:(?:send|poll|txn)","value":\[%s\]|(?:assign|subscribe)","value":\[(?:%s)?\])' % (
        _listed(mop, b","),
        _listed(_N, b","),
    )
    head = rb'\{"index":%s,"time_ns":%s,"process":%s,"type":"%s","f":"' % (_N, _N, _N, _TYPE)
    return re.compile(rb"(?:%s%s\}\n)*+" % (head, value))


def _edn() -> re.Pattern[bytes]:
    pair = rb"\[%s %s\]" % (_N, _N)
    polled = rb"%s \[(?:%s)?\]" % (_N, _listed(pair, b" "))
    mop = rb"\[:(?:send %s (?:%s|%s)|poll(?: \{(?:%s)?\})?)\]" % (_N, _N, pair, _listed(polled, b", "))
    value = rb"(?:(?:send|poll|txn), :value \[%s\]|(?:assign|subscribe), :value \[(?:%s)?\])" % (
        _listed(mop, b" "),
        _listed(_N, b" "),
    )
    head = rb"(?:%s|\{):index %s, :time %s, :type :%s, :process %s, :f :" % (
        re.escape(fast_path.PREFIX),
        _N,
        _N,
        _TYPE,
        _N,
    )
    return re.compile(rb"(?:%s%s\}\n)*+" % (head, value))


@dataclass(frozen=True, slots=True)
class Form:
    """One of the two forms of lines. Positions are relative to the end of an integer.

    pattern     matches any number of lines
    quote       the character before the name of a micro-op
    type_after  which of the three integers at the beginning precedes the type (0-based); the type is 9 further
    f_after     which integer precedes f, or None if the type precedes it; f is `f_gap` further
    f_gap       number of characters between that integer, or the end of the type, and f
    """

    pattern: re.Pattern[bytes]
    quote: int
    type_after: int
    f_after: int | None
    f_gap: int


JSON: Final = Form(_json(), ord('"'), 2, None, 7)
EDN: Final = Form(_edn(), ord(":"), 1, 2, 6)
_TYPE_GAP: Final = 9  # both `,"type":"` and `, :type :`

# By first letter.
_OF_TYPE: Final = np.zeros(256, np.int8)
_OF_F: Final = np.zeros(256, np.int8)
_OF_TYPE[[ord(letter) for letter in "oif"]] = OK, INFO, FAIL
_OF_F[[ord(letter) for letter in "spta"]] = SEND, POLL, TXN, ASSIGN
_LENGTH: Final = np.array([*map(len, TYPE_CODES), len("invoke")])  # of the type's name, by its code


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring lines of the usual form.

    number  the number of the first line
    file    the name of the file
    decode  returns the data of a line, given its text and its place for messages, as the reader of single lines does
    """

    text: bytes
    number: int
    file: str
    form: Form
    decode: Callable[[bytes, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Lines:
    """The content of a stretch as arrays.

    One element per line: ends (the position after the line), index, time_ns, process, kind (a code of TYPE_CODES, or
    INVOKE), f (an index into FS).
    One per send: send_line, send_mop, send_key, send_value, send_offset (-1: none).
    One per polled key: poll_line, poll_mop, poll_key, poll_count; and one per record: poll_offset, poll_value.
    One per key of an assign or subscribe: listed_line, listed_key.
    """

    ends: Ints
    index: Ints
    time_ns: Ints
    process: Ints
    kind: AnyInts
    f: AnyInts
    send_line: Ints
    send_mop: Ints
    send_key: Ints
    send_value: Ints
    send_offset: Ints
    poll_line: Ints
    poll_mop: Ints
    poll_key: Ints
    poll_count: Ints
    poll_offset: Ints
    poll_value: Ints
    listed_line: Ints
    listed_key: Ints


def split(block: bytes, form: Form) -> Iterator[tuple[bytes, bool]]:
    """Yields the parts of a block in order, each with whether it is a stretch of lines of the usual form."""
    match = form.pattern.match
    at = other = 0
    while at < len(block):
        found = match(block, at)
        end = found.end() if found is not None else at
        if end - at >= STRETCH_BYTES:
            if at > other:
                yield block[other:at], False
            yield block[at:end], True
            at = other = end
            continue
        newline = block.find(b"\n", end)
        at = len(block) if newline < 0 else newline + 1
    if at > other:
        yield block[other:], False


def _integers(text: Letters) -> tuple[Ints, Ints, Ints]:
    """Returns the values of all runs of digits, the positions of their first digits, and those after their last."""
    digit = (text - np.uint8(48)) < 10
    edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    length = ends - starts
    words = np.ndarray((len(text) - WORD + 1,), "<u8", text.data, strides=(1,))  # of the 8 bytes from each position on
    value = _of_word(words[ends - WORD], length)
    for place in (WORD, 2 * WORD):
        longer = np.flatnonzero(length > place)
        if len(longer):
            value[longer] += _of_word(words[ends[longer] - WORD - place], length[longer] - place) * 10**place
    return value, starts, ends


def _of_word(word: npt.NDArray[np.uint64], digits: Ints) -> Ints:
    """Returns the numbers in the last `digits` of 8 bytes. Adds neighbouring digits, then pairs, then groups of four.

    word  the 8 bytes, the first one as the lowest; its content is destroyed
    """
    other_bits = (8 * (WORD - np.minimum(digits, WORD))).astype(np.uint64)
    word &= np.uint64(0x0F0F0F0F0F0F0F0F)
    word >>= other_bits
    word <<= other_bits
    for bits, lanes in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        word *= np.uint64((10 ** (bits // 8) << bits) + 1)
        word >>= np.uint64(bits)
        word &= np.uint64(lanes)
    return word.view(np.int64)


def parse(text: bytes, form: Form) -> Lines | None:
    """Returns the content of a stretch; None if a polled map of EDN has a key twice, which the other reader reports."""
    letters = np.frombuffer(text, np.uint8)
    value, starts, ends = _integers(letters)
    line_ends = np.flatnonzero(letters == 10) + 1
    count = len(line_ends)
    before, before2 = letters[starts - 1], letters[starts - 2]
    line_starts = np.concatenate([[0], line_ends[:-1]])
    first = np.searchsorted(starts, line_starts)
    numbers = np.diff(np.append(first, len(starts)))  # per line
    line = np.repeat(np.arange(count), numbers)
    kind, f = _kinds(letters, ends, first, form)

    inside = np.ones(len(starts), np.bool_)
    inside[first] = inside[first + 1] = inside[first + 2] = False
    listed = np.flatnonzero(inside & (f >= ASSIGN)[line])
    micro = inside & (f < ASSIGN)[line]
    bracket = before == ord("[")
    if form is JSON:
        send_key = micro & (before2 == ord('"'))
        poll_key = micro & bracket & (letters[ends + 1] == ord("["))
    else:
        send_key = micro & (before2 == ord("d"))
        poll_key = micro & ((before == ord("{")) | (before2 == ord(",")))
    sends = np.flatnonzero(send_key)
    keys = np.flatnonzero(poll_key)
    known = bracket[sends + 1]  # `[offset, value]` instead of a value
    after_send = np.zeros(len(starts), np.bool_)
    after_send[sends + 1] = True
    pairs = np.flatnonzero(micro & bracket & ~poll_key & ~after_send)
    counts = np.diff(np.append(np.searchsorted(pairs, keys), len(pairs)))

    mops = np.flatnonzero((letters[:-1] == ord("[")) & (letters[1:] == form.quote))
    mop_line = np.searchsorted(line_ends, mops, side="right")
    mop = np.arange(len(mops)) - np.searchsorted(mops, line_starts)[mop_line]
    of_send = np.flatnonzero(letters[mops + 2] == ord("s"))
    of_key = np.searchsorted(mops, starts[keys]) - 1
    if form is EDN and _twice(of_key, value[keys]):
        return None
    return Lines(
        line_ends,
        value[first],
        value[first + 1],
        value[first + 2],
        kind,
        f,
        line[sends],
        mop[of_send],
        value[sends],
        value[sends + 1 + known],
        np.where(known, value[sends + 1], -1),
        line[keys],
        mop[of_key],
        value[keys],
        counts,
        value[pairs],
        value[pairs + 1],
        line[listed],
        value[listed],
    )


def _kinds(letters: Letters, ends: Ints, first: Ints, form: Form) -> tuple[AnyInts, AnyInts]:
    """Returns the codes of the type and of f of each line. `first`: the first integer of each line."""
    at = ends[first + form.type_after] + _TYPE_GAP
    kind = _OF_TYPE[letters[at]]
    kind[(kind == INFO) & (letters[at + 2] == ord("v"))] = INVOKE
    f_at = (at + _LENGTH[kind] if form.f_after is None else ends[first + form.f_after]) + form.f_gap
    f = _OF_F[letters[f_at]]
    f[(f == SEND) & (letters[f_at + 1] == ord("u"))] = SUBSCRIBE
    return kind, f


def _twice(mop: Ints, key: Ints) -> bool:
    """Returns whether a micro-op lists a key twice."""
    order = np.lexsort((key, mop))
    mop, key = mop[order], key[order]
    return bool(((mop[1:] == mop[:-1]) & (key[1:] == key[:-1])).any())


@dataclass(frozen=True, slots=True)
class Rows:
    """Complete ops as arrays, like `checker.tables.row_buffers.RowBuffers`: without errors, extras and final polls.

    One element per op: index, invoke_index, process, kind (as in TYPE_CODES), f (an index into FS), invoke_ns,
    complete_ns. `sends` and `polls` are the columns of RowBuffers by name, `empties` those of polled keys without
    records.
    """

    index: Ints
    invoke_index: Ints
    process: Ints
    kind: AnyInts
    f: AnyInts
    invoke_ns: Ints
    complete_ns: Ints
    sends: Mapping[str, Ints]
    polls: Mapping[str, Ints]
    empties: Mapping[str, Ints]
    poll_offset: Ints
    poll_value: Ints


def rows_of(lines: Lines, done: Ints, invoke_index: Ints, invoke_ns: Ints) -> Rows:
    """Returns the rows of the completions among the lines.

    done          the completions, in order
    invoke_index  index of the invocation of each line's op
    invoke_ns     time of that invocation
    """
    row = np.full(len(lines.index), -1, np.int64)
    row[done] = np.arange(len(done))
    sent: Bools = row[lines.send_line] >= 0
    polled: Bools = row[lines.poll_line] >= 0
    records = np.repeat(polled, lines.poll_count)
    full, bare = polled & (lines.poll_count > 0), polled & (lines.poll_count == 0)
    return Rows(
        lines.index[done],
        invoke_index[done],
        lines.process[done],
        lines.kind[done],
        lines.f[done],
        invoke_ns[done],
        lines.time_ns[done],
        {
            "row": row[lines.send_line[sent]],
            "mop": lines.send_mop[sent],
            "key": lines.send_key[sent],
            "value": lines.send_value[sent],
            "offset": lines.send_offset[sent],
        },
        {
            "row": row[lines.poll_line[full]],
            "mop": lines.poll_mop[full],
            "key": lines.poll_key[full],
            "count": lines.poll_count[full],
        },
        {"row": row[lines.poll_line[bare]], "mop": lines.poll_mop[bare], "key": lines.poll_key[bare]},
        lines.poll_offset[records],
        lines.poll_value[records],
    )
