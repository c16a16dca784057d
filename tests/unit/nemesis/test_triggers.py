"""Triggers that watch logs and leaders."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.cluster.local import log_tail
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.model.op import Op
from nemesis.schedule import entry, triggers
from nemesis.schedule.entry import Entry, Trigger
from nemesis.schedule.rounds import Seen
from tests.unit.nemesis.test_faults import NODES, FakeCluster, FakeRoles

ANY = Trigger(entry.LOG, r"elected \w+")
ON_N2 = Trigger(entry.LOG, "elected", node="n2")
ROLL = Trigger(entry.SEGMENT_ROLL)


class Logged(FakeCluster):
    """Also satisfies ServerLogs, from files."""

    folder: Path

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        return log_tail.tail(self.folder / node, offset)

    def log(self, node: str, text: str) -> None:
        with (self.folder / node).open("a") as file:
            file.write(text)


@pytest.fixture
def cluster(tmp_path: Path) -> Logged:
    made = Logged()
    made.folder = tmp_path
    return made


def test_only_new_and_whole_lines_count(cluster: Logged) -> None:
    cluster.log("n1", "elected before\n")
    watch = triggers.LogWatch(cluster, NODES, "r-")
    wanted = watch.patterns([ANY, ON_N2, ROLL, Trigger(entry.LEADER_CHANGE)])
    assert list(wanted) == [ANY, ON_N2, ROLL]
    assert watch.look(wanted) == []
    cluster.log("n1", "elected n")
    assert watch.look(wanted) == []
    cluster.log("n1", "1\nelected again\n")
    assert watch.look(wanted) == [Seen(ANY, "n1 logged: elected n1")]
    cluster.log("n2", "elected n2\n[LocalLog partition=r-0-1, dir=x] Rolled new log segment at offset 7\n")
    assert [seen.trigger for seen in watch.look(wanted)] == [ANY, ON_N2, ROLL]
    cluster.log("n3", "[LocalLog partition=__consumer_offsets-1] Rolled new log segment at offset 7\n")
    assert watch.look(wanted) == []


def test_a_recreated_log_is_read_from_its_beginning(cluster: Logged) -> None:
    cluster.log("n1", "a long line before\n")
    watch = triggers.LogWatch(cluster, NODES, "r-")
    wanted = watch.patterns([ANY])
    watch.look(wanted)
    (cluster.folder / "n1").write_text("elected n3\n")
    assert watch.look(wanted) == [Seen(ANY, "n1 logged: elected n3")]


def test_a_leader_that_changed_counts_and_one_that_is_missing_does_not() -> None:
    now: dict[tuple[str, int], str | None] = {("r-0", 0): "n1", ("r-0", 1): "n2"}

    class Roles(FakeRoles):
        def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
            return now

    watch = triggers.LeaderWatch(Roles(FakeCluster()))
    assert watch.look() == ""
    now[("r-0", 0)] = None
    assert watch.look() == ""
    now[("r-0", 0)] = "n1"
    assert watch.look() == ""
    now.update({("r-0", 0): "n3", ("r-0", 1): "n3"})
    assert watch.look() == "the leader of r-0-0 changed from n1 to n3, and 1 more"
    assert watch.look() == ""


def test_the_thread_tells_of_what_it_sees_and_asks_again_after_trouble(cluster: Logged) -> None:
    heard: queue.SimpleQueue[Op] = queue.SimpleQueue()
    calls = itertools.count()
    known = threading.Event()

    class Roles(FakeRoles):
        def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
            number = next(calls)
            if number == 0:
                raise ClusterTrouble("nobody is home")
            if number > 1:  # the first answer has been processed
                known.set()
            return super().leaders()

    change = Trigger(entry.LEADER_CHANGE)
    schedule = [Entry("kill:leader", when=ANY), Entry("pause:leader", when=change), Entry("kill:n1")]
    watch = triggers.Watch(schedule, cluster, Roles(cluster), heard.put)
    watch.start()
    try:
        while heard.empty():
            cluster.log("n1", "elected n1\n")
        assert heard.get().value == Seen(ANY, "n1 logged: elected n1")
        assert known.wait(10)
        cluster.up_nodes.discard("n2")
        while (op := heard.get(timeout=10)).value.trigger != change:
            pass
        assert "changed from n2 to n1" in op.value.text
    finally:
        watch.stop()
    watch.stop()


def test_triggers_of_logs_need_logs() -> None:
    message = r"the `log` trigger of kill:leader needs readable server logs \(capability ServerLogs\), which is not"
    with pytest.raises(BadInput, match=message):
        triggers.refuse_unsupported([Entry("kill:leader", when=ANY)], FakeCluster(), "is not there")
    triggers.refuse_unsupported(
        [Entry("kill:leader"), Entry("kill:n1", when=Trigger(entry.LEADER_CHANGE))], FakeCluster(), ""
    )


def test_a_line_tells_when_its_point_was(cluster: Logged) -> None:
    watch = triggers.LogWatch(cluster, NODES, "r-")
    truncation = Trigger(entry.TRUNCATION)
    wanted = watch.patterns([truncation])
    watch.look(wanted)
    at_s = time.mktime((2026, 11, 24, 22, 54, 32, 0, 0, -1)) + 0.27
    line = "[2026-11-24 22:54:32,270] INFO [UnifiedLog partition=r-1-0, dir=/d] Truncating to"
    cluster.log("n1", f"{line} 0 has no effect as the largest offset in the log is -1 (x)\n")
    assert watch.look(wanted) == []
    cluster.log("n1", f"{line} offset 7 (x)\n")
    (seen,) = watch.look(wanted)
    assert seen.trigger == truncation and seen.at_s == pytest.approx(at_s)
