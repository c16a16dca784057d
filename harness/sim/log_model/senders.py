"""The client-side state of a producer: its epoch, its sequence numbers, and the batches that it can send again."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.sim.log_model.append import Triple


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that a producer has sent and can send again. `end` is the offset after the batch's last one."""

    epoch: int
    sequence: int
    triples: tuple[Triple, ...]
    transactional: bool
    end: int = 0


@dataclass(slots=True)
class Producer:
    """The state of one producer.

    next        partition -> next sequence number
    sent        partition -> the last batches sent to it
    partitions  partitions that the open transaction wrote to
    """

    epoch: int = 0
    next: dict[int, int] = field(default_factory=dict)
    sent: dict[int, list[Sent]] = field(default_factory=dict)
    partitions: set[int] = field(default_factory=set)
