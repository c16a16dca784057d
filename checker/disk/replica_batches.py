"""Reads the batches of a replica, segment by segment, with one batch in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from checker.disk.data_folder import Replica, Segment
from harness.protocol import segment_file
from harness.protocol.flaws import Flaw
from harness.protocol.record_batch import Batch


def of_segment(replica: Replica, segment: Segment) -> Iterator[Batch | Flaw]:
    """Yields the batches and flaws of one segment, in order. A file that cannot be read is a flaw."""
    name = replica.named(segment.log)
    try:
        with segment.log.open("rb") as file:
            yield from segment_file.read(file, name)
    except OSError as error:
        yield Flaw(name, None, f"cannot be read ({error.strerror or error})")


def sound(replica: Replica, segments: Iterable[Segment]) -> Iterator[tuple[Segment, Batch]]:
    """Yields (segment, batch) for the batches with valid checksums."""
    for segment in segments:
        for batch in of_segment(replica, segment):
            if isinstance(batch, Batch) and batch.sound:
                yield segment, batch


def between(replica: Replica, begin: int, end: int) -> Iterator[Batch]:
    """Yields the batches of the active log that have offsets in [begin, end), including batches with bad checksums."""
    following = [*(segment.base for segment in replica.segments[1:]), None]
    for segment, after in zip(replica.segments, following, strict=False):
        if (after is not None and after <= begin) or segment.base >= end:
            continue
        for batch in of_segment(replica, segment):
            if isinstance(batch, Batch) and batch.last >= begin:
                if batch.base >= end:
                    break
                yield batch
