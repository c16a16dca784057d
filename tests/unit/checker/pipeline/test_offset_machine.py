"""The offset state machine: each rule, an event away from it, and what honest instances may do."""

from __future__ import annotations

from typing import Any

import pytest

from checker.pipeline.offset_machine import EVENTS, Event, Finding, findings


def events(*steps: tuple[Any, ...]) -> list[Event]:
    """(incarnation, event, first, last) of instance "i" and generation 1, a nanosecond apart.

    A fifth item is the generation.
    """
    found = []
    for time_ns, (incarnation, event, *numbers) in enumerate(steps):
        first, last, generation = [*numbers, *(None, None, None)[len(numbers) :]]
        found.append(Event(time_ns, "i", incarnation, generation, event, first, last))
    return found


def found(*steps: tuple[Any, ...], start: int | None = 0, ahead: bool = False) -> list[tuple[str, Any, Any]]:
    return [(one.anomaly, one.first, one.until) for one in _findings(*steps, start=start, ahead=ahead)]


def _findings(*steps: tuple[Any, ...], start: int | None = 0, ahead: bool = False) -> list[Finding]:
    return list(findings(events(*steps), EVENTS, start, ahead))


BEGUN = ((1, "assigned"), (1, "position", 0), (1, "polled", 0, 9))
DONE = (*BEGUN, (1, "produced", 0, 9), (1, "committed", 10))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), []),
        (((1, "polled", 10, 19), (1, "produced", 10, 19), (1, "committed", 20)), []),
        (((1, "polled", 11, 19),), [("offset-gap", 10, 11)]),
        (((1, "polled", 5, 19),), [("position-back", 5, 10)]),
        (((1, "position", 15),), [("offset-gap", 10, 15)]),
        (((1, "position", 5),), [("position-back", 5, 10)]),
        (((1, "position", 10), (1, "polled", 10, 19)), []),
        (((1, "polled", 10, 19), (1, "produced", 12, 19)), [("work-skipped", 10, 12)]),
        (((1, "produced", 8, 9),), [("work-repeated", 8, 10)]),
        (((1, "polled", 10, 19), (1, "committed", 20)), [("commit-unprocessed", 10, 20)]),
        (((1, "revoked"), (1, "polled", 10, 19)), [("work-unowned", 10, 20)]),
        (((1, "lost"), (1, "produced", 10, 10)), [("work-unowned", 10, 11)]),
        (((1, "revoked"), (1, "committed", 10)), [("commit-unowned", 10, None)]),
        (((1, "revoked"), (1, "dropped", 10, 19)), []),
        (((2, "polled", 10, 19),), [("work-unassigned", 10, 20)]),
        (((2, "committed", 10),), [("work-unassigned", 10, None)]),
        (((1, "revoked"), (2, "assigned"), (2, "position", 10)), []),
        (((1, "revoked"), (2, "assigned"), (2, "position", 12)), [("offset-gap", 10, 12)]),
        (((1, "revoked"), (2, "assigned"), (2, "position", 7)), [("offset-reset", 7, 10)]),
        (((2, "assigned"), (2, "position", 10), (1, "committed", 10)), []),
        (((1, "committed", 7),), [("commit-back", 7, 10)]),
        (((1, "paused"), (1, "resumed"), (1, "closed")), []),
    ],
)
def test_after_a_commit(more: tuple[tuple[Any, ...], ...], expected: list[Any]) -> None:
    assert found(*DONE, *more) == expected


def test_an_abort_goes_back() -> None:
    again = ((1, "produced", 0, 9), (1, "committed", 10))
    aborted = (*BEGUN, (1, "produced", 0, 9), (1, "aborted"))
    assert found(*aborted, (1, "position", 0), (1, "polled", 0, 9), *again) == []
    assert found(*aborted, (1, "polled", 10, 19), (1, "produced", 10, 19)) == [("work-skipped", 0, 10)]


def test_a_commit_that_nobody_lived_to_tell() -> None:
    killed = (*DONE, (1, "polled", 10, 19), (1, "produced", 10, 19))
    for begin in (10, 20):
        honest = (*killed, (2, "assigned"), (2, "position", begin), (2, "polled", begin, 29))
        assert found(*honest, (2, "produced", begin, 29), (2, "committed", 30)) == []
    assert found(*killed, (2, "assigned"), (2, "position", 21)) == [("offset-gap", 20, 21)]


def test_held_over_a_rebalance() -> None:
    back = (*DONE, (1, "polled", 10, 19), (1, "revoked"), (1, "assigned"), (1, "position", 20))
    work = ((1, "polled", 20, 29), (1, "produced", 10, 29), (1, "committed", 30))
    assert found(*back, (1, "buffered", 10, 19), *work) == []
    assert found(*back, *work)[0] == ("offset-gap", 10, 20)
    # A marker stands between the commit and what is held: whether it is one, the input says.
    gap = _findings(*back, (1, "buffered", 11, 19))
    assert [(one.first, one.until, one.verify) for one in gap] == [(10, 11, True)]


def test_zombies() -> None:
    other = ((2, "assigned", None, None, 2), (2, "position", 10), (2, "polled", 10, 19))
    late = (*DONE, *other, (1, "produced", 10, 14), (1, "committed", 15))
    assert ("two-owners", 10, 15) in found(*late)
    late_reports = (*BEGUN, (1, "produced", 0, 9), *other, (2, "produced", 10, 19), (2, "committed", 20))
    assert found(*late_reports, (1, "committed", 10)) == []


def test_generations() -> None:
    steps = (*DONE[:4], (1, "resumed", None, None, 3), (1, "committed", 10, None, 2))
    assert found(*steps) == [("stale-generation", 10, None)]


def test_commits_ahead_of_the_work() -> None:
    steps = (*BEGUN, (1, "committed", 10), (1, "produced", 0, 9))
    assert found(*steps, ahead=True) == []
    assert found(*steps) == [("commit-unprocessed", 0, 10)]


def test_what_is_held_over_a_rebalance_may_be_committed_ahead_of_the_work() -> None:
    buffered = ((1, "revoked"), (1, "assigned"), (1, "position", 20), (1, "buffered", 10, 19))
    killed = (*BEGUN, (1, "committed", 10), (1, "polled", 10, 19), *buffered)
    for begin in (10, 20):
        assert found(*killed, (2, "assigned"), (2, "position", begin), ahead=True) == []
    assert found(*killed, (2, "assigned"), (2, "position", 21), ahead=True) == [("offset-gap", 20, 21)]


def test_only_what_the_log_tells_is_judged() -> None:
    kinds = frozenset({"polled", "position"})
    assert list(findings(events((1, "position", 7), (1, "polled", 7, 9), (2, "polled", 3, 4)), kinds, None)) == []
    assert found((1, "assigned"), (1, "position", 7), start=None) == []
    missed = [Event(0, "i", 1, None, "polled", 0, 9, 7, 2)]
    assert [one.anomaly for one in findings(missed, kinds, None)] == ["offset-gap"]


def test_what_was_told_of_a_commit_settles_what_may_be_committed() -> None:
    """Beyond a commit that was told nothing is committed; ahead of the work, what was polled later may be."""
    told = (*BEGUN, (1, "produced", 0, 9), (1, "committed", 5), (2, "assigned"), (2, "position", 10))
    assert found(*told) == [("offset-gap", 5, 10)]
    polled = (*BEGUN, (1, "polled", 10, 19), (1, "committed", 10), (2, "assigned"), (2, "position", 20))
    assert found(*polled, ahead=True) == []


def test_only_what_is_held_up_to_where_reading_began_explains_it() -> None:
    again = (*DONE, (1, "revoked"), (1, "assigned"), (1, "position", 15))
    assert found(*again, (1, "polled", 18, 19)) == [("offset-gap", 10, 15), ("offset-gap", 15, 18)]
    assert found(*again, (1, "buffered", 10, 17)) == [("offset-gap", 10, 15)]
    assert found(*again, (1, "buffered", 10, 14)) == []
    assert found(*again, (1, "closed")) == [("offset-gap", 10, 15)]


def test_numbers_that_an_event_has_no_use_for_are_none() -> None:
    assert found(*BEGUN, (1, "resumed", 5), (1, "paused", 7, 8), (1, "produced", 0, 9), (1, "committed", 10)) == []


def test_what_an_instance_holds_still_shows_what_it_has_committed() -> None:
    """It produced up to 20 and goes on with what it holds from there: so much was committed, told or not."""
    worked = (*DONE, (1, "polled", 10, 19), (1, "produced", 10, 19), (1, "polled", 20, 24), (1, "revoked"))
    held = (*worked, (1, "assigned"), (1, "position", 25), (1, "buffered", 20, 24))
    assert found(*held) == []
    assert found(*held, (1, "revoked"), (2, "assigned"), (2, "position", 10)) == [("offset-reset", 10, 20)]


def test_a_poll_after_an_assignment_begins_anew() -> None:
    """Without a position that is told, where it reads is where it first polls."""
    again = (*DONE, (1, "polled", 10, 19), (1, "revoked"), (1, "assigned"))
    assert found(*again, (1, "polled", 5, 9)) == [("offset-reset", 5, 10)]
    assert found(*again, (1, "polled", 10, 19), (1, "produced", 10, 19), (1, "committed", 20)) == []


def test_what_was_committed_is_told() -> None:
    (first,) = _findings((1, "assigned"), (1, "position", 3))
    assert first.text == "reading started at 3, but no offset was committed"
    (later,) = _findings(*DONE, (1, "revoked"), (2, "assigned"), (2, "position", 3))
    assert later.text == "reading started at 3, but offset 10 was committed"
