"""Experiments as YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.experiments import spec
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import make_plan
from harness.run import attached_cluster

HEAD = "title: t\nwhy: w\nsource: s\n"


def written(tmp_path: Path, text: str, head: str = HEAD) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(head + text)
    return path


@pytest.mark.parametrize("name", spec.every())
def test_ours_can_be_read_and_planned(name: str) -> None:
    found = spec.named(name)
    assert found.cases
    for case in found.cases:
        assert case.test_plan(7).seed == 7
        assert case.expect.texts


def test_a_case_is_over_the_file_or_an_earlier_case(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "plan: {acks: all, broker_config: {a: '1', b: '2'}}\n"
        "expect: {never: [invalid]}\n"
        "cases:\n"
        "  - {name: one, plan: {rate_hz: 5}}\n"
        "  - {name: two, like: one, plan: {broker_config: {b: '3'}}, expect: {shows: {G1a: 0.5}}, runs: 2}\n"
        "variants:\n"
        "  slow: {plan: {rate_hz: 1}, runs: 9, cases: [two]}\n",
    )
    one, two, slow = spec.load(path).cases
    assert (one.plan["rate_hz"], one.plan["acks"], one.runs) == (5, "all", 5)
    assert (two.plan["rate_hz"], two.plan["broker_config"], two.runs) == (5, {"a": "1", "b": "3"}, 2)
    assert two.expect.texts == ["G1a in 50% of the runs"]
    assert (slow.name, slow.variant, slow.plan["rate_hz"], slow.runs) == ("two", "slow", 1, 9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "plan: {ackz: all}\nexpect: {never: [G1a]}\n",
            "mine.yaml:4:8: ackz: no such key; did you mean acks",
        ),
        ("plan: {rate_hz: -1}\nexpect: {never: [G1a]}\n", "mine.yaml:4:17: rate_hz -1"),
        ("expekt: {never: [G1a]}\n", "mine.yaml:4:1: expekt: no such key; did you mean expect"),
        ("expect: {shows: {G1a: 1}, never: [G1a]}\n", "both expected and forbidden"),
        ("expect: {shows: {G1a: 1}, never: [invalid]}\n", "both expected and forbidden"),
        ("expect: {any_of: [G1a, unseen], never: [G1a]}\n", "both expected and forbidden"),
        ("expect: {any_of: [G1a, unseen], never: [invalid]}\n", "both expected and forbidden"),
        ("expect: {any_of: [G1a]}\n", "any_of contains only G1a"),
        ("expect: {shows: {G1a: 2}}\n", "not a share of the runs"),
        ("expect: {figures: {lost: many}}\n", "not a comparison"),
        ("expect: {}\n", "nothing is expected"),
        ("plan: {}\n", "has no expectations"),
        ("expect: {never: [G1a]}\ncases: [{name: a}, {name: a}]\n", "there is already a case a"),
        ("expect: {never: [G1a]}\ncases: [{name: a, like: b}]\n", "no earlier case"),
        ("expect: {never: [G1a]}\ncases: [{name: a}]\nvariants: {v: {cases: [b]}}\n", "no case b"),
    ],
)
def test_mistakes_are_reported_with_their_position(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        spec.load(written(tmp_path, text))
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "mine.yaml"))


def test_a_late_end_of_a_transaction_shows_as_one_or_the_other() -> None:
    bad, fixed = spec.named("kafka-17754").cases
    assert bad.expect.texts == ["G1a or torn-transaction"]
    assert fixed.expect.texts == ["nothing invalid"]


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean delivery-study"):
        spec.named("delivery-studi")


def test_a_cluster_that_stays_is_for_cases_that_want_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_cluster, "plan_of", lambda name: make_plan.make({"kafka_version": "3.9", "seed": 1}))
    on = spec.named("acks-1", None).cases[0].on("local:warm").plan
    assert on["cluster"] == "local:warm"
    assert on["kafka_version"] == make_plan.make({"kafka_version": "3.9", "seed": 1}).kafka_version
    for name in ("no-fsync", "kafka-17754", "librdkafka-2.1.0", "bootstrap-unsynced", "replication-1"):
        assert all("cluster" not in case.on("local:warm").plan for case in spec.named(name, None).cases)
    with pytest.raises(BadInput, match="must be local:NAME"):
        spec.named("acks-1", None).cases[0].on("local")
