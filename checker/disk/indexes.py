"""Parses the offset, time and transaction index of a segment into columns, with their flaws.

    .index      relative offset int32, position int32: a batch starts at this position of the .log file, and its first
                offset is not above the offset of the entry
    .timeindex  timestamp int64, relative offset int32: no record before this offset has a later timestamp
    .txnindex   per aborted transaction: version int16; producer id, first offset, last offset and last stable offset,
                all int64

A relative offset is relative to the segment's base offset. While a segment is written, its .index and .timeindex are
preallocated to their maximum size. After the last entry they have zeros, or entries from before a truncation, which
nothing removes. An aborted transaction is in the .txnindex of the segment that has its marker. Source: Kafka's storage
module (OffsetIndex, TimeIndex, TransactionIndex); KIP-98 for the transaction index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.protocol.flaws import Flaw

Column = npt.NDArray[np.int64]

_OFFSET: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ABORTED: Final = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)


@dataclass(frozen=True, slots=True)
class Index:
    """The entries of an index, as columns of equal length.

    offsets  absolute offsets
    others   positions in the .log file, or timestamps in ms
    rising   number of entries before the first invalid one, which is lower than the entry before it or negative
    """

    offsets: Column
    others: Column
    rising: int
    flaws: tuple[Flaw, ...]


@dataclass(frozen=True, slots=True)
class Aborted:
    """An aborted transaction.

    first   offset of its first record
    last    offset of its marker, which is its last offset
    stable  the last stable offset at the time of the abort
    """

    producer_id: int
    first: int
    last: int
    stable: int


def offset_index(data: bytes, base: int, name: str) -> Index:
    """Parses an .index of a segment. `base` is the segment's base offset; `name` is the file's name in the flaws."""
    rows, flaws = _rows(data, _OFFSET, name)
    return _rising(rows["offset"], rows["position"], base, flaws, 1)


def time_index(data: bytes, base: int, name: str) -> Index:
    """Parses a .timeindex of a segment. `base` is the segment's base offset; `name` is the file's name in the flaws."""
    rows, flaws = _rows(data, _TIME, name)
    return _rising(rows["offset"], rows["timestamp"], base, flaws, 0)


def transaction_index(data: bytes, name: str) -> tuple[tuple[Aborted, ...], tuple[Flaw, ...]]:
    """Returns (the entries of a .txnindex before the first invalid one, what is wrong with the file)."""
    rows, flaws = _rows(data, _ABORTED, name, padded=False)
    found: list[Aborted] = []
    for number, row in enumerate(rows.tolist()):
        version, producer, first, last, stable = row
        wrong = ""
        if version != 0:
            wrong = f"version {version}; only version 0 is supported"
        elif first < 0 or first > last or producer < 0 or (found and last <= found[-1].last):
            wrong = f"an invalid transaction of producer {producer} from offset {first} to {last}"
        if wrong:
            flaws.append(Flaw(name, number * _ABORTED.itemsize, wrong))
            break
        found.append(Aborted(producer, first, last, stable))
    return tuple(found), tuple(flaws)


def _rows(data: bytes, form: np.dtype[Any], name: str, padded: bool = True) -> tuple[Any, list[Flaw]]:
    """Splits a file into entries of type `form`.

    Returns (the entries, the flaws); bytes after the last complete entry are a flaw.

    padded  whether the file may end with preallocated zeros, which are left out
    """
    flaws = []
    over = len(data) % form.itemsize
    if over and any(data[-over:]):
        flaws.append(Flaw(name, len(data) - over, f"{over} bytes after the last complete entry"))
    data = data[: len(data) - over]
    if padded:
        used = len(data.rstrip(b"\0"))
        data = data[: -(-used // form.itemsize) * form.itemsize]
    return np.frombuffer(data, form), flaws


def _rising(relative: Any, others: Any, base: int, flaws: list[Flaw], least: int) -> Index:
    """Makes an `Index` from the columns of its entries. The offsets in `relative` are relative to `base`.

    least  the minimum difference between the offsets of neighbouring entries
    """
    offsets, others = relative.astype(np.int64), others.astype(np.int64)
    good = (offsets >= 0) & (others >= -1 + least)
    good[1:] &= (np.diff(offsets) >= least) & (np.diff(others) >= 0)
    wrong = np.flatnonzero(~good)
    rising = int(wrong[0]) if len(wrong) else len(offsets)
    return Index(offsets + base, others, rising, tuple(flaws))
