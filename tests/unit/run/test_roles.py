"""Leaders and coordinators from the views of several brokers; and topics created before they are used."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from harness.generator import op
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.protocol import quorum
from harness.protocol.brokers_metadata_views import PartitionView, View, newest, parse
from harness.run.roles import GROUP_TOPIC, SHARE_TOPIC, TXN_TOPIC, ViewRoles, coordinating
from harness.run.topics import AHEAD, Topics

NODES = ("n1", "n2", "n3")


class Answers:
    """A cluster whose brokers give these answers."""

    nodes = NODES

    def __init__(self, views: list[View], controller: int | None = 1) -> None:
        self._views, self._controller = views, controller

    def views(self) -> list[View]:
        return self._views

    def controller(self) -> int | None:
        return self._controller


class WithControllers(Answers):
    """A cluster with dedicated controllers, some of which do not respond."""

    metadata_servers = ("c1", "c2", "c3")

    def __init__(self, views: list[View], controller: int | None, silent: list[str]) -> None:
        super().__init__(views, controller)
        self._silent = silent

    def silent(self) -> list[str]:
        return self._silent


def roles_of(views: list[View], controller: int | None = 1) -> ViewRoles:
    return ViewRoles(Answers(views, controller), "r", "r-group", 4, 3)


def view(leader: int | None, epoch: int, isr: set[int], brokers: set[int] = {1, 2, 3}) -> View:  # noqa: B006
    return View(frozenset(brokers), {("r-0", 0): PartitionView(leader, epoch, frozenset(isr))})


def test_a_leader_that_was_cut_off_is_not_believed() -> None:
    stale, fresh = view(1, 4, {1, 2, 3}), view(2, 5, {2, 3}, {2, 3})
    roles = roles_of([stale, fresh, fresh])
    assert roles.leaders() == {("r-0", 0): "n2"}
    assert roles.unhealthy() == "2 of 3 brokers are registered"


def test_of_equal_epochs_the_smaller_in_sync_set_counts() -> None:
    now = newest([view(2, 5, {1, 2, 3}), view(2, 5, {2, 3})])
    assert now.partitions[("r-0", 0)].isr == {2, 3}
    roles = roles_of([view(2, 5, {2, 3}), view(2, 5, {1, 2, 3}), view(2, 5, {2, 3})])
    assert roles.unhealthy() == "1 of 1 partitions have replicas out of sync"


def test_healthy_and_other_runs_topics_do_not_matter() -> None:
    other = View(frozenset({1, 2, 3}), {("other-0", 0): PartitionView(None, 1, frozenset())})
    assert roles_of([view(1, 1, {1, 2, 3}), other, other]).unhealthy() == ""


def test_a_node_that_does_not_answer_yet_is_not_healthy() -> None:
    """It may have been restarted before the others noticed."""
    assert roles_of([view(1, 1, {1, 2, 3})] * 2).unhealthy() == "2 of 3 brokers respond"


def test_a_cluster_without_a_controller_is_not_healthy() -> None:
    assert "the active controller" in roles_of([view(1, 1, {1, 2, 3})] * 3, None).unhealthy()


def test_controllers_of_their_own_are_counted_after_the_nodes() -> None:
    well = [view(1, 1, {1, 2, 3})] * 3

    def roles(controller: int | None, silent: list[str]) -> ViewRoles:
        return ViewRoles(WithControllers(well, controller, silent), "r", "r-group", 4, 3)

    assert roles(5, []).holders("controller") == ["c2"]
    assert roles(5, []).unhealthy() == ""
    assert roles(5, ["c1", "c3"]).unhealthy() == "c1, c3 did not respond"


def test_leaderless_and_silent() -> None:
    assert "no leader" in roles_of([view(None, 1, set())] * 3).unhealthy()
    with pytest.raises(ClusterTrouble, match="no broker responds"):
        roles_of([]).leaders()


def test_coordinators_are_the_leaders_of_the_partitions_of_their_names() -> None:
    """Hashes equal Java's String.hashCode."""
    assert [coordinating(name, 50) for name in ("", "a", "my-group")] == [0, 47, 12]
    assert coordinating("polygenelubricants", 50) == 0  # its hash is the smallest int, which has no absolute value
    leads = {
        (topic, number): PartitionView(1 + number % 3, 1, frozenset())
        for topic in (TXN_TOPIC, GROUP_TOPIC)
        for number in range(50)
    }
    roles = roles_of([View(frozenset({1, 2, 3}), leads)], controller=2)
    assert roles.holders("controller") == ["n2"]
    assert roles.holders("group-coordinator") == [NODES[coordinating("r-group", 50) % 3]]
    assert roles.holders("txn-coordinator") == [NODES[coordinating(f"r-{n}", 50) % 3] for n in range(4)]
    assert roles_of([view(1, 1, {1})]).holders("txn-coordinator") == []
    assert roles_of([], None).holders("controller") == []


def test_the_quorum_leader_of_a_describe_quorum_answer() -> None:
    topic = b"__cluster_metadata"
    head = struct.pack(">i", 1) + b"\0" + struct.pack(">h", 0) + b"\2" + bytes([len(topic) + 1]) + topic
    voters = b"\3" + b"".join(struct.pack(">iq", voter, 60) + b"\0" for voter in (3, 4))
    answer = head + b"\2" + struct.pack(">ihii", 0, 0, 3, 9) + struct.pack(">q", 55) + voters
    assert quorum.parse(answer) == (9, 3, 55, (3, 4))
    with pytest.raises(ValueError, match="error 41"):
        quorum.parse(struct.pack(">i", 1) + b"\0" + struct.pack(">h", 41))
    with pytest.raises(ValueError, match="truncated"):
        quorum.parse(answer[:30])


def test_parse_of_a_metadata_answer() -> None:
    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    broker = struct.pack(">i", 7) + text("host") + struct.pack(">i", 9092) + struct.pack(">h", -1)
    ids = struct.pack(">iii", 2, 7, 8)
    partition = struct.pack(">hiii", 0, 3, 7, 12) + ids + struct.pack(">ii", 1, 7) + struct.pack(">i", 0)
    topic = struct.pack(">h", 0) + text("t") + b"\0" + struct.pack(">i", 1) + partition
    answer = struct.pack(">ii", 1, 0) + struct.pack(">i", 1) + broker + text("cluster")
    answer += struct.pack(">i", 7) + struct.pack(">i", 1) + topic
    found = parse(answer)
    assert found == View(frozenset({7}), {("t", 3): PartitionView(7, 12, frozenset({7}))}, 7)
    with pytest.raises(ValueError, match="truncated"):
        parse(answer[:-6])


def made_by(topics: Topics, calls: list[dict[str, Any]]) -> list[str]:
    if topics._ahead is not None:
        topics._ahead.join(5.0)
    return [name for call in calls for name in call["names"]]


def test_topics_are_made_before_use_and_ahead() -> None:
    calls: list[dict[str, Any]] = []
    topics = Topics(lambda name, within_s, **args: calls.append(args), "r", 4, 3, {})
    topics.ensure(11)
    assert made_by(topics, calls) == [f"r-{n}" for n in range(3 + AHEAD)]
    topics.before(op("poll", [["poll"]]))
    topics.before(op("send", [["send", 11, 1]]))
    assert len(calls) == 1
    topics.before(
        op("send", [["send", 12, 1]])
    )  # the first of those created ahead, so one more is created in the background
    assert made_by(topics, calls) == [f"r-{n}" for n in range(4 + AHEAD)]
    topics.before(op("send", [["poll"], ["send", 40, 1]]))  # does not exist yet, so it is created at once
    assert made_by(topics, calls) == [f"r-{n}" for n in range(11 + AHEAD)]


def test_making_a_topic_is_tried_again() -> None:
    tries: list[int] = []

    def call(name: str, within_s: float, **args: Any) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ClusterTrouble("no controller")

    Topics(call, "r", 4, 3, {}).ensure(0)
    assert len(tries) == 3


def test_which_partitions_are_in_use_is_what_was_sent_last() -> None:
    topics = Topics(lambda name, within_s, **args: None, "r", 4, 3, {})
    for key in (0, 5, 5):
        topics.before(op("send", [["send", key, 1], ["poll"]]))
    assert topics.sends() == {("r-0", 0): 1, ("r-1", 1): 2}


def test_a_pipeline_s_sends_name_partitions_and_make_no_topic() -> None:
    calls: list[dict[str, Any]] = []
    topics = Topics(lambda name, within_s, **args: calls.append(args), "r", 4, 3, {}, inputs=2)
    topics.ensure(7)
    topics.before(op("send", [["send", 9, 1], ["send", 40, 2]]))
    assert len(calls) == 1
    assert topics.sends() == {("r-1", 4): 1, ("r-0", 20): 1}


def test_share_coordinators_are_found_by_group_topic_id_and_partition() -> None:
    states = {(SHARE_TOPIC, n): PartitionView(n % 3 + 1, 1, frozenset({1, 2, 3})) for n in range(6)}
    topics = {("r-0", n): PartitionView(1, 1, frozenset({1, 2, 3})) for n in range(2)}
    cluster = Answers([View(frozenset({1, 2, 3}), {**states, **topics})])
    questions: list[int] = []

    def topic_ids() -> dict[str, str]:
        questions.append(1)
        return {"r-0": "AAAAAAAAAAAAAAAAAAAAAQ"}

    roles = ViewRoles(cluster, "r", "r-group", 2, 3, ("r-g0",), topic_ids)
    names = [f"r-g0:AAAAAAAAAAAAAAAAAAAAAQ:{n}" for n in range(2)]
    assert roles.holders("share-coordinator") == [NODES[coordinating(name, 6) % 3] for name in names]
    assert roles.holders("share-coordinator") and len(questions) == 1  # ids never change
