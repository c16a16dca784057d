"""wire: requests or responses of chosen Kafka APIs are held, dropped, duplicated, cut off or answered with an error.

A proxy between clients and brokers parses Kafka's protocol (`harness.cluster.local.wire_faults`). Unlike a packet
filter, the proxy can select, for example, the EndTxn requests of a connection. A target is a named set of rules, or a
single rule that is written out, as in `wire:action=hold;api=EndTxn;for_s=3`. The rules are removed later. Evidence: how
often the rules were applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Wire
from harness.model.errors_and_exit_codes import BadInput
from harness.model.fault_and_generator_protocols import CONSUMER_GROUP, TRANSACTIONS, Env, Fault
from harness.model.wire_rules import (
    ANSWER,
    CUT,
    DELAY,
    DROP,
    DUPLICATE,
    HOLD,
    PRODUCER,
    REORDER,
    RESPONSE,
    SWAP,
    Rule,
    RuleCounts,
    rule_in,
)
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, UndoSteps
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.verb import Verb

END: Final = "wire-clear"
_OFFSETS: Final = ("OffsetCommit", "TxnOffsetCommit")
_GROUPS: Final = ("JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat")
_TXN: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
# Requests that clients send only if the load has this use.
_REQUESTS_OF_USE: Final = {
    TRANSACTIONS: {"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"},
    CONSUMER_GROUP: {*_GROUPS, "Heartbeat", "LeaveGroup"},
}
_LATE: Final = Rule(
    HOLD,
    ("EndTxn",),
    until=("Produce",),
    until_by=PRODUCER,
    cut=True,
    in_turn=True,
    for_s=5.0,
)


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of rules, and its description."""

    what: str
    rules: tuple[Rule, ...]


PRESETS: Final[Mapping[str, Preset]] = {
    "late-endtxn": Preset(
        "EndTxn requests that arrive only during the next transaction: the connection is cut, the client retries, and "
        "the first request is forwarded once the next transaction has written (KAFKA-17754)",
        (_LATE,),
    ),
    "hold-endtxn": Preset(
        "A tenth of the EndTxn requests, held for longer than a client waits",
        (Rule(HOLD, ("EndTxn",), probability=0.1, for_s=6.0, in_turn=True),),
    ),
    "cut-after-endtxn": Preset(
        "Half of the EndTxn requests: they arrive, but their connection is cut before the response",
        (Rule(CUT, ("EndTxn",), probability=0.5),),
    ),
    "lose-acks": Preset(
        "A tenth of the Produce responses, and all later responses of their connection: the records are stored but not "
        "acknowledged",
        (Rule(DROP, ("Produce",), RESPONSE, probability=0.1),),
    ),
    "cut-after-produce": Preset(
        "A tenth of the Produce requests: they arrive, but their connection is cut before the response",
        (Rule(CUT, ("Produce",), probability=0.1),),
    ),
    "drop-produce": Preset(
        "A tenth of the Produce requests, and all later requests of their connection, dropped",
        (Rule(DROP, ("Produce",), probability=0.1),),
    ),
    "duplicate-produce": Preset(
        "A fifth of the Produce requests: each arrives twice",
        (Rule(DUPLICATE, ("Produce",), probability=0.2),),
    ),
    "reorder-produce": Preset(
        "A fifth of the Produce requests: each is overtaken by a Produce request on another connection",
        (Rule(REORDER, ("Produce",), probability=0.2, for_s=1.0),),
    ),
    "swap-produce": Preset(
        "A fifth of the Produce requests: each is overtaken by the next request on its connection; clients must have "
        "several requests in flight (`--txn`, or `--workload delivery`)",
        (Rule(SWAP, ("Produce",), probability=0.2, for_s=0.1),),
    ),
    "delay-fetch": Preset(
        "Every Fetch request, delayed by 0.3 s",
        (Rule(DELAY, ("Fetch",), for_s=0.3),),
    ),
    "delay-offsets": Preset(
        "Every OffsetCommit and TxnOffsetCommit request, delayed by 0.5 s",
        (Rule(DELAY, _OFFSETS, for_s=0.5),),
    ),
    "drop-joins": Preset(
        "Half of the JoinGroup, SyncGroup and ConsumerGroupHeartbeat responses, and all later responses of their "
        "connection, dropped; consumers must subscribe (`--sub-via subscribe`)",
        (Rule(DROP, _GROUPS, RESPONSE, probability=0.5),),
    ),
    "refuse-produce": Preset(
        "A tenth of the Produce requests: they do not arrive, and the clients get NOT_LEADER_OR_FOLLOWER",
        (Rule(ANSWER, ("Produce",), probability=0.1, error="NOT_LEADER_OR_FOLLOWER"),),
    ),
    "refuse-coordinator": Preset(
        "A tenth of the requests to group and transaction coordinators: they do not arrive, and the clients get "
        "NOT_COORDINATOR",
        (Rule(ANSWER, (*_TXN, *_OFFSETS, "Heartbeat", "JoinGroup"), probability=0.1, error="NOT_COORDINATOR"),),
    ),
    "time-out-produce": Preset(
        "A tenth of the Produce responses: they report REQUEST_TIMED_OUT, although the records are stored",
        (Rule(ANSWER, ("Produce",), RESPONSE, probability=0.1, error="REQUEST_TIMED_OUT"),),
    ),
    "delay-all": Preset(
        "Every request, delayed by 0.1 s",
        (Rule(DELAY, for_s=0.1),),
    ),
    "silence": Preset(
        "Every request and every response, dropped: cuts clients off from brokers even on a cluster without network "
        "faults",
        (Rule(DROP), Rule(DROP, direction=RESPONSE)),
    ),
}


def _begin(name: str, rules: Sequence[Rule], env: Env, undo_steps: UndoSteps) -> dict[str, Any]:
    nodes, cluster = env.cluster.nodes, env.cluster
    assert isinstance(cluster, Wire)
    undo_steps.append(name)
    cluster.apply_rules(name, rules, env.draw.bits())
    seen = wait_for(lambda: _applied(cluster.rule_counts(name)), effect_s(env))
    named = {rule.node for rule in rules if rule.node}
    return hit(sorted(named) or list(nodes), seen is not None)


def _applied(counts: Sequence[RuleCounts]) -> int:
    return sum(each.applied for each in counts)


def _end(env: Env, name: str) -> dict[str, Any]:
    """Removes the rules. Returns how often each rule was applied, and how much traffic the proxy could not parse."""
    assert isinstance(env.cluster, Wire)
    counts = env.cluster.clear_rules(name)
    traffic = env.cluster.wire_traffic()
    unparsed = {key: value for key in ("unparsed", "unknown") if (value := getattr(traffic, key))}
    found = [{name: count for name, count in asdict(each).items() if name != "last_s"} for each in counts]
    return {
        "took_effect": _applied(counts) > 0,
        "rules": found,
        **({"untouched": unparsed} if unparsed else {}),
    }


def _fault(target: str, timing: Timing) -> Fault:
    rules = PRESETS[target].rules if target in PRESETS else (rule_in(target),)
    return _of(f"wire:{target}", target, rules, timing)


def _of(name: str, target: str, rules: Sequence[Rule], timing: Timing) -> Fault:
    begin, end = fault_op("wire", name, target, "start"), fault_op(END, name, target, "stop")
    nemesis = Changed("wire", END, partial(_begin, name, rules), _end)
    apis = {api for rule in rules for api in rule.api}
    acts_on = frozenset(use for use, requests in _REQUESTS_OF_USE.items() if apis and apis <= requests)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (Wire,), acts_on=acts_on)


def _written(text: str, nodes: Sequence[str]) -> None:
    node = rule_in(text).node
    if node and node not in nodes:
        raise BadInput(f"no such node: {node!r}; the nodes are {', '.join(nodes)}")


VERB: Final = Verb(
    "hold, drop, duplicate, swap or cut off requests and responses of chosen Kafka APIs, or answer requests with an "
    "error; the rules are removed later",
    _fault,
    nodes=False,
    named={name: preset.what for name, preset in PRESETS.items()},
    written=_written,
)
