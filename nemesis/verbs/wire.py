"""wire: requests are held, lost, repeated or cut off on their way, by what they ask for.

A proxy that understands Kafka's protocol stands between clients and brokers (`harness.cluster.local.wire_faults`).
A packet filter cannot choose the end of a transaction among the packets of a connection; this can. Each
target is a set of rules with a name, or one rule written out (`wire:action=hold;api=EndTxn;for_s=3`).
Evidence: how often the rules were applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Wire
from harness.model.errors_and_exit_codes import BadInput
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.model.wire_rules import (
    CUT,
    DELAY,
    DROP,
    DUPLICATE,
    HOLD,
    PRODUCER,
    REORDER,
    RESPONSE,
    Rule,
    RuleCounts,
    rule_in,
)
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.admin_fault import Changed, Kept
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.verb import Verb

END: Final = "wire-clear"
_OFFSETS: Final = ("OffsetCommit", "TxnOffsetCommit")
_GROUPS: Final = ("JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat")
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
    """Rules with a name, and what they come to."""

    what: str
    rules: tuple[Rule, ...]


PRESETS: Final[Mapping[str, Preset]] = {
    "late-endtxn": Preset(
        "Ends of transactions, which arrive in the next one: the connection is cut, the client asks again, "
        "and the first request goes on once the next transaction has written (KAFKA-17754)",
        (_LATE,),
    ),
    "hold-endtxn": Preset(
        "A tenth of the ends of transactions, held for longer than a client waits",
        (Rule(HOLD, ("EndTxn",), probability=0.1, for_s=6.0, in_turn=True),),
    ),
    "cut-after-endtxn": Preset(
        "Half of the ends of transactions, which arrive while their connection is cut",
        (Rule(CUT, ("EndTxn",), probability=0.5),),
    ),
    "lose-acks": Preset(
        "A tenth of the answers to produce requests, and all that follow them on their connection: stored, "
        "not acknowledged",
        (Rule(DROP, ("Produce",), RESPONSE, probability=0.1),),
    ),
    "cut-after-produce": Preset(
        "A tenth of the produce requests, which arrive while their connection is cut",
        (Rule(CUT, ("Produce",), probability=0.1),),
    ),
    "drop-produce": Preset(
        "A tenth of the produce requests, and all that follow them on their connection",
        (Rule(DROP, ("Produce",), probability=0.1),),
    ),
    "duplicate-produce": Preset(
        "A fifth of the produce requests, each of which arrives twice",
        (Rule(DUPLICATE, ("Produce",), probability=0.2),),
    ),
    "reorder-produce": Preset(
        "A fifth of the produce requests, which let one of another connection pass",
        (Rule(REORDER, ("Produce",), probability=0.2, for_s=1.0),),
    ),
    "delay-fetch": Preset(
        "Fetch requests, each held for 0.3 s",
        (Rule(DELAY, ("Fetch",), for_s=0.3),),
    ),
    "delay-offsets": Preset(
        "Commits of consumer offsets, each held for 0.5 s",
        (Rule(DELAY, _OFFSETS, for_s=0.5),),
    ),
    "drop-joins": Preset(
        "Half of the answers to consumers that join a group, and all that follow them; consumers must "
        "subscribe (`--sub-via subscribe`)",
        (Rule(DROP, _GROUPS, RESPONSE, probability=0.5),),
    ),
    "delay-all": Preset(
        "Every request, each held for 0.1 s",
        (Rule(DELAY, for_s=0.1),),
    ),
    "silence": Preset(
        "Every request and every answer: clients and brokers are cut off from each other, also where there "
        "is no network to cut",
        (Rule(DROP), Rule(DROP, direction=RESPONSE)),
    ),
}


def _begin(name: str, rules: Sequence[Rule], env: Env, kept: Kept) -> dict[str, Any]:
    nodes, cluster = env.cluster.nodes, env.cluster
    assert isinstance(cluster, Wire)
    kept.append(name)
    cluster.apply_rules(name, rules, env.draw.bits())
    seen = wait_for(lambda: _applied(cluster.rule_counts(name)), effect_s(env))
    named = {rule.node for rule in rules if rule.node}
    return hit(sorted(named) or list(nodes), seen is not None)


def _applied(counts: Sequence[RuleCounts]) -> int:
    return sum(each.applied for each in counts)


def _end(env: Env, name: str) -> dict[str, Any]:
    """What the rules had done, and what passed the proxy that it did not understand."""
    assert isinstance(env.cluster, Wire)
    counts = env.cluster.clear_rules(name)
    traffic = env.cluster.wire_traffic()
    strange = {key: value for key in ("unparsed", "unknown") if (value := getattr(traffic, key))}
    found = [asdict(each) for each in counts]
    return {
        "took_effect": _applied(counts) > 0,
        "rules": found,
        **({"untouched": strange} if strange else {}),
    }


def _fault(target: str, timing: Timing) -> Fault:
    rules = PRESETS[target].rules if target in PRESETS else (rule_in(target),)
    return _of(f"wire:{target}", target, rules, timing)


def _of(name: str, target: str, rules: Sequence[Rule], timing: Timing) -> Fault:
    begin, end = fault_op("wire", name, target, "start"), fault_op(END, name, target, "stop")
    nemesis = Changed("wire", END, partial(_begin, name, rules), _end)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (Wire,))


def _written(text: str, nodes: Sequence[str]) -> None:
    node = rule_in(text).node
    if node and node not in nodes:
        raise BadInput(f"there is no node {node!r}: the nodes are {', '.join(nodes)}")


VERB: Final = Verb(
    "hold, lose, repeat or cut off requests on their way, by what they ask for",
    _fault,
    nodes=False,
    named={name: preset.what for name, preset in PRESETS.items()},
    written=_written,
)
