"""Decides which rule applies to a frame, and which held frames a request releases. Uses no sockets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.model.randomness import Draw
from harness.model.wire_rules import (
    ANSWER,
    APIS,
    HOLD,
    OTHERS,
    PRODUCER,
    REORDER,
    REQUEST,
    SWAP,
    WATCH,
    Rule,
    RuleCounts,
)
from harness.protocol.request_head import Request


class ActiveRule:
    """A rule in effect.

    seed, number  determine the random choices; rules that take effect together have one seed, but different numbers
    """

    def __init__(self, rule: Rule, seed: int, number: int) -> None:
        self.rule = rule
        self.apis = frozenset(APIS[name] for name in rule.api)
        self.until = frozenset(APIS[name] for name in rule.until)
        if rule.action == REORDER:
            self.until = self.apis
        self.until_by = OTHERS if rule.action == REORDER else rule.until_by
        self.requests = rule.direction == REQUEST
        self.matched = self.applied = self.released = self.lost = 0
        self.last_s = 0.0
        self.undecided = 0  # frames that wait for another to be swapped with
        self.busy: set[bytes] = set()  # transactional ids that have a held frame
        self._draw = Draw.of(seed, "wire", number)
        self._complained = False

    def takes(self, request: Request, node: str, sender: str) -> bool:
        """Returns whether the rule applies to the request `request` or to its response; updates the rule's counts."""
        rule = self.rule
        if self.apis and request.api not in self.apis:
            return False
        if rule.action == ANSWER and not request.answered:
            return False
        if rule.sender != sender or (rule.node and rule.node != node):
            return False
        if rule.commit is not None and request.commit is not rule.commit:
            return False
        self.matched += 1
        if rule.count is not None and self.applied + self.undecided >= rule.count:
            return False
        if rule.in_turn and request.txn in self.busy:
            return False
        if rule.probability < 1.0 and self._draw.random() >= rule.probability:
            return False
        self.last_s = time.time()
        self.applied += rule.action != SWAP  # a swap counts only once another request has come
        return True

    def not_applied(self, why: str) -> None:
        """Records that the rule's answer could not be made, so the rule changed nothing. Logs only the first `why`."""
        self.applied -= 1
        if not self._complained:
            self._complained = True
            print(f"cannot answer {'|'.join(self.rule.api)} with {self.rule.error}: {why}", flush=True)

    def counts(self) -> RuleCounts:
        return RuleCounts(self.matched, self.applied, self.released, self.lost, self.last_s)


@dataclass(eq=False, slots=True)
class HeldFrame:
    """A frame that is held back.

    until_s     time at which the frame will be forwarded, on the caller's clock; 0 once the frame has been released
    connection  number of the frame's connection
    done        whether the frame has been forwarded or discarded
    swapped     whether another frame has overtaken this one because of a rule that swaps
    """

    active: ActiveRule
    request: Request
    until_s: float
    connection: int
    done: bool = False
    swapped: bool = False


@dataclass(slots=True)
class Rules:
    """The rules in effect, by name, and the frames that they hold."""

    active: dict[str, list[ActiveRule]] = field(default_factory=dict)
    waiting: list[HeldFrame] = field(default_factory=list)  # frames that another request may release
    requests: tuple[ActiveRule, ...] = ()
    responses: tuple[ActiveRule, ...] = ()

    def apply(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        """Puts rules into effect. They replace earlier rules with the same name."""
        self.active[name] = [ActiveRule(rule, seed, number) for number, rule in enumerate(rules)]
        self._index()

    def clear(self, name: str) -> list[ActiveRule]:
        """Removes the rules with this name; returns them."""
        removed = self.active.pop(name, [])
        self._index()
        return removed

    def counts(self, name: str) -> list[RuleCounts]:
        return [active.counts() for active in self.active.get(name, [])]

    def _index(self) -> None:
        every = [active for group in self.active.values() for active in group]
        self.requests = tuple(active for active in every if active.requests)
        self.responses = tuple(active for active in every if not active.requests)

    def hold(self, active: ActiveRule, request: Request, now_s: float, connection: int) -> HeldFrame:
        """Records that a rule holds a frame."""
        held = HeldFrame(active, request, now_s + active.rule.for_s, connection)
        if active.rule.action in (HOLD, REORDER):
            if active.rule.in_turn and request.txn:
                active.busy.add(request.txn)
            if active.until:
                self.waiting.append(held)
        active.undecided += active.rule.action == SWAP
        return held

    def release(self, held: HeldFrame, arrived: bool) -> None:
        """Records that a frame is no longer held.

        arrived  true: the frame has been forwarded; false: it was discarded, because its connection was closed
        """
        if held.done:
            return
        held.done = True
        held.active.busy.discard(held.request.txn)
        if held.active.rule.action == SWAP:
            held.active.undecided -= 1
            held.active.applied += held.swapped
        if arrived:
            held.active.released += 1
        else:
            held.active.lost += 1
        if held in self.waiting:
            self.waiting.remove(held)

    def released_by(self, request: Request, connection: int) -> list[HeldFrame]:
        """Releases the frames that waited for this request (`Rule.until`); returns these frames.

        request     a request that has been answered; if requests of its kind get no response, one that was forwarded
        connection  number of the connection on which `request` was sent
        """
        if not self.waiting:
            return []
        released = [held for held in self.waiting if self._frees(held, request, connection)]
        for held in released:
            held.until_s = 0.0
        return released

    def _frees(self, held: HeldFrame, request: Request, connection: int) -> bool:
        active = held.active
        if request.api not in active.until:
            return False
        if active.until_by == PRODUCER:
            return bool(request.txn) and request.txn == held.request.txn
        return active.until_by != OTHERS or connection != held.connection


def first(actives: Sequence[ActiveRule], request: Request, node: str, sender: str) -> ActiveRule | None:
    """Returns the first rule that applies to a frame; None if none does. Rules that only watch apply besides it."""
    for active in actives:
        if active.takes(request, node, sender) and active.rule.action != WATCH:
            return active
    return None
