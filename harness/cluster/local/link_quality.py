"""When each packet of a link of a given quality goes on, and which never do. Pure: times in, numbers out.

Each direction of a link is a line of its own. Packets keep their order whatever the jitter is, as in a queue
of a router, but for the share that `reorder` lets go at once. All times are in ns of one clock.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias

from harness.model.capabilities import LinkCounts, LinkQuality

# How much may wait: for a narrow line, and altogether. What comes beyond is dropped, as by a full router.
LINE_BUFFER_S: Final = 1.0
MAX_HELD: Final = 16_384
_MS: Final = 1_000_000
_S: Final = 1_000_000_000
_JITTER_NS: Final = 100 * _MS

# (queue that it is in, number there)
Packet: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class _Line:
    """When the last packet in order goes on, and when what has been sent is through."""

    last_ns: int = 0
    free_ns: int = 0


class Shaper:
    """A link. What is drawn comes from the seed."""

    def __init__(self, quality: LinkQuality, seed: int) -> None:
        self._quality = quality
        self._draw = random.Random(seed)
        self._lines = (_Line(), _Line())
        self._held: list[tuple[int, Packet, int]] = []  # (due, packet, arrived)
        self._dropped: list[Packet] = []
        self._count: Counter[str] = Counter()
        self._held_ns = 0
        self._bad = True
        self._turns_ns: int | None = None
        self._jitter_ns = 0
        self._jitter_until_ns = 0

    def arrive(self, packet: Packet, incoming: bool, size: int, now_ns: int) -> None:
        """A packet of `size` bytes is here; of those of one queue, the numbers rise."""
        quality, count = self._quality, self._count
        count["packets"] += 1
        if len(self._held) >= MAX_HELD:
            self._drop(packet, "overrun")
            return
        if not self._is_bad(now_ns):
            heapq.heappush(self._held, (now_ns, packet, now_ns))
            return
        line = self._lines[incoming]
        due_ns = now_ns
        if quality.rate_kbit:
            begin_ns = max(now_ns, line.free_ns)
            if begin_ns - now_ns > LINE_BUFFER_S * _S:
                self._drop(packet, "overrun")
                return
            due_ns = line.free_ns = begin_ns + size * 8 * _MS // quality.rate_kbit
            if begin_ns > now_ns:
                count["waited"] += 1
        if quality.loss and self._draw.random() < quality.loss:
            self._drop(packet, "dropped")
            return
        if quality.reorder and self._draw.random() < quality.reorder:
            if line.last_ns > due_ns:
                count["overtook"] += 1
        else:
            due_ns = line.last_ns = max(due_ns + self._delay_ns(now_ns), line.last_ns)
        heapq.heappush(self._held, (due_ns, packet, now_ns))

    def next_ns(self, now_ns: int) -> int | None:
        """How long until something is due; None while nothing is held."""
        if self._dropped:
            return 0
        return max(0, self._held[0][0] - now_ns) if self._held else None

    def due(self, now_ns: int) -> tuple[list[Packet], list[Packet]]:
        """The packets to let go on, in order, and those to drop. Told once."""
        accepted = []
        while self._held and self._held[0][0] <= now_ns:
            accepted.append(self._let_go(now_ns))
        dropped, self._dropped = self._dropped, []
        return accepted, dropped

    def rest(self) -> tuple[list[Packet], list[Packet]]:
        """All that is held, in order: the link is well again."""
        return [heapq.heappop(self._held)[1] for _ in range(len(self._held))], self._dropped

    def counts(self) -> LinkCounts:
        """What the link did."""
        count = self._count
        held_ms = self._held_ns / _MS / count["delayed"] if count["delayed"] else 0.0
        return LinkCounts(
            packets=count["packets"],
            delayed=count["delayed"],
            dropped=count["dropped"],
            overrun=count["overrun"],
            overtook=count["overtook"],
            waited=count["waited"],
            held_ms=round(held_ms, 1),
        )

    def _drop(self, packet: Packet, why: str) -> None:
        self._dropped.append(packet)
        self._count[why] += 1

    def _let_go(self, now_ns: int) -> Packet:
        due_ns, packet, arrived_ns = heapq.heappop(self._held)
        if due_ns > arrived_ns:
            self._count["delayed"] += 1
            self._held_ns += now_ns - arrived_ns
        return packet

    def _delay_ns(self, now_ns: int) -> int:
        """Jitter lasts: with a new one for each packet, packets in order would all wait for the slowest."""
        quality = self._quality
        if now_ns >= self._jitter_until_ns:
            self._jitter_ns = int(quality.jitter_ms * _MS * (2 * self._draw.random() - 1))
            self._jitter_until_ns = now_ns + _JITTER_NS
        return max(0, int(quality.delay_ms * _MS) + self._jitter_ns)

    def _is_bad(self, now_ns: int) -> bool:
        """Whether the link is in a burst: good and bad turns, exponential lengths."""
        quality = self._quality
        if not quality.good_s:
            return True
        if self._turns_ns is None:
            self._turns_ns = now_ns + self._length_ns(quality.bad_s)
        while now_ns >= self._turns_ns:
            self._bad = not self._bad
            self._turns_ns += self._length_ns(quality.bad_s if self._bad else quality.good_s)
        return self._bad

    def _length_ns(self, mean_s: float) -> int:
        return max(_MS, int(self._draw.expovariate(1 / mean_s) * _S))
