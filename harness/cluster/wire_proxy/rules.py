"""Which rule a frame falls under, and which held frames another one sets free. No sockets in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.model.randomness import Draw
from harness.model.wire_rules import APIS, HOLD, OTHERS, PRODUCER, REORDER, REQUEST, Rule, RuleCounts
from harness.protocol.request_head import Request


class Active:
    """A rule at work. `number` tells it from others with the same seed."""

    def __init__(self, rule: Rule, seed: int, number: int) -> None:
        self.rule = rule
        self.apis = frozenset(APIS[name] for name in rule.api)
        self.until = frozenset(APIS[name] for name in rule.until)
        if rule.action == REORDER:
            self.until = self.apis
        self.until_by = OTHERS if rule.action == REORDER else rule.until_by
        self.requests = rule.direction == REQUEST
        self.matched = self.applied = self.released = self.lost = 0
        self.busy: set[bytes] = set()  # transactional ids of which a frame is held
        self._draw = Draw.of(seed, "wire", number)

    def takes(self, request: Request, node: str, sender: str) -> bool:
        """Whether the rule is applied to this frame, and count it."""
        rule = self.rule
        if self.apis and request.api not in self.apis:
            return False
        if rule.sender != sender or (rule.node and rule.node != node):
            return False
        if rule.commit is not None and request.commit is not rule.commit:
            return False
        self.matched += 1
        if rule.count is not None and self.applied >= rule.count:
            return False
        if rule.in_turn and request.txn in self.busy:
            return False
        if rule.probability < 1.0 and self._draw.random() >= rule.probability:
            return False
        self.applied += 1
        return True

    def counts(self) -> RuleCounts:
        return RuleCounts(self.matched, self.applied, self.released, self.lost)


@dataclass(eq=False, slots=True)
class Held:
    """A frame that is kept back.

    until_s     when it goes, on the clock of the caller; another request's answer makes that now
    connection  number of the connection that it is on
    gone        it has been let go, or given up
    """

    active: Active
    request: Request
    until_s: float
    connection: int
    gone: bool = False


@dataclass(slots=True)
class Rules:
    """Rules by the name under which they were put there, and the frames that they hold."""

    active: dict[str, list[Active]] = field(default_factory=dict)
    waiting: list[Held] = field(default_factory=list)  # those that another request may set free
    requests: tuple[Active, ...] = ()
    responses: tuple[Active, ...] = ()

    def apply(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        """From now on these rules; those of the same name before them are forgotten."""
        self.active[name] = [Active(rule, seed, number) for number, rule in enumerate(rules)]
        self._index()

    def clear(self, name: str) -> list[Active]:
        """No such rules any more; what they were."""
        gone = self.active.pop(name, [])
        self._index()
        return gone

    def counts(self, name: str) -> list[RuleCounts]:
        return [active.counts() for active in self.active.get(name, [])]

    def _index(self) -> None:
        every = [active for group in self.active.values() for active in group]
        self.requests = tuple(active for active in every if active.requests)
        self.responses = tuple(active for active in every if not active.requests)

    def hold(self, active: Active, request: Request, now_s: float, connection: int) -> Held:
        """Note a frame as held."""
        held = Held(active, request, now_s + active.rule.for_s, connection)
        if active.rule.action in (HOLD, REORDER):
            if active.rule.in_turn and request.txn:
                active.busy.add(request.txn)
            if active.until:
                self.waiting.append(held)
        return held

    def let_go(self, held: Held, arrived: bool) -> None:
        """Note that a frame is held no more: sent, or given up because its connection had been closed."""
        if held.gone:
            return
        held.gone = True
        held.active.busy.discard(held.request.txn)
        if arrived:
            held.active.released += 1
        else:
            held.active.lost += 1
        if held in self.waiting:
            self.waiting.remove(held)

    def freed_by(self, request: Request, connection: int) -> list[Held]:
        """The held frames that go now because this request has been answered."""
        if not self.waiting:
            return []
        freed = [held for held in self.waiting if self._frees(held, request, connection)]
        for held in freed:
            held.until_s = 0.0
        return freed

    def _frees(self, held: Held, request: Request, connection: int) -> bool:
        active = held.active
        if request.api not in active.until:
            return False
        if active.until_by == PRODUCER:
            return bool(request.txn) and request.txn == held.request.txn
        return active.until_by != OTHERS or connection != held.connection


def first(actives: Sequence[Active], request: Request, node: str, sender: str) -> Active | None:
    """The first rule that is applied to a frame."""
    for active in actives:
        if active.takes(request, node, sender):
            return active
    return None
