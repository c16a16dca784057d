"""The client of the share workload, over a library whose members do as the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from harness.clients import payload
from harness.clients.confluent.dead_letters import place_of
from harness.clients.settings import Settings, parse_settings
from harness.clients.share.client import ShareClient
from harness.clients.share.library import REFUSED, Delivered, Place, Polled, Results
from harness.model.op import Op, invoke
from harness.protocol.error_codes import ClientError
from tests.unit.clients.fake import FakeLibrary

SETTINGS = parse_settings({"bootstrap": "x:1", "run": "r", "partitions_per_topic": 1000})
RENEWED = Place("r-1", 2, 7)


class Member:
    """A member whose polls and acknowledgements have these results, one after another; the last one repeats."""

    def __init__(self, polls: list[Polled | ClientError], results: list[str | ClientError | None]) -> None:
        self.polls, self.results = polls, results
        self.ended: list[str] = []

    def poll(self, timeout_s: float) -> Polled:
        found = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        if isinstance(found, ClientError):
            raise found
        return found

    def acknowledge(self, kinds: Mapping[Place, str], timeout_s: float) -> Results:
        found = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(found, ClientError):
            raise found
        return dict.fromkeys(kinds, found)

    def close(self) -> None:
        self.ended.append("closed")

    def drop(self) -> None:
        self.ended.append("dropped")


class Library(FakeLibrary):
    def __init__(self, *members: Member) -> None:
        super().__init__()
        self.members, self.joined = list(members), list[tuple[str, tuple[str, ...], str]]()
        self.letters: list[int] | None = None

    def share_consumer(self, made: Settings, group: str, topics: Sequence[str], acknowledgement: Any) -> Member:
        self.joined.append((group, tuple(topics), acknowledgement))
        return self.members.pop(0)

    def dead_letters(self, made: Settings, topic: str, timeout_s: float) -> list[Place]:
        if self.letters is None:
            raise ClientError("_TIMED_OUT", "too slow")
        return [Place(f"{topic.removeprefix('dlq.').removesuffix('-g0')}-0", 1, offset) for offset in self.letters]


def client(*members: Member) -> tuple[ShareClient, Library]:
    library = Library(*members)
    return ShareClient(SETTINGS, library, {"topics": 2, "acknowledgement": "explicit"}), library


def polled(*places: Place, **more: Any) -> Polled:
    rows = [
        Delivered(place, payload.encode("r", 1000 * int(place.topic[-1]) + place.partition, 5, 0), 1)
        for place in places
    ]
    return Polled(rows, **more)


def poll() -> Op:
    return invoke("share-poll", None, 3, {"group": "g0", "member": "3.0"})


def acknowledge(*rows: list[Any]) -> Op:
    return invoke("share-acknowledge", list(rows), 3, {"group": "g0", "member": "3.0"})


def test_a_poll_returns_keys_offsets_values_and_delivery_counts() -> None:
    made, library = client(Member([polled(RENEWED, acknowledged={Place("r-0", 0, 1): "INVALID_RECORD_STATE"})], [None]))
    done = made.invoke(poll())
    assert done.value == {
        "records": [[1002, 7, 5, 1]],
        "acknowledged": [[0, 1, "accept", "INVALID_RECORD_STATE"]],
    }
    assert library.joined == [("r-g0", ("r-0", "r-1"), "explicit")]


def test_a_renewed_record_that_comes_again_is_no_delivery() -> None:
    made, _ = client(Member([polled(RENEWED)], [None]))
    made.invoke(poll())
    assert made.invoke(acknowledge([1002, 7, "renew"])).value == [[1002, 7, "renew", None]]
    assert made.invoke(poll()).value == {"records": [], "renewed": [[1002, 7, 5, 1]]}
    assert made.invoke(poll()).value == {"records": [[1002, 7, 5, 1]]}


def test_a_refused_renewal_is_none() -> None:
    made, _ = client(Member([polled(RENEWED)], [REFUSED]))
    made.invoke(poll())
    assert made.invoke(acknowledge([1002, 7, "renew"])).value == [[1002, 7, "renew", REFUSED]]
    assert "renewed" not in made.invoke(poll()).value


def test_after_a_failure_the_outcome_is_unknown_and_the_member_is_dropped() -> None:
    member = Member([ClientError("_TRANSPORT", "gone")], [None])
    made, _ = client(member)
    assert made.invoke(poll()).type == "info"
    assert member.ended == ["dropped"]
    assert made.invoke(poll()).type == "fail"  # broken: another process takes over


def test_an_acknowledgement_that_fails_is_unknown() -> None:
    member = Member([polled(RENEWED)], [ClientError("_TIMED_OUT", "late")])
    made, _ = client(member)
    made.invoke(poll())
    assert made.invoke(acknowledge([1002, 7, "accept"])).type == "info"
    assert member.ended == ["dropped"]


def test_a_member_that_left_joins_again() -> None:
    first, second = (Member([polled()], [None]) for _ in range(2))
    made, library = client(first, second)
    made.invoke(poll())
    assert made.invoke(poll().with_(f="share-close")).type == "ok"
    made.invoke(poll())
    assert (first.ended, len(library.joined)) == (["closed"], 2)


def test_a_crash_drops_the_member() -> None:
    member = Member([polled()], [None])
    made, _ = client(member)
    made.invoke(poll())
    assert made.invoke(invoke("crash", None, 3)).type == "info"
    assert member.ended == ["dropped"]


def test_a_process_without_records_acknowledges_nothing() -> None:
    made, _ = client()
    assert made.invoke(acknowledge([0, 1, "accept"])).type == "fail"


def test_sends_are_those_of_the_queue_workload() -> None:
    made, library = client()
    done = made.invoke(invoke("send", [["send", 1002, 5]], 3))
    assert done.value == [["send", 1002, [0, 5]]]
    assert library.producers


def test_dead_letters_are_listed() -> None:
    ours, library = client()
    asked = invoke("share-dead-letters", None, 0, {"group": "g0", "final": True})
    library.letters = [4, 7]
    assert (ours.invoke(asked).type, ours.invoke(asked).value) == ("ok", [[1, 4], [1, 7]])
    library.letters = None
    assert ours.invoke(asked).type == "fail"


def test_a_dead_letter_without_its_record_is_an_error() -> None:
    headers = [("__dlq.errors.topic", b"r-0"), ("__dlq.errors.partition", b"1"), ("__dlq.errors.offset", b"17")]
    assert place_of(headers) == Place("r-0", 1, 17)
    with pytest.raises(ClientError, match="without the place"):
        place_of(headers[:2])
