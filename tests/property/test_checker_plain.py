"""The kernels agree with a plain, slow checker on small random histories, including nonsensical ones.

All of Jepsen's rules, including cycles, are compared by types and witnesses; see tests/unit/checker/plain.py and
plain_cycles.py. tests/unit/checker/test_plain.py compares the plain checker with Jepsen's own answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checker.check import judge
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from harness.model.check_options import CheckOptions
from harness.model.op import Op
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.run import simulate
from tests.property.small import bare, nearly_right, scheduled
from tests.unit.checker.jepsen import is_cycle
from tests.unit.checker.plain import Plain, shaped_all
from tests.unit.checker.plain_cycles import ALL, JEPSEN, Cycles, complaints

KEYS = st.integers(0, 2)
VALUES = st.integers(0, 6)
OFFSETS = st.one_of(st.integers(0, 7), st.none())
SEND = st.tuples(KEYS, st.tuples(OFFSETS, VALUES)).map(lambda kv: ["send", kv[0], list(kv[1])])
PAIRS = st.lists(st.tuples(st.integers(0, 7), VALUES).map(list), max_size=3)
POLL = st.dictionaries(KEYS, PAIRS, max_size=2).map(lambda polled: ["poll", [[k, v] for k, v in polled.items()]])
MICRO = st.tuples(st.sampled_from(["send", "poll", "txn"]), st.lists(st.one_of(SEND, POLL), min_size=1, max_size=3))
LISTS = st.tuples(st.sampled_from(["assign", "subscribe"]), st.lists(KEYS, max_size=3))
OTHERS = st.sampled_from([("crash", None), ("debug-topic-partitions", None)])
TYPES = st.sampled_from(["ok", "ok", "ok", "info", "fail", "open"])
REBALANCED = st.one_of(st.just({}), st.lists(KEYS, min_size=1).map(lambda k: {"rebalance_log": [{"keys": k}]}))
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        TYPES,
        st.one_of(MICRO, MICRO, MICRO, LISTS, OTHERS),
        REBALANCED,
        st.integers(0, 2),
    ),
    max_size=14,
)
SEEDS = 60  # per repetition

Witnesses = Mapping[str, Sequence[Mapping[str, Any]]]


def _ops(steps: list[Any]) -> list[Op]:
    """Polled and sent values may be of any type."""
    return scheduled(
        [
            (process, kind, f, bare(f, value) if kind == "open" else value, extra, hold)
            for process, kind, (f, value), extra, hold in steps
        ]
    )


def _found(ops: Sequence[Op], ww_deps: bool = True, kinds: Sequence[str] = JEPSEN) -> Witnesses:
    options = CheckOptions(jepsen_compatible=True, ww_deps=ww_deps, edges=frozenset(kinds))
    result = judge(in_memory(make_tables.of_ops(ops)), options)
    return {anomaly.name: anomaly.witnesses for anomaly in result.anomalies}


def _agree(ops: Sequence[Op], ww_deps: bool = True) -> None:
    found = _found(ops, ww_deps)
    plain = {
        name: shaped_all(name, witnesses)
        for name, witnesses in found.items()
        if not is_cycle(name) and name != "empty-transaction-graph"
    }
    assert plain == Plain(ops).answer()
    assert complaints(Cycles(ops, ww_deps), found) == []
    assert complaints(Cycles(ops, ww_deps, ALL), _found(ops, ww_deps, ALL)) == []


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.booleans())
def test_absurd_histories(steps: list[Any], ww_deps: bool) -> None:
    _agree(_ops(steps), ww_deps)


@pytest.mark.repeat(3, 200)
def test_random_logs(repetition: int) -> None:
    for seed in range(repetition * SEEDS, (repetition + 1) * SEEDS):
        _agree(nearly_right(seed), ww_deps=seed % 4 != 0)


@pytest.mark.parametrize("bug", [None, *BUGS])
@pytest.mark.repeat(1, 10)
def test_simulated_runs(bug: str | None, repetition: int) -> None:
    """Without final polls, so that some records are unseen."""
    bugs = frozenset({bug} if bug else ())
    _agree(simulate(repetition, ops=60, keys=3, bugs=bugs, final=repetition % 2 == 1))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_native_rules_answer_too(steps: list[Any]) -> None:
    """In native mode no history makes the checker crash, or finds anomalies unknown to Jepsen's rules."""
    ops = _ops(steps)
    native = judge(in_memory(make_tables.of_ops(ops)), CheckOptions())
    plain = Plain(ops, min).answer()  # in native mode the smallest value of an offset determines its index
    for anomaly in native.anomalies:
        known = anomaly.name in plain or is_cycle(anomaly.name)
        assert known or anomaly.name in ("unseen", "torn-transaction", "nonmonotonic-send", "phantom-read")
