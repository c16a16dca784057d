"""Decodes the batches in a Fetch response, and selects the records that an application gets from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.protocol.error_codes import ClientError
from harness.protocol.record_batch import Batch, parse, whole_batches
from harness.protocol.records import ABORT, marker, records


def whole(data: bytes, checked: bool = True) -> Iterator[Batch]:
    """Yields the batches in the data of a Fetch response, except for the last one if it is truncated.

    Raises ClientError if a batch is damaged.

    checked  whether a wrong checksum counts as damage
    """
    for place in whole_batches(data):
        batch = parse(data[place.start : place.stop], place.start)
        if batch is None or (checked and not batch.sound):
            raise ClientError("CORRUPT_MESSAGE", f"the batch at byte {place.start} of the fetched data is damaged")
        yield batch


def visible(batches: Sequence[Batch], at: int, aborted: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """Returns [offset, timestamp, key, value] for the records from offset `at` on.

    aborted  (producer id, first offset) of each aborted transaction, from the Fetch response

    Transaction markers and the records of aborted transactions are left out (KIP-98).
    """
    waiting = sorted(aborted, key=lambda one: one[1])
    hidden: set[int] = set()
    rows: list[list[Any]] = []
    for batch in batches:
        while waiting and waiting[0][1] <= batch.last:
            hidden.add(waiting.pop(0)[0])
        if batch.control:
            if marker(batch) == ABORT:
                hidden.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in hidden):
            rows += (
                [one.offset, one.timestamp, _decoded(one.key), _decoded(one.value)]
                for one in records(batch)
                if one.offset >= at
            )
    return rows


def _decoded(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")
