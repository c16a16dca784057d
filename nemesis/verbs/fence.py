"""fence: another producer takes over the transactional ids of clients, whose own producers are then refused.

This happens when two instances of an application get the same `transactional.id`, or when a new instance starts while
the old one still runs. The coordinator raises the producer epoch and aborts the open transaction; no record of the old
producer may become visible afterwards. The new producer sends nothing. Evidence: the new producer epochs in the
coordinator's answers. Source: KIP-98 (zombie fencing), KIP-664 (ListTransactions).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from harness.generator import NOTHING
from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import TRANSACTIONS, Env, Fault
from nemesis.schedule.timing import Timing, fault_op, repeated
from nemesis.shared.admin_fault import Requested, admin
from nemesis.shared.effects import hit
from nemesis.verb import Verb

ONE: Final = "one"
ALL: Final = "all"
ONGOING: Final = "Ongoing"


def _fence(target: str, env: Env) -> dict[str, Any]:
    states: dict[str, str] = admin(env, "transactional_ids")
    names = sorted(name for name, state in states.items() if state == ONGOING) or sorted(states)
    if target == ONE and names:
        names = [env.draw.choice(names)]
    epochs: dict[str, int] = admin(env, "fence", names=names) if names else {}
    found = {name: [states[name], epoch] for name, epoch in epochs.items()}
    return hit([], bool(epochs), fenced=found, **({} if names else {"errors": ["no client has a transactional id"]}))


def _fault(target: str, timing: Timing) -> Fault:
    name = f"fence:{target}"
    once = fault_op("fence", name, target, "")
    return Fault(
        name,
        Requested("fence", partial(_fence, target)),
        repeated(once, timing),
        NOTHING,
        (Brokers,),
        acts_on=frozenset({TRANSACTIONS}),
    )


VERB: Final = Verb(
    "let another producer take over the transactional ids of clients (`--txn`; Kafka 3.0 or later); not undone",
    _fault,
    nodes=False,
    named={
        ONE: "A client with an open transaction",
        ALL: "Every client with an open transaction",
    },
    short={"fence": "one"},
)
