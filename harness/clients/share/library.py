"""The protocol that a client library implements for members of share groups.

To add a library, write a module and set `share` in the library's row of `harness.clients.table.CLIENTS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

from harness.clients.client_protocols import Library
from harness.clients.settings import Settings

Acknowledgement = Literal["implicit", "explicit"]

REFUSED: Final = "_STATE"  # the library refused the acknowledgement, and sent nothing
NO_ANSWER: Final = "_NO_ANSWER"  # it is not known whether the broker took the acknowledgement


class Place(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A record that a poll handed over.

    deliveries  how often the broker had delivered the record by then; None if the library does not say
    """

    place: Place
    value: bytes | None
    deliveries: int | None


Results = Mapping[Place, str | None]
"""Record -> name of the error of its acknowledgement; None: the broker confirmed the acknowledgement."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of one poll.

    records       in the order in which the library handed them over
    acknowledged  results of acknowledgements that the library has reported since the poll before
    errors        errors besides the records, from which the library recovers by itself
    """

    records: Sequence[Delivered] = ()
    acknowledged: Results = field(default_factory=dict)
    errors: Sequence[str] = ()


class ShareConsumer(Protocol):
    """A member of a share group. Not thread-safe. All methods but `drop` raise ClientError."""

    def poll(self, timeout_s: float) -> Polled:
        """Waits up to `timeout_s` for records. With implicit acknowledgement, accepts those of the poll before."""

    def acknowledge(self, kinds: Mapping[Place, str], timeout_s: float) -> Results:
        """Acknowledges records that polls have handed over, and waits for the broker's answer.

        kinds  record -> accept, release, reject or renew
        """

    def close(self) -> None:
        """Leaves the group. The library releases what is not acknowledged."""

    def drop(self) -> None:
        """Disappears like a crashed process, as far as the library allows."""


class ShareLibrary(Library, Protocol):
    """A client library that has share consumers."""

    def share_consumer(
        self, settings: Settings, group: str, topics: Sequence[str], acknowledgement: Acknowledgement
    ) -> ShareConsumer:
        """Joins a group. Raises ClientError."""

    def dead_letters(self, settings: Settings, topic: str, timeout_s: float) -> list[Place]:
        """Returns the records that a group's dead letter queue lists, sorted (KIP-1191). Raises ClientError."""
