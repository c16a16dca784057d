"""The batches of a replica, segment by segment, one in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from checker.disk.data_folder import Replica, Segment
from harness.protocol import record_batch
from harness.protocol.flaws import Flaw
from harness.protocol.record_batch import Batch


def of_segment(replica: Replica, one: Segment) -> Iterator[Batch | Flaw]:
    """What one segment holds, in order. A file that cannot be read is a flaw of its own."""
    name = replica.named(one.log)
    try:
        with one.log.open("rb") as file:
            yield from record_batch.read(file, name)
    except OSError as error:
        yield Flaw(name, None, f"cannot be read ({error.strerror or error})")


def sound(replica: Replica, segments: Iterable[Segment]) -> Iterator[tuple[Segment, Batch]]:
    """The batches whose checksums hold."""
    for one in segments:
        for found in of_segment(replica, one):
            if isinstance(found, Batch) and found.sound:
                yield one, found


def between(replica: Replica, begin: int, end: int) -> Iterator[Batch]:
    """The batches of the log that counts with offsets in [begin, end), sound or not."""
    following = [*(one.base for one in replica.segments[1:]), None]
    for one, after in zip(replica.segments, following, strict=False):
        if (after is not None and after <= begin) or one.base >= end:
            continue
        for found in of_segment(replica, one):
            if isinstance(found, Batch) and found.last >= begin:
                if found.base >= end:
                    break
                yield found
