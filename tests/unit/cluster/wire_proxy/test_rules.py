"""Rules as data, and the frames that they apply to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from harness.cluster.wire_proxy.rules import Rules, first
from harness.model.capabilities import Wire
from harness.model.errors_and_exit_codes import BadInput
from harness.model.wire_rules import BROKERS, CLIENTS, Rule, RuleCounts, rule_in, rule_of, rule_text
from harness.plan import schedule
from harness.protocol.request_head import Request
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.verbs import wire

END = Request(26, 1, 1, b"tx", True, True)
PRODUCE = Request(0, 9, 2, b"tx")


def applied(rules: Rules, request: Request, node: str = "n1", sender: str = CLIENTS) -> bool:
    return first(rules.requests, request, node, sender) is not None


def made(*rule: Rule) -> Rules:
    rules = Rules()
    rules.apply("r", rule, 7)
    return rules


def test_by_api_node_sender_and_commit() -> None:
    rules = made(Rule("drop", ("EndTxn",), node="n2", commit=False))
    abort = END._replace(commit=False)
    assert not applied(rules, abort, "n1")
    assert not applied(rules, END, "n2")
    assert not applied(rules, PRODUCE, "n2")
    assert not applied(rules, abort, "n2", BROKERS)
    assert applied(rules, abort, "n2")
    assert rules.counts("r") == [RuleCounts(1, 1)]


def test_count_and_probability() -> None:
    rules = made(Rule("drop", count=2))
    assert [applied(rules, PRODUCE) for _ in range(4)] == [True, True, False, False]
    assert rules.counts("r") == [RuleCounts(4, 2)]
    once, again = made(Rule("drop", probability=0.3)), made(Rule("drop", probability=0.3))
    hits = [applied(once, PRODUCE) for _ in range(1000)]
    assert 250 < sum(hits) < 350
    assert [applied(again, PRODUCE) for _ in range(1000)] == hits


def test_a_held_frame_waits_for_one_of_its_own_producer_and_its_retry_passes() -> None:
    rules = made(Rule("hold", ("EndTxn",), until=("Produce",), until_by="producer", in_turn=True, for_s=3))
    active = first(rules.requests, END, "n1", CLIENTS)
    assert active is not None
    held = rules.hold(active, END, 100.0, 1)
    assert held.until_s == 103.0
    assert not applied(rules, END)  # the retry
    assert applied(rules, END._replace(txn=b"other"))
    assert rules.released_by(PRODUCE._replace(txn=b"other"), 9) == []
    assert rules.released_by(PRODUCE, 9) == [held]
    assert held.until_s == 0.0
    rules.release(held, True)
    rules.release(held, False)
    assert rules.counts("r") == [RuleCounts(3, 2, 1, 0)]
    assert applied(rules, END)


def test_reordering_lets_one_of_another_connection_pass() -> None:
    rules = made(Rule("reorder", ("Produce",)))
    held = rules.hold(rules.requests[0], PRODUCE, 0.0, 1)
    assert rules.released_by(PRODUCE, 1) == []
    assert rules.released_by(END, 2) == []
    assert rules.released_by(PRODUCE, 2) == [held]


def test_cleared_rules_no_longer_apply() -> None:
    rules = made(Rule("drop"))
    rules.apply("other", [Rule("delay", ("Fetch",))], 1)
    assert len(rules.clear("r")) == 1
    assert not applied(rules, PRODUCE)
    assert rules.clear("r") == []
    assert len(rules.requests) == 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"action": "hold", "api": "EndTnx"}, "did you mean EndTxn"),
        ({"action": "hold", "until": ["Produse"]}, "did you mean Produce"),
        ({"action": "explode"}, "action must be one of hold"),
        ({"acton": "hold"}, "did you mean action"),
        ({}, "needs an action"),
        ({"action": "drop", "probability": 2}, "probability must be a number from 0 to 1"),
        ({"action": "drop", "probability": float("nan")}, "probability"),
        ({"action": "drop", "count": 0}, "count must be a whole number of at least 1"),
        ({"action": "drop", "count": 1.5}, "count"),
        ({"action": "delay", "for_s": None}, "for_s must be a number"),
        ({"action": "duplicate", "direction": "response"}, "can duplicate requests only"),
        ({"action": "swap", "direction": "response"}, "can swap requests only"),
        ({"action": "drop", "cut": True}, "needs action: hold and direction: request"),
        ({"action": "drop", "until": "Fetch"}, "needs action: hold"),
        ({"action": "drop", "commit": True}, "needs api: EndTxn"),
        ({"action": "reorder"}, "needs an api"),
        ({"action": "drop", "api": 3}, "an API.s name or a list of names"),
        ({"action": "drop", "node": 1}, "a name such as n1"),
        ({"action": "hold", "in_turn": "yes"}, "true or false"),
    ],
)
def test_bad_rules_are_refused_by_name(data: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        rule_of(data)


@pytest.mark.parametrize("name", wire.PRESETS)
def test_every_preset_is_a_fault_and_its_rules_are_data(name: str) -> None:
    for rule in wire.PRESETS[name].rules:
        assert rule_of(asdict(rule)) == rule
    fault = wire.VERB.fault(name, Timing())
    assert fault.name == f"wire:{name}"
    assert fault.needs == (Wire,)


def test_a_rule_of_ones_own_is_a_fault_by_its_text() -> None:
    text = rule_text({"api": "Fetch", "action": "drop", "probability": 0.5, "node": "n2"})
    assert text == "action=drop;api=Fetch;node=n2;probability=0.5"
    assert table.canonical(f"kill:leader, wire:{text}", ["n1", "n2"]) == ("kill:leader", f"wire:{text}")
    (fault,) = table.faults([f"wire:{text}"], Timing())
    assert fault.name == f"wire:{text}" and fault.needs == (Wire,)


@pytest.mark.parametrize(
    "data",
    [
        {"action": "hold", "api": ("EndTxn", "Produce"), "commit": None, "until": "Fetch", "cut": True},
        {"action": "hold", "api": "EndTxn", "commit": False, "for_s": 2.5, "in_turn": True},
        {"action": "drop", "count": 3, "direction": "response"},
    ],
)
def test_a_rule_is_read_as_it_was_written(data: dict[str, Any]) -> None:
    data = {name: value for name, value in data.items() if value is not None}
    assert rule_in(rule_text(data)) == rule_of(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("action=hold;api=EndTx", "did you mean EndTxn"),
        ("actoin=hold", "no field 'actoin'"),
        ("action=drop;action=drop", "is not valid in a wire rule"),
        ("action=drop;", "is not valid in a wire rule"),
        ("action=drop;count=many", "a whole number of at least 1"),
        ("action=drop;node=n7", "the nodes are n1, n2"),
    ],
)
def test_a_rule_that_is_written_wrongly_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        table.canonical(f"wire:{text}", ["n1", "n2"])


def test_a_schedule_may_contain_a_wire_rule() -> None:
    line = schedule.Line.model_validate(
        {"fault": {"wire": {"action": "delay", "api": ["Fetch"], "for_s": 0.2}}, "at": "5s", "for": "3s"}
    )
    assert line.fault == "wire:action=delay;api=Fetch;for_s=0.2"
    with pytest.raises(ValueError, match="needs an action"):
        schedule.Line.model_validate({"fault": {"wire": {"api": "Fetch"}}, "at": "5s"})
    with pytest.raises(ValueError, match="write VERB:TARGET"):
        schedule.Line.model_validate({"fault": {"kill": "leader"}, "at": "5s"})
