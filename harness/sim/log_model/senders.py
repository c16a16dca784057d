"""What a producer knows of itself: its epoch, where its sequence numbers are, and what it may send again."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.sim.log_model.append import Triple


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that a producer has sent, up to offset `end`, and may send again."""

    epoch: int
    sequence: int
    triples: tuple[Triple, ...]
    transactional: bool
    end: int = 0


@dataclass(slots=True)
class Producer:
    """epoch; by partition: the next sequence number, what was sent last; partitions of its transaction."""

    epoch: int = 0
    next: dict[int, int] = field(default_factory=dict)
    sent: dict[int, list[Sent]] = field(default_factory=dict)
    partitions: set[int] = field(default_factory=set)
