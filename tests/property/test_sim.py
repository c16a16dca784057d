"""An honest simulated log is never flagged; each bug shows its anomaly; a seed gives one history."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.sim.queue.bugs import BUGS
from harness.sim.queue.run import simulate
from harness.sim.queue.world import Trouble
from tests.unit.sim.oracle import anomalies

SEEDS = st.integers(0, 2**63 - 1)
VIA = st.sampled_from([("assign",), ("subscribe",), ("assign", "subscribe")])
NOT_BAD = {"int-send-skip"}  # other transactions write in between

runs = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@runs
@given(
    seed=SEEDS,
    ops=st.integers(0, 250),
    processes=st.integers(1, 7),
    keys=st.integers(1, 9),
    txn=st.booleans(),
    via=VIA,
    length_max=st.integers(1, 6),
    trouble=st.sampled_from([Trouble(), Trouble(0.0, 0.0), Trouble(0.2, 0.1)]),
)
def test_an_honest_log_shows_nothing(
    seed: int,
    ops: int,
    processes: int,
    keys: int,
    txn: bool,
    via: tuple[str, ...],
    length_max: int,
    trouble: Trouble,
) -> None:
    found = simulate(seed, ops, processes, keys, txn, sub_via=via, length_max=length_max, trouble=trouble, crash_p=0.05)
    assert anomalies(found) - NOT_BAD == set()


@pytest.mark.parametrize("name", BUGS)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS, txn=st.booleans())
def test_each_bug_shows_what_it_says_and_nothing_else(name: str, seed: int, txn: bool) -> None:
    bug = BUGS[name]
    found = anomalies(simulate(seed, ops=400, txn=txn or bug.needs_txn, bugs=frozenset({name})))
    assert bug.shows <= found
    assert found - bug.shows - bug.may_show <= NOT_BAD


@runs
@given(seed=SEEDS, txn=st.booleans(), bugs=st.frozensets(st.sampled_from(sorted(BUGS)), max_size=4))
def test_a_seed_gives_one_history(seed: int, txn: bool, bugs: frozenset[str]) -> None:
    first = simulate(seed, ops=80, txn=txn, bugs=bugs)
    assert first == simulate(seed, ops=80, txn=txn, bugs=bugs)
    assert first != simulate(seed + 1, ops=80, txn=txn, bugs=bugs)
