"""When packets go on: delays, order, loss, narrow lines, bursts."""

from __future__ import annotations

from harness.cluster.local.link_quality import MAX_QUEUED, Shaper
from harness.model.capabilities import LinkCounts, LinkQuality

MS = 1_000_000


def sent(quality: LinkQuality, count: int, every_ms: float = 1.0, size: int = 100) -> dict[int, int]:
    """Packets that come in one after another: number -> ms that each was held."""
    shaper, held_by_number = Shaper(quality, 7), {}
    ticks = int(count * every_ms) + 3000
    for now in range(ticks):
        if now % every_ms == 0 and now // every_ms < count:
            shaper.arrive((0, int(now // every_ms)), True, size, now * MS)
        for _, number in shaper.due(now * MS)[0]:
            held_by_number[number] = now - int(number * every_ms)
    return held_by_number


def test_packets_are_held_as_long_as_asked_and_keep_their_order() -> None:
    held_by_number = sent(LinkQuality(delay_ms=100, jitter_ms=40), 2000)
    assert len(held_by_number) == 2000
    assert min(held_by_number.values()) >= 60 and max(held_by_number.values()) <= 141
    assert 85 < sum(held_by_number.values()) / 2000 < 115
    assert list(held_by_number) == sorted(held_by_number)


def test_the_share_that_is_lost_is_the_one_asked_for() -> None:
    shaper = Shaper(LinkQuality(loss=0.2), 1)
    for number in range(5000):
        shaper.arrive((0, number), True, 100, number)
    accepted, dropped = shaper.due(5000)
    assert len(accepted) + len(dropped) == 5000
    assert 850 < len(dropped) < 1150
    assert shaper.counts() == LinkCounts(packets=5000, dropped=len(dropped))


def test_some_overtake_others() -> None:
    held_by_number = sent(LinkQuality(delay_ms=50, reorder=0.1), 1000)
    assert list(held_by_number) != sorted(held_by_number)
    assert 50 < sum(1 for ms in held_by_number.values() if ms == 0) < 150


def test_a_narrow_line_takes_its_time_in_each_direction() -> None:
    """1,000 bytes at 800 kbit/s are 10 ms."""
    shaper = Shaper(LinkQuality(rate_kbit=800), 1)
    for number in range(4):
        shaper.arrive((0, number), number < 2, 1000, 0)
    assert shaper.next_ns(0) == 10 * MS
    assert shaper.due(10 * MS) == ([(0, 0), (0, 2)], [])
    assert shaper.due(20 * MS) == ([(0, 1), (0, 3)], [])
    assert (shaper.counts().waited, shaper.counts().held_ms) == (2, 15.0)


def test_a_line_holds_no_more_than_a_second() -> None:
    shaper = Shaper(LinkQuality(rate_kbit=800), 1)
    for number in range(300):
        shaper.arrive((0, number), True, 1000, 0)
    _, dropped = shaper.due(0)
    assert shaper.counts().overrun == len(dropped) == 300 - 101


def test_what_is_held_is_bounded() -> None:
    shaper = Shaper(LinkQuality(delay_ms=100), 1)
    for number in range(MAX_QUEUED + 5):
        shaper.arrive((0, number), True, 100, 0)
    assert len(shaper.due(0)[1]) == 5
    assert len(shaper.rest()[0]) == MAX_QUEUED
    assert shaper.next_ns(0) is None


def test_bursts_come_and_go() -> None:
    held_by_number = sent(LinkQuality(delay_ms=50, bad_s=0.2, good_s=0.2), 4000)
    at_once = sum(1 for ms in held_by_number.values() if ms == 0)
    assert 800 < at_once < 3200


def test_a_seed_is_a_sequence() -> None:
    quality = LinkQuality(delay_ms=20, jitter_ms=10, loss=0.1, reorder=0.1, bad_s=0.1, good_s=0.1)
    assert sent(quality, 500) == sent(quality, 500)
