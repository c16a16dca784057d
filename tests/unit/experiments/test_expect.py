"""Agreement of results with expectations."""

from __future__ import annotations

import pytest

from harness.experiments.expectations import ANY, Expectation, figure, holds, over, wilson
from harness.model.check_result import AnomalyFound, Result, Verdict
from harness.model.errors_and_exit_codes import BadInput


def result(valid: Verdict, *bad: str, **figures: object) -> Result:
    found = tuple(AnomalyFound(name, "", 1, True, None) for name in bad)
    return Result(valid, None, (), found, figures, "0")


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(5, 5, 0.566, 1.0), (0, 5, 0.0, 0.434), (9, 10, 0.596, 0.982), (0, 0, 0.0, 1.0)],
)
def test_wilson(k: int, n: int, low: float, high: float) -> None:
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-4)


def test_every_expectation_is_answered_in_order() -> None:
    expected = Expectation({"lost-write": 1}, ("duplicate", ANY), {"delivery.phantoms": "== 10"})
    assert expected.texts == ["lost-write", "no duplicate", "nothing invalid", "delivery.phantoms == 10"]
    assert expected.seen(result("invalid", "lost-write", delivery={"phantoms": 10})) == [
        True,
        True,
        False,
        True,
    ]
    assert expected.seen(result("valid", delivery={"phantoms": 9})) == [False, True, True, False]
    assert expected.seen_refusal("anything") == [False] * 4


def test_one_of_several_in_each_run() -> None:
    expected = Expectation({"lost-write": 1}, ("duplicate",), any_of=("G1a", "torn-transaction"))
    assert expected.texts == ["lost-write", "G1a or torn-transaction", "no duplicate"]
    assert expected.anomalies == ("lost-write", "G1a", "torn-transaction")
    runs = [result("invalid", "lost-write", "G1a"), result("invalid", "torn-transaction"), result("valid")]
    answers = [expected.seen(run) for run in runs]
    assert answers == [[True, True, True], [False, True, True], [False, False, True]]
    assert [seen.agrees for seen in over(expected, answers[:2])] == [False, True, True]
    assert [seen.agrees for seen in over(expected, answers)] == [False, False, True]
    assert expected.seen_refusal("anything") == [False] * 3
    seen_only = Result("valid", None, (), (AnomalyFound("G1a", "", 1, False, None),), {}, "0")
    assert expected.seen(seen_only)[1] is False  # found, but does not count


def test_a_refusal_is_expected_by_its_text() -> None:
    expected = Expectation(refused="fetch.wait")
    assert expected.seen_refusal("replica.fetch.wait.max.ms is above") == [True]
    assert expected.seen_refusal("out of memory") == [False]
    assert expected.seen(result("valid")) == [False]


def test_always_means_always_and_often_allows_for_chance() -> None:
    always = Expectation({"G1a": 1}, ("duplicate",))
    assert [seen.agrees for seen in over(always, [[True, True]] * 5)] == [True, True]
    assert [seen.agrees for seen in over(always, [[True, True]] * 4 + [[False, False]])] == [False, False]
    often = Expectation({"G1a": 0.5})
    assert over(often, [[True]] + [[False]] * 4)[0].agrees
    assert not over(often, [[False]] * 10)[0].agrees
    assert not over(often, [])[0].agrees


def test_figures_are_found_by_path_and_compared() -> None:
    assert figure({"a": {"b": 3}}, "a.b") == 3
    assert figure({"a": {"b": 3}}, "a.c.d") == 0
    assert holds(3, ">= 3") and not holds(3, "!= 3") and holds(2.5, "< 3")
    with pytest.raises(BadInput, match="not a comparison"):
        holds(3, "about 3")
