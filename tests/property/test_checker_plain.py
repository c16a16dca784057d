"""The kernels agree with a plain, slow checker on small random histories, however absurd."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checker import ingest
from checker.check import judge
from checker.source import in_memory
from harness.model.op import Op
from harness.model.options import CheckOptions
from tests.unit.checker.plain import Plain, shaped

KEYS = st.integers(0, 2)
VALUES = st.integers(0, 6)
OFFSETS = st.one_of(st.integers(0, 7), st.none())
SEND = st.tuples(KEYS, st.tuples(OFFSETS, VALUES)).map(lambda kv: ["send", kv[0], list(kv[1])])
PAIRS = st.lists(st.tuples(st.integers(0, 7), VALUES).map(list), min_size=1, max_size=3)
POLL = st.dictionaries(KEYS, PAIRS, max_size=2).map(lambda held: ["poll", [[k, v] for k, v in held.items()]])
MICRO = st.tuples(
    st.sampled_from(["send", "poll", "txn"]), st.lists(st.one_of(SEND, POLL), min_size=1, max_size=3)
)
LISTS = st.tuples(st.sampled_from(["assign", "subscribe"]), st.lists(KEYS, max_size=3))
OTHERS = st.sampled_from([("crash", None), ("debug-topic-partitions", None)])
TYPES = st.sampled_from(["ok", "ok", "ok", "info", "fail"])
REBALANCED = st.one_of(
    st.just({}), st.lists(KEYS, min_size=1).map(lambda k: {"rebalance_log": [{"keys": k}]})
)
STEPS = st.lists(
    st.tuples(st.integers(0, 2), TYPES, st.one_of(MICRO, MICRO, MICRO, LISTS, OTHERS), REBALANCED),
    max_size=14,
)


def _ops(steps: list[Any]) -> list[Op]:
    """Each step an invocation and its completion; a value polled or sent may be anything at all."""
    ops: list[Op] = []
    for process, kind, (f, value), extra in steps:
        bare = [m[:1] if m[0] == "poll" else [m[0], m[1], m[2][1]] for m in value] if f in MICRO_FS else value
        ops.append(Op(len(ops), len(ops), process, "invoke", f, bare))
        ops.append(Op(len(ops), len(ops), process, kind, f, value, None, extra))
    return ops


MICRO_FS = ("send", "poll", "txn")


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_same_witnesses(steps: list[Any]) -> None:
    ops = _ops(steps)
    result = judge(in_memory(ingest.of_ops(ops)), CheckOptions(jepsen_compatible=True))
    found = {
        anomaly.name: {shaped(anomaly.name, dict(witness)) for witness in anomaly.witnesses}
        for anomaly in result.anomalies
        if anomaly.name not in ("unseen", "empty-transaction-graph")
    }
    assert found == Plain(ops).answer()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_native_rules_answer_too(steps: list[Any]) -> None:
    """Natively no history is a crash, and nothing is found that Jepsen's rules do not know."""
    ops = _ops(steps)
    native = judge(in_memory(ingest.of_ops(ops)), CheckOptions())
    plain = Plain(ops).answer()
    for anomaly in native.anomalies:
        assert anomaly.name in plain or anomaly.name in ("unseen", "torn-transaction", "nonmonotonic-send")
