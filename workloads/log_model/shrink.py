"""Shrinks a list of actions that shows a divergence, by replaying shorter and simpler lists.

First, parts of the list are removed: large parts at first, single actions at the end (Zeller and Hildebrandt,
"Simplifying and Isolating Failure-Inducing Input", 2002). Then settings and arguments are simplified. Both steps are
repeated until neither changes anything. A new list is adopted only if it shows a divergence of the same kind. Nothing
is random, so the same list always has the same result. The number of replays is limited; when the limit is reached, the
result is the shortest list so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from harness.sim.log_model.action_types import ARGUMENTS, Action
from harness.sim.log_model.records import LogSettings
from workloads.log_model.session import Divergence

Replay = Callable[[LogSettings, Sequence[Action]], Divergence | None]
REPLAYS_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The shrunk list of actions, which shows the divergence at its last action, and the number of replays that were
    needed.
    """

    settings: LogSettings
    actions: tuple[Action, ...]
    found: Divergence
    replays: int


class _Search:
    def __init__(self, replay: Replay, settings: LogSettings, actions: Sequence[Action], what: str) -> None:
        self._replay, self._what = replay, what
        self.settings, self.actions = settings, tuple(actions)
        self.found: Divergence | None = None
        self.replays = 0

    def try_(self, settings: LogSettings, actions: Sequence[Action]) -> bool:
        """Replays a list. If it shows the same kind of divergence, adopts it, without the actions after the divergence.

        Returns whether the list was adopted.
        """
        if self.replays >= REPLAYS_MAX:
            return False
        self.replays += 1
        found = self._replay(settings, actions)
        if found is None or found.what != self._what:
            return False
        self.settings, self.actions, self.found = settings, tuple(actions[: found.at + 1]), found
        return True

    def leave_out(self) -> None:
        """Removes as many actions as possible: at first half of the list at once, at the end single actions."""
        size = max(len(self.actions) // 2, 1)
        while True:
            shorter, at = False, len(self.actions) - size
            while at > -size:
                low = max(at, 0)
                shorter |= self.try_(self.settings, self.actions[:low] + self.actions[at + size :])
                at = min(at, len(self.actions)) - size
            if size == 1 and not shorter:
                return
            size = size if size == 1 else size // 2

    def simplify(self) -> bool:
        """Tries to simplify settings and arguments. Returns whether anything changed."""
        before = (self.settings, self.actions)
        for settings in _plainer_settings(self.settings):
            self.try_(settings, [_on(action, settings) for action in self.actions])
        at = 0
        while at < len(self.actions):
            if not any(
                self.try_(self.settings, (*self.actions[:at], plainer, *self.actions[at + 1 :]))
                for plainer in _plainer(self.actions[at])
            ):
                at += 1
        return before != (self.settings, self.actions)


def shrink(replay: Replay, settings: LogSettings, actions: Sequence[Action]) -> Shrunk | None:
    """Shrinks the list of actions. Returns the shortest list found; None if the given list shows no divergence."""
    first = replay(settings, actions)
    if first is None:
        return None
    search = _Search(replay, settings, actions[: first.at + 1], first.what)
    search.leave_out()
    while search.simplify():
        search.leave_out()
    return Shrunk(search.settings, search.actions, search.found or first, search.replays + 1)


def _plainer_settings(settings: LogSettings) -> Iterator[LogSettings]:
    plain = LogSettings()
    for field in fields(LogSettings):
        value = getattr(plain, field.name)
        if getattr(settings, field.name) != value:
            yield replace(settings, **{field.name: value})


def _on(action: Action, settings: LogSettings) -> Action:
    """Returns the action on a partition that exists with these settings: its own partition, or else partition 0."""
    if action.args.get("partition", 0) < settings.partitions:
        return action
    return replace(action, args={name: value for name, value in action.args.items() if name != "partition"})


def _plainer(action: Action) -> Iterator[Action]:
    """Yields variants of the action, in each of which one argument is simpler. The simplest variants come first.

    No sequence of such simplifications returns to the original action, so repeated simplification ends.
    """
    for name, value in action.args.items():
        default = ARGUMENTS[action.f][name][1]
        if default is not ... and value != default:
            yield replace(action, args={key: other for key, other in action.args.items() if key != name})
        for plainer in _plainer_values(name, value):
            yield replace(action, args={**action.args, name: plainer})


def _plainer_values(name: str, value: Any) -> Iterator[Any]:
    if name == "records":
        for at in range(len(value)):
            if len(value) > 1:
                yield value[:at] + value[at + 1 :]
        for at, (key, text, age) in enumerate(value):
            for record in ([key, text, 0], [key, "v", age], ["k", text, age]):
                if record != value[at]:
                    yield [*value[:at], record, *value[at + 1 :]]
    elif name == "at" and isinstance(value, str) and value[-1] in "0123456789%":
        yield from ("start", "hw", "end")
        if value.endswith("%"):
            yield "hw-1"
    elif name in ("ms", "age", "max_bytes") and value > 1:
        yield 1
        if value > 10_000:
            yield 10_000
