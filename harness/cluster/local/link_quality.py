"""Simulates a link of a given quality: decides for each packet when to forward it, or to drop it. Pure.

Each direction of a link has its own queue. Packets keep their order even if their delays vary, as in a router's queue.
The only exception: the fraction `LinkQuality.reorder` of the packets is forwarded without delay. All times are in ns,
on the caller's clock.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias

from harness.model.capabilities import LinkCounts, LinkQuality

# Limits of the queues: seconds of traffic for each direction of a rate-limited link, and number of packets in total.
# Packets beyond these limits are dropped, as a router does if its queue is full.
LINE_BUFFER_S: Final = 1.0
MAX_QUEUED: Final = 16_384
_MS: Final = 1_000_000
_S: Final = 1_000_000_000
_JITTER_NS: Final = 100 * _MS

# (index of the kernel queue, packet number in it)
Packet: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class _Line:
    """The state of one direction of a link.

    last_ns  time at which the last packet will be forwarded, not counting reordered packets, which are not delayed
    free_ns  time at which a rate-limited link will have transmitted all packets that have arrived so far
    """

    last_ns: int = 0
    free_ns: int = 0


class Shaper:
    """Simulates one link. The seed determines all random choices."""

    def __init__(self, quality: LinkQuality, seed: int) -> None:
        self._quality = quality
        self._draw = random.Random(seed)
        self._lines = (_Line(), _Line())
        self._queued: list[tuple[int, Packet, int]] = []  # (due, packet, arrived)
        self._dropped: list[Packet] = []
        self._count: Counter[str] = Counter()
        self._delayed_ns = 0
        self._bad = True
        self._turns_ns: int | None = None
        self._jitter_ns = 0
        self._jitter_until_ns = 0

    def arrive(self, packet: Packet, incoming: bool, size: int, now_ns: int) -> None:
        """Adds a packet, and decides what happens to it.

        packet    identifies the packet; packets that arrive later in the same direction have greater numbers
        incoming  direction of the packet
        size      size in bytes
        now_ns    the current time
        """
        quality, count = self._quality, self._count
        count["packets"] += 1
        if len(self._queued) >= MAX_QUEUED:
            self._drop(packet, "overrun")
            return
        if not self._is_bad(now_ns):
            heapq.heappush(self._queued, (now_ns, packet, now_ns))
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
        heapq.heappush(self._queued, (due_ns, packet, now_ns))

    def next_ns(self, now_ns: int) -> int | None:
        """Returns the time until the next packet must be forwarded or dropped; None if no packet is queued."""
        if self._dropped:
            return 0
        return max(0, self._queued[0][0] - now_ns) if self._queued else None

    def due(self, now_ns: int) -> tuple[list[Packet], list[Packet]]:
        """Returns the packets to forward now, in order, and the packets to drop. Each packet is returned only once."""
        accepted = []
        while self._queued and self._queued[0][0] <= now_ns:
            accepted.append(self._let_go(now_ns))
        dropped, self._dropped = self._dropped, []
        return accepted, dropped

    def rest(self) -> tuple[list[Packet], list[Packet]]:
        """Empties the queues of a link that is restored.

        Returns the packets to forward, in order, and the packets to drop.
        """
        return [heapq.heappop(self._queued)[1] for _ in range(len(self._queued))], self._dropped

    def counts(self) -> LinkCounts:
        """Returns how many packets have been delayed, dropped and so on, so far."""
        count = self._count
        held_ms = self._delayed_ns / _MS / count["delayed"] if count["delayed"] else 0.0
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
        due_ns, packet, arrived_ns = heapq.heappop(self._queued)
        if due_ns > arrived_ns:
            self._count["delayed"] += 1
            self._delayed_ns += now_ns - arrived_ns
        return packet

    def _delay_ns(self, now_ns: int) -> int:
        """Returns the delay of a packet that arrives now.

        The random part of the delay (jitter) is drawn again every `_JITTER_NS`, not for each packet. Otherwise many
        packets would wait for a slow one, because packets keep their order.
        """
        quality = self._quality
        if now_ns >= self._jitter_until_ns:
            self._jitter_ns = int(quality.jitter_ms * _MS * (2 * self._draw.random() - 1))
            self._jitter_until_ns = now_ns + _JITTER_NS
        return max(0, int(quality.delay_ms * _MS) + self._jitter_ns)

    def _is_bad(self, now_ns: int) -> bool:
        """Returns whether the link is in a bad period.

        Good and bad periods alternate. Their lengths are exponentially distributed.
        """
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
