"""Simulated share groups: the check finds every bug, and nothing in correct groups."""

from __future__ import annotations

import pytest

from harness.model import op_json
from harness.model.errors_and_exit_codes import BadInput
from harness.sim.share.bugs import BUGS
from harness.sim.share.run import simulate
from harness.sim.share.world import Shape
from tests.unit.sim.share import judged, shape_of

CALM = 0.002  # with more trouble, losses can often be explained by members that ended


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(bug: str, seed: int) -> None:
    shape = Shape(seed=seed, trouble=CALM, txn=bug == "aborted-visible")
    found = {anomaly.name for anomaly in judged(shape, frozenset({bug})).anomalies}
    assert BUGS[bug].shows in found
    assert found <= {BUGS[bug].shows} | BUGS[bug].may_show


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_found_in_correct_groups(seed: int) -> None:
    result = judged(shape_of(seed))
    assert result.anomalies == ()
    assert result.valid in ("valid", "unknown")
    assert all("delivery limit" in reason or "where share groups started" in reason for reason in result.reasons)


def test_a_seed_is_one_run() -> None:
    one, two, other = (simulate(Shape(seed=seed, load_s=2)) for seed in (1, 1, 2))
    assert list(map(op_json.encode, one)) == list(map(op_json.encode, two)) != list(map(op_json.encode, other))


def test_an_unknown_bug_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown bug nonsense; bugs are"):
        simulate(Shape(), frozenset({"nonsense"}))


def test_statistics_explain_redeliveries() -> None:
    figures = judged(Shape(seed=3, trouble=0.05, faults=2)).statistics["share"]
    assert figures["groups"] == ["g0"]
    assert figures["deliveries"] == sum(figures["redeliveries"].values()) + figures["records"]
    assert set(figures["redeliveries"]) >= {"released", "member ended"}
    assert figures["leader_moves"] == 2
    assert figures["after_release_ms"]["median"] <= figures["after_release_ms"]["max"]
    assert sum(figures["delivery_counts"].values()) == figures["records"]
