"""The liveness check: what stays stuck after healing is an anomaly, and a look that proves nothing is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.prose import Phrases
from checker.check import judge
from checker.tables.buckets_of_a_history import in_memory
from checker.tables.make_tables import of_ops
from harness.model.check_options import CheckOptions, InternalTopic, Settings
from harness.model.check_result import Result
from harness.model.op import INFO, NEMESIS, Op
from nemesis.shared import group_liveness, liveness

KEPT = InternalTopic(replication=3, min_insync_replicas=2, unclean_election=False)
SAFE = Settings(replication=3, min_insync_replicas=2, unclean_election=False, txn=True, transactions_topic=KEPT)
SECOND = 1_000_000_000
SETTLED = {"settled_s": 0.4}
LINES = {"n2": ["[x] first", "[x] Truncating r-0-0"]}


def _judged(value: dict[str, Any] | None, settings: Settings = SAFE, f: str = liveness.SETTLE) -> Result:
    phases = [("invoke", None), ("complete", value)]
    ops = [Op(n, n, NEMESIS, INFO, f, each, None, {"phase": phase}) for n, (phase, each) in enumerate(phases)]
    options = CheckOptions(checks=("liveness",), settings=settings)
    return judge(in_memory(of_ops(ops if value is not None else [])), options)


def _stuck(kind: str) -> dict[str, Any]:
    return {"kind": kind, "where": "r-0-0", "state": "it is stuck", "logged": LINES}


@pytest.mark.parametrize("kind", ["partition", "replica", "transaction"])
def test_what_stays_stuck_is_an_anomaly(kind: str) -> None:
    result = _judged({"waited_s": 30.2, "stuck": [_stuck(kind), _stuck("other")], "count": 1})
    assert (result.valid, result.promised) == ("invalid", True)
    (found,) = result.anomalies
    assert (found.name, found.count, found.bad) == (f"stuck-{kind}", 1, True)
    text = CATALOGUE[found.name].prose(found.witnesses[0], cast(Phrases, None))
    expected = (
        "r-0-0: it is stuck, for 30.2 s after healing; the brokers' last lines about it: n2: [x] Truncating r-0-0"
    )
    assert text == expected


def _group(**more: Any) -> Result:
    value = {"waited_s": 30.2, "stuck": [{**_stuck("group"), "where": "group r-group", **more}], "count": 1}
    return _judged(value, f=group_liveness.SETTLE_GROUP)


def test_a_group_that_does_not_settle_is_an_anomaly() -> None:
    result = _group()
    (found,) = result.anomalies
    assert (result.valid, result.promised, found.name, found.promised) == ("invalid", True, "stuck-group", True)
    assert result.statistics["liveness"] == {"group_waited_s": 30.2}


def test_nothing_is_promised_to_a_group_with_members_of_others() -> None:
    result = _group(excuse="it has members that are not of the run: reports at /10.0.0.7")
    (found,) = result.anomalies
    assert (result.valid, result.promised, found.promised) == ("invalid", False, False)
    text = CATALOGUE[found.name].prose(found.witnesses[0], cast(Phrases, None))
    assert "for 30.2 s after healing; it has members that are not of the run: reports at /10.0.0.7; " in text


def test_a_group_of_which_nothing_is_known_proves_nothing() -> None:
    value = {"waited_s": 30.0, "stuck": [], "count": 0, "why": "2 brokers are not registered"}
    result = _judged(value, f=group_liveness.SETTLE_GROUP)
    assert result.valid == "unknown" and "the consumer group settled at the end: 2 brokers" in result.reasons[0]


def test_a_cluster_that_settled_is_valid() -> None:
    result = _judged({"settled_s": 0.4})
    assert (result.valid, result.anomalies) == ("valid", ())
    assert result.statistics["liveness"] == {"settled_s": 0.4}


def test_a_look_that_failed_proves_nothing() -> None:
    result = _judged({"waited_s": 30.0, "stuck": [], "count": 0, "why": "2 of 3 brokers are registered"})
    assert result.valid == "unknown" and "2 of 3 brokers are registered" in result.reasons[0]


def test_a_run_that_did_not_look_is_not_judged() -> None:
    assert _judged(None).valid == "valid"


def test_lost_copies_promise_nothing() -> None:
    value = {"waited_s": 30.2, "stuck": [_stuck("partition")], "count": 1}
    assert _judged(value, Settings(replication=3, min_insync_replicas=2, damaged_copies=1000)).promised is False


def _polls(*rows: tuple[int, int, int, str]) -> list[Op]:
    """Polls of clients: (process, start in s, end in s, type)."""
    found = []
    for process, start_s, end_s, type_ in rows:
        found.append((start_s, Op(0, start_s * SECOND, process, "invoke", "poll", [["poll"]])))
        value = [["poll", []]] if type_ == "ok" else [["poll"]]
        error = None if type_ == "ok" else "poll: _TIMED_OUT"
        found.append((end_s, Op(0, end_s * SECOND, process, type_, "poll", value, error)))
    return [op for _, op in sorted(found, key=lambda pair: pair[0])]


def _with_settle(ops: list[Op], clients: int = 2, txn: bool | None = False) -> Result:
    settle = [
        Op(0, 10 * SECOND, NEMESIS, INFO, liveness.SETTLE, {"clients": clients}, None, {"phase": "invoke"}),
        Op(
            0,
            10 * SECOND + 1,
            NEMESIS,
            INFO,
            liveness.SETTLE,
            SETTLED | {"clients": clients},
            None,
            {"phase": "complete"},
        ),
    ]
    ordered = sorted([*ops, *settle], key=lambda op: op.time_ns)
    numbered = [
        Op(n, op.time_ns, op.process, op.type, op.f, op.value, op.error, op.extra) for n, op in enumerate(ordered)
    ]
    return judge(in_memory(of_ops(numbered)), CheckOptions(checks=("liveness",), settings=replace(SAFE, txn=txn)))


SERVED_BEFORE = ((0, 1, 2, "ok"), (1, 3, 4, "ok"))
OTHERS = ((0, 12, 13, "ok"),)
FAILS = ((1, 11, 21, "info"), (3, 22, 32, "info"), (5, 33, 43, "fail"))


def test_a_client_that_is_never_served_is_stuck() -> None:
    (found,) = _with_settle(_polls(*SERVED_BEFORE, *OTHERS, *FAILS)).anomalies
    (witness,) = found.witnesses
    assert found.name == "stuck-client" and witness["where"] == "client 1 (process 1, 3, 5)"
    assert witness["waited_s"] == 32.0 and witness["state"].startswith("3 operations, none of which succeeded")


@pytest.mark.parametrize("error", ["op deadline exceeded", "client process ended"])
def test_a_client_whose_process_does_not_answer_is_not_stuck(error: str) -> None:
    ops = [op.with_(error=error) if op.error else op for op in _polls(*SERVED_BEFORE, *OTHERS, *FAILS)]
    assert _with_settle(ops).valid == "valid"


@pytest.mark.parametrize(
    "rows",
    [
        (*SERVED_BEFORE, *OTHERS, *FAILS[:2], (5, 33, 43, "ok")),  # served at last
        (*SERVED_BEFORE, *OTHERS, *FAILS[:2]),  # for less than 30 s
        (*SERVED_BEFORE[:1], *OTHERS, *FAILS),  # never served before: its settings may be wrong
        (*SERVED_BEFORE, *FAILS),  # nobody is served
    ],
)
def test_other_clients_are_not_stuck(rows: tuple[tuple[int, int, int, str], ...]) -> None:
    assert _with_settle(_polls(*rows)).valid == "valid"


def _final_sends(process: int, *rows: tuple[int, int, str]) -> list[Op]:
    """Final sends and crashes of client 1: (start in s, end in s, type); the type is crash, or how a send completes."""
    found = []
    for n, (start_s, end_s, type_) in enumerate(rows):
        f, value = ("crash", None) if type_ == "crash" else ("send", [["send", 5, -2 - n]])
        completed = "info" if type_ in ("crash", "unanswered") else type_
        error = "op deadline exceeded" if type_ == "unanswered" else "report: _MSG_TIMED_OUT"
        final = {"final": True}
        found.append(Op(0, start_s * SECOND, process, "invoke", f, value, None, final))
        found.append(Op(0, end_s * SECOND, process, completed, f, value, error if completed == "info" else None, final))
        process += 2 if completed == "info" else 0
    return found


GIVEN_UP = ((11, 21, "info"), (22, 32, "info"), (33, 43, "fail"), (44, 45, "crash"))


def test_a_producer_that_never_sends_again_is_stuck_if_the_next_one_is_served() -> None:
    (found,) = _with_settle(_final_sends(1, *GIVEN_UP, (46, 47, "info"), (48, 49, "ok"))).anomalies
    (witness,) = found.witnesses
    assert found.name == "stuck-client" and witness["where"] == "client 1 (process 1, 3, 5)"
    assert witness["waited_s"] == 32.0 and witness["state"].startswith("3 operations with its producer, none of which")


@pytest.mark.parametrize(
    "rows",
    [
        (*GIVEN_UP[:2], (33, 43, "unanswered"), *GIVEN_UP[3:], (46, 47, "ok")),  # its process did not answer
        (*GIVEN_UP, (46, 56, "info")),  # the next producer is not served either
        (*GIVEN_UP[:2], (33, 34, "ok")),  # it is served at last
        ((11, 30, "info"), (31, 43, "fail"), (44, 45, "crash"), (46, 47, "ok")),  # two sends
        ((15, 20, "info"), *GIVEN_UP[1:], (46, 47, "ok")),  # for less than 30 s
        ((5, 21, "info"), *GIVEN_UP[1:], (46, 47, "ok")),  # the first one began before the cluster had settled
    ],
)
def test_other_producers_are_not_stuck(rows: tuple[tuple[int, int, str], ...]) -> None:
    assert _with_settle(_final_sends(1, *rows)).valid == "valid"


def _final_polls(process: int, *steps: tuple[int, int], end: int = 274) -> list[Op]:
    """Final polls of a process: (time in s, position of key 5), of which `end` is the end."""
    found = []
    for at_s, position in steps:
        extra = {"final": True}
        found.append(Op(0, at_s * SECOND, process, "invoke", "poll", [["poll"]], None, extra))
        seen = {**extra, "positions": [[5, position]], "ends": [[5, 0, end]]}
        found.append(Op(0, at_s * SECOND + SECOND // 2, process, "ok", "poll", [["poll", []]], None, seen))
    return found


def _stops(process: int, begin_s: int, position: int = 52, idle_s: int = 10) -> list[Op]:
    """A consumer that reads up to `position`, and then nothing for `idle_s` seconds."""
    return _final_polls(process, (begin_s, 0), *((begin_s + 1 + at, position) for at in range(idle_s + 1)))


READS_ALL = _final_polls(0, (12, 0), (13, 274))
STOPPED = [*_stops(1, 12), *_stops(3, 24), *_stops(5, 36)]


def test_a_client_whose_consumers_stop_before_the_end_is_stuck() -> None:
    (found,) = _with_settle([*READS_ALL, *STOPPED]).anomalies
    (witness,) = found.witnesses
    assert found.name == "stuck-client" and witness["where"] == "client 1 (process 1, 3, 5)"
    assert witness["waited_s"] == 30.0
    assert "stayed at offset 52 of key 5, although the log goes on to 274, and client 0 read every" in witness["state"]


@pytest.mark.parametrize(
    "ops",
    [
        [*READS_ALL, *STOPPED[:-2], *_final_polls(5, (50, 274))],  # its last consumer reads to the end
        [*READS_ALL, *STOPPED, *_final_polls(7, (50, 60), (51, 274))],  # a later consumer does
        [*READS_ALL, *_stops(1, 12), *_stops(3, 24)],  # only two of its consumers stopped
        [
            *READS_ALL,
            *_stops(1, 12),
            *_stops(3, 24),
            *_stops(5, 36, idle_s=7),
        ],  # the third one had time for seven seconds only
        [
            *READS_ALL,
            *_stops(1, 12, 0),
            *_stops(3, 24, 0),
            *_stops(5, 36, 0),
        ],  # its consumers read nothing at all: they may be slow
        [*_final_polls(0, (12, 0), (13, 273)), *STOPPED],  # no other client shows that the log can be read to its end
        [
            *_final_polls(0, (2, 0), (3, 274)),
            *_stops(1, 2),
            *_stops(3, 4),
            *_stops(5, 6, idle_s=2),
        ],  # before the cluster settled
    ],
)
def test_other_consumers_are_not_stuck(ops: list[Op]) -> None:
    assert _with_settle(ops).anomalies == ()


@pytest.mark.parametrize("txn", [True, None])
def test_with_markers_at_the_end_of_a_log_no_consumer_is_stuck(txn: bool | None) -> None:
    assert _with_settle([*READS_ALL, *STOPPED], txn=txn).anomalies == ()
