"""The liveness check: what stays stuck after healing is an anomaly, and a look that proves nothing is not."""

from __future__ import annotations

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
from nemesis.shared import liveness

KEPT = InternalTopic(replication=3, min_insync_replicas=2, unclean_election=False)
SAFE = Settings(replication=3, min_insync_replicas=2, unclean_election=False, txn=True, transactions_topic=KEPT)
LINES = {"n2": ["[x] first", "[x] Truncating r-0-0"]}


def _judged(value: dict[str, Any] | None, settings: Settings = SAFE) -> Result:
    phases = [("invoke", None), ("complete", value)]
    ops = [
        Op(n, n, NEMESIS, INFO, liveness.SETTLE, each, None, {"phase": phase}) for n, (phase, each) in enumerate(phases)
    ]
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
