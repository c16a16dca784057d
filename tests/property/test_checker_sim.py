"""The checker on simulated runs: a correct log has no anomalies, each bug yields its anomaly."""

from __future__ import annotations

import pytest

from checker.check import judge
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.run import simulate

HONEST_SEEDS = 20  # per repetition
BUG_SEEDS = 4

TXN = Settings(
    acks="all",
    idempotence=True,
    txn=True,
    isolation_level="read_committed",
    auto_offset_reset="earliest",
    replication=3,
    min_insync_replicas=2,
    unclean_election=False,
    commits_fenced=True,
)

PLAIN = Settings(txn=False, isolation_level="read_committed", auto_offset_reset="earliest", commits_fenced=True)


def _judge(seed: int, txn: bool, final: bool = True, bugs: frozenset[str] = frozenset()) -> Result:
    # Bugs strike at random moments, so a run with a bug must be long enough for it to strike.
    ops = simulate(seed, ops=(400 if bugs else 150) + seed % 200, txn=txn, final=final, bugs=bugs)
    settings = TXN if txn else PLAIN
    return judge(in_memory(make_tables.of_ops(ops)), CheckOptions(settings=settings, require_final_polls=final))


@pytest.mark.repeat(4, 50)
def test_honest_log_is_never_flagged(repetition: int) -> None:
    for seed in range(repetition * HONEST_SEEDS, (repetition + 1) * HONEST_SEEDS):
        result = _judge(seed, txn=seed % 2 == 0)
        flagged = [anomaly for anomaly in result.anomalies if anomaly.bad]
        assert (result.valid, flagged) == ("valid", []), seed


@pytest.mark.repeat(2, 25)
def test_honest_log_cut_short_is_never_invalid(repetition: int) -> None:
    """Without final polls much is unknown, and no anomaly is reported."""
    for seed in range(repetition * HONEST_SEEDS, (repetition + 1) * HONEST_SEEDS):
        assert _judge(seed, txn=seed % 2 == 0, final=False).valid != "invalid", seed


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.repeat(1, 25)
def test_each_bug_yields_its_anomaly(bug: str, repetition: int) -> None:
    for seed in range(repetition * BUG_SEEDS, (repetition + 1) * BUG_SEEDS):
        result = _judge(seed, txn=True, bugs=frozenset({bug}))
        found = {anomaly.name for anomaly in result.anomalies if anomaly.bad}
        assert found >= BUGS[bug].shows, seed
        assert found <= BUGS[bug].shows | BUGS[bug].may_show, seed
        assert (result.valid, result.promised) == ("invalid", True), seed
