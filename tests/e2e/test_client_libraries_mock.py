"""Clients without a JVM on librdkafka's mock cluster: real sockets, but wrong transactions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clients.confluent.adapter import Confluent
from harness.clients.confluent.before_list_offsets import OldAdmin
from harness.clients.confluent.settings_and_errors import common
from harness.clients.queue import open_client
from harness.clients.settings import parse_settings
from harness.clients.table import admin_opener
from harness.cluster.mock import MockCluster
from harness.model.op import Op, polls

_INDEX = itertools.count()
PATIENCE_S = 30.0
BOTH = pytest.mark.parametrize("library", ["confluent", "aiokafka"])


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    work: Path = tmp_path_factory.mktemp("mock")
    cluster = MockCluster(nodes=3, work_dir=work)
    cluster.up(lambda line: None)
    try:
        yield cluster.bootstrap
    finally:
        cluster.down()


@pytest.fixture
def config(bootstrap: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration of a run, with topics for the keys 0 to 7."""
    given = {"bootstrap": bootstrap, "run": request.node.name.replace("[", "-").strip("]"), "process": 0}
    names = [f"{given['run']}-{number}" for number in range(2)]
    assert admin_opener("confluent")(given).create_topics(names, 4, 3) == names
    return given


@pytest.fixture
def opened(config: dict[str, Any]) -> Iterator[Callable[..., Any]]:
    """Opens clients of the run, and closes them after the test."""
    clients: list[Any] = []

    def open_one(**more: Any) -> Any:
        clients.append(open_client(config | {"process": len(clients)} | more))
        return clients[-1]

    yield open_one
    for client in clients:
        client.close()


def do(client: Any, f: str, value: Any = None, **extra: Any) -> Op:
    done: Op = client.invoke(Op(next(_INDEX), 0, 0, "invoke", f, value, None, extra))
    return done


def poll_until(client: Any, count: int) -> list[tuple[Any, int, Any]]:
    """Polls until `count` records have arrived."""
    found: list[tuple[Any, int, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {found} in {PATIENCE_S:.0f} s"
        done = do(client, "poll", [["poll"]])
        assert done.type == "ok", done
        found += polls(done)
    return found


@BOTH
def test_sends_and_assigned_polls(opened: Callable[..., Any], library: str) -> None:
    client = opened(library=library)
    done = do(client, "send", [["send", 1, 10], ["send", 5, 20], ["send", 1, 11]])
    assert done.value == [["send", 1, [0, 10]], ["send", 5, [0, 20]], ["send", 1, [1, 11]]]
    assert do(client, "assign", [1, 5]).type == "ok"
    assert sorted(poll_until(client, 3)) == [(1, 0, 10), (1, 1, 11), (5, 0, 20)]
    do(client, "send", [["send", 1, 12]])
    do(client, "assign", [1])
    assert poll_until(client, 1) == [(1, 2, 12)]
    do(client, "assign", [1], seek_to_beginning=True)
    assert [value for _, _, value in poll_until(client, 3)] == [10, 11, 12]


@BOTH
def test_without_acknowledgements_a_send_is_ok_and_has_no_offset(opened: Callable[..., Any], library: str) -> None:
    client = opened(library=library, acks=0)
    done = do(client, "send", [["send", 1, 10], ["send", 1, 11]])
    assert (done.type, done.value) == ("ok", [["send", 1, [None, 10]], ["send", 1, [None, 11]]])
    do(client, "assign", [1])
    assert poll_until(client, 2) == [(1, 0, 10), (1, 1, 11)]


@BOTH
def test_final_polls_reach_the_ends(opened: Callable[..., Any], library: str) -> None:
    client = opened(library=library)
    do(client, "send", [["send", 1, value] for value in range(5)])
    reader = opened(library=library)
    do(reader, "assign", [1, 2], seek_to_beginning=True, final=True)
    deadline = time.monotonic() + PATIENCE_S
    extra: Any = {}
    while extra.get("positions") != [[1, 5], [2, 0]]:
        assert time.monotonic() < deadline, extra
        extra = do(reader, "poll", [["poll"]], final=True).extra
    assert extra["ends"] == [[1, 0, 5], [2, 0, 0]]


def test_subscribed_polls_resume_where_the_group_has_committed(opened: Callable[..., Any]) -> None:
    client = opened()
    do(client, "send", [["send", 1, 10], ["send", 1, 11]])
    do(client, "subscribe", [1])
    assert sorted(poll_until(client, 2)) == [(1, 0, 10), (1, 1, 11)]
    client.close()
    successor = opened()
    do(successor, "send", [["send", 1, 12]])
    do(successor, "subscribe", [1])
    assert poll_until(successor, 1) == [(1, 2, 12)]


def test_a_rebalance_is_in_the_log(opened: Callable[..., Any]) -> None:
    client = opened()
    do(client, "subscribe", [1])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = do(client, "poll", [["poll"]])
        if "rebalance_log" in done.extra:
            break
        assert time.monotonic() < deadline
    nothing = [[key, None] for key in range(4)]
    assert done.extra["rebalance_log"] == [{"event": "assigned", "keys": [0, 1, 2, 3], "committed": nothing}]


@BOTH
def test_a_record_that_is_too_large_is_refused_at_once(opened: Callable[..., Any], library: str) -> None:
    client = opened(library=library, record_size=2_000_000)
    done = do(client, "send", [["send", 1, 10]])
    assert done.type == "fail" and "MSG_SIZE_TOO_LARGE" in done.error


@BOTH
def test_an_aborted_transaction_fails_and_its_reader_goes_back(opened: Callable[..., Any], library: str) -> None:
    client = opened(library=library, txn=True)
    assert do(client, "txn", [["send", 1, 10], ["send", 1, 11]]).type == "ok"
    do(client, "assign", [1])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        aborted = do(client, "txn", [["poll"], ["send", 2, 10]], abort=True)
        assert (aborted.type, aborted.error) == ("fail", "aborted on purpose")
        if polls(aborted):
            break
        assert time.monotonic() < deadline
    assert [value for _, _, value in poll_until(client, 2)] == [10, 11]


def test_the_mock_shows_aborted_records(opened: Callable[..., Any]) -> None:
    """The known bug of the mock cluster: a read_committed consumer sees an aborted record."""
    client = opened(txn=True)
    assert do(client, "send", [["send", 1, 10]], abort=True).type == "fail"
    reader = opened()
    do(reader, "assign", [1])
    assert [value for _, _, value in poll_until(reader, 1)] == [10]


@BOTH
def test_crash_is_info_and_quick(opened: Callable[..., Any], library: str) -> None:
    client = opened(library=library, txn=True)
    do(client, "send", [["send", 1, 10]])
    do(client, "assign", [1])
    began = time.monotonic()
    assert do(client, "crash").type == "info"
    assert time.monotonic() - began < 4.5  # closing them one after another may take 5
    assert do(client, "poll", [["poll"]]).type == "fail"


def test_without_brokers_ops_end_in_time(opened: Callable[..., Any]) -> None:
    for txn, expected in ((False, "info"), (True, "fail")):
        client = opened(bootstrap="127.0.0.1:1", op_timeout_s=1.5, txn=txn)
        began = time.monotonic()
        assert do(client, "send", [["send", 1, 10]]).type == expected
        assert time.monotonic() - began < 10  # the library's own limits are tens of seconds


def test_old_versions_find_leaders_and_ends_as_new_ones_do(opened: Callable[..., Any], config: dict[str, Any]) -> None:
    do(opened(), "send", [["send", 1, 10], ["send", 1, 11], ["send", 2, 10]])
    made = parse_settings(config)
    partitions = [made.partition(key) for key in range(3)]
    old, new = OldAdmin(common(made)), Confluent().admin(made)
    topics = [f"{made.run}-0"]
    assert old.partitions(topics) == new.partitions(topics)
    for level in ("read_committed", "read_uncommitted"):
        assert (
            old.offsets(partitions, level)
            == new.offsets(partitions, level)
            == dict(zip(partitions, [(0, 0), (0, 2), (0, 1)], strict=True))
        )
    old.close()


def test_debug_and_admin(opened: Callable[..., Any], config: dict[str, Any]) -> None:
    client = opened()
    do(client, "send", [["send", 1, 10]])
    (key, facts), (_, missing) = do(client, "debug-topic-partitions", [1, 99]).value
    assert key == 1 and (facts["start"], facts["end"]) == (0, 1) and facts["leader"] in facts["isr"]
    assert missing["leader"] is None
    admin = admin_opener("confluent")(config)
    leaders = admin.leaders(timeout_s=5.0)
    assert [row[:2] for row in leaders] == [[f"{config['run']}-{t}", p] for t in range(2) for p in range(4)]
    assert {row[2] for row in leaders} <= {number for number, _ in admin.brokers(timeout_s=5.0)}
    assert admin.list_offsets([1, 2]) == [[1, 0, 1], [2, 0, 0]]
