"""Where the metadata log of a run is wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

DIVERGENCE = "metadata-divergence"
LOST = "metadata-lost"
TWO_LEADERS = "metadata-two-leaders"
WATERMARK = "metadata-watermark-regression"
SNAPSHOT = "metadata-snapshot-difference"
ISR = "metadata-isr-without-replica"
ELECTION = "metadata-ineligible-leader"
EPOCHS = "metadata-leader-epoch"
ADMIN = "metadata-admin"


class Found(NamedTuple):
    """One witness of the anomaly `name`.

    place     where it is: servers, files, partitions
    offset    offset in the metadata log; None: it is not at an offset
    """

    name: str
    place: str
    seen: str
    expected: str
    offset: int | None = None

    def as_witness(self) -> dict[str, Any]:
        return {"place": self.place, "offset": self.offset, "seen": self.seen, "expected": self.expected}
