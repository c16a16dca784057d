"""Offset, time and transaction index of a segment, each as columns, with what is wrong in it.

    .index      relative offset int32, position int32 of a batch that begins there, at that offset or before
    .timeindex  timestamp int64, relative offset int32: no record before that offset is later
    .txnindex   version int16, producer id, first and last offset, last stable offset int64: aborted ones

The first two are as large as they may become while their segment is written. Behind the last entry are zeros,
or entries from before a truncation, which nothing removes. Transactions that were aborted are noted where
their marker is. Source: Kafka's storage module (OffsetIndex, TimeIndex,
TransactionIndex); KIP-98 for the last.
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
    """Columns of one length. offsets: absolute; others: positions, or timestamps in ms; neither may go back.

    rising  how many entries there are before the first that goes back, or is below 0
    """

    offsets: Column
    others: Column
    rising: int
    flaws: tuple[Flaw, ...]


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was aborted: its first record, its marker, and the last stable offset then."""

    producer_id: int
    first: int
    last: int
    stable: int


def offset_index(data: bytes, base: int, name: str) -> Index:
    """The entries of an .index."""
    rows, flaws = _rows(data, _OFFSET, name)
    return _rising(rows["offset"], rows["position"], base, flaws, 1)


def time_index(data: bytes, base: int, name: str) -> Index:
    """The entries of a .timeindex."""
    rows, flaws = _rows(data, _TIME, name)
    return _rising(rows["offset"], rows["timestamp"], base, flaws, 0)


def transaction_index(data: bytes, name: str) -> tuple[tuple[Aborted, ...], tuple[Flaw, ...]]:
    """The entries of a .txnindex up to the first that makes no sense."""
    rows, flaws = _rows(data, _ABORTED, name, padded=False)
    found: list[Aborted] = []
    for number, row in enumerate(rows.tolist()):
        version, producer, first, last, stable = row
        wrong = ""
        if version != 0:
            wrong = f"version {version}, and only 0 is known"
        elif first < 0 or first > last or producer < 0 or (found and last <= found[-1].last):
            wrong = f"a transaction of producer {producer} from offset {first} to {last}"
        if wrong:
            flaws.append(Flaw(name, number * _ABORTED.itemsize, wrong))
            break
        found.append(Aborted(producer, first, last, stable))
    return tuple(found), tuple(flaws)


def _rows(data: bytes, form: np.dtype[Any], name: str, padded: bool = True) -> tuple[Any, list[Flaw]]:
    """Whole entries, without zeros at the end; and what is wrong with the size."""
    flaws = []
    over = len(data) % form.itemsize
    if over and any(data[-over:]):
        flaws.append(Flaw(name, len(data) - over, f"{over} bytes behind the last entry"))
    data = data[: len(data) - over]
    if padded:
        used = len(data.rstrip(b"\0"))
        data = data[: -(-used // form.itemsize) * form.itemsize]
    return np.frombuffer(data, form), flaws


def _rising(relative: Any, others: Any, base: int, flaws: list[Flaw], least: int) -> Index:
    """least: how much offsets rise at least from one entry to the next."""
    offsets, others = relative.astype(np.int64), others.astype(np.int64)
    good = (offsets >= 0) & (others >= -1 + least)
    good[1:] &= (np.diff(offsets) >= least) & (np.diff(others) >= 0)
    wrong = np.flatnonzero(~good)
    rising = int(wrong[0]) if len(wrong) else len(offsets)
    return Index(offsets + base, others, rising, tuple(flaws))
