"""Runs one topic of a log under test alongside the model: applies each action to both and compares the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.sim.log_model.action_types import Action, LogUnderTest, Outcome, resolve
from harness.sim.log_model.model import SimulatedLog
from harness.sim.log_model.partition import View
from harness.sim.log_model.records import LogSettings
from workloads.log_model.invariants import Step, broken
from workloads.log_model.ledger import Ledgers

Open = Callable[[LogSettings], LogUnderTest]


@dataclass(frozen=True, slots=True)
class Divergence:
    """A difference between a log and the model.

    at    the index of the action in the list
    what  the kind of difference
    seen  a description of what was observed
    """

    at: int
    what: str
    seen: str


class Session:
    """A comparison of a fresh topic of the log under test with a fresh model."""

    def __init__(self, settings: LogSettings, under_test: LogUnderTest) -> None:
        self.model, self._log = SimulatedLog(settings), under_test
        self._ledgers = Ledgers(settings, self.model.now)
        self._views = list(under_test.views())
        self._steps, self._previous = 0, ""

    def step(self, action: Action) -> Divergence | None:
        """Applies the action to the log under test and to the model. Returns the first divergence, or None.

        No further step is possible after a divergence.
        """
        exact = resolve(action, self.model.views())
        expected, got = self.model.apply(exact), self._log.apply(exact)
        views, wanted = list(self._log.views()), self.model.views()
        what, seen = self._judged(exact, got, views)
        if not what:
            what, seen = _compared(exact, expected, got, wanted, views)
        self._ledgers.take(exact, got, views)
        self._views, self._previous = views, action.f
        self._steps += 1
        return Divergence(self._steps - 1, what, seen) if what else None

    def _judged(self, action: Action, got: Outcome, views: Sequence[View]) -> tuple[str, str]:
        pairs = zip(self._views, views, self._ledgers.partitions, strict=True)
        return broken(
            [
                Step(action, got, before, after, at, ledger, self._ledgers, self._previous)
                for at, (before, after, ledger) in enumerate(pairs)
            ]
        )


def _compared(
    action: Action, expected: Outcome, got: Outcome, wanted: Sequence[View], views: Sequence[View]
) -> tuple[str, str]:
    if expected != got:
        return f"outcome of {action.f}", f"{action.text()}: {_outcome_text(got)}, the model: {_outcome_text(expected)}"
    for at, (want, view) in enumerate(zip(wanted, views, strict=True)):
        for name in View._fields:
            if getattr(want, name) != getattr(view, name):
                text = f"{getattr(view, name)}, the model: {getattr(want, name)}"
                return name.replace("_", " "), f"partition {at} after {action.text()}: {text}"
    return "", ""


def _outcome_text(outcome: Outcome) -> str:
    return outcome.error or str(outcome.value)


def run(settings: LogSettings, actions: Sequence[Action], under_test: Open) -> Divergence | None:
    """Applies the actions to a fresh topic and to a fresh model. Returns the first divergence, or None."""
    session = Session(settings, under_test(settings))
    for action in actions:
        if (found := session.step(action)) is not None:
            return found
    return None


def simulated(bugs: frozenset[str]) -> Open:
    """Returns the simulated log with these bugs enabled, as a log under test."""
    return lambda settings: SimulatedLog(settings, bugs)
