"""Checks whether a client program follows docs/use/your-own-client.md, with `conformance_cases`, on running brokers.

A case is skipped if it needs a capability that the program does not claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from harness.clients.exec.adapter import CAPABILITIES, Exec
from harness.clients.exec.conformance_cases import CASES, Bench, Case, Failed
from harness.clients.exec.conformance_error_cases import ERROR_CASES
from harness.clients.settings import Settings
from harness.model.wire_rules import Rule
from harness.protocol.error_codes import ClientError

PASSED: Final = "passed"
FAILED: Final = "failed"
KNOWN: Final = "known"  # failed, as the program's description says of its library
SKIPPED: Final = "skipped"
PIPELINE: Final = ("produce", "consume", "idempotence", "groups")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case: passed, failed, skipped, or known (the library is known to fail it); and why."""

    name: str
    outcome: str
    why: str = ""


def check(
    argv: Sequence[str],
    bootstrap: str,
    make_topic: Callable[[str], None],
    apply_rules: Callable[[Sequence[Rule]], None] | None,
    user: str,
    environment: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
    only: str = "",
    known: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, Any], list[Outcome]]:
    """Runs the cases with a client program. Returns (its answer to `hello`, the outcome of each case).

    make_topic   creates a topic with two partitions, given its name
    apply_rules  replaces the rules by which a wire proxy changes responses; None: there is no proxy, so the cases in
                 which brokers report errors are skipped
    say          is called with a line of output for each case
    only         run only the cases whose name contains this text
    known        name of a case that the program's library is known to fail -> why it fails

    Raises ClientError if the program cannot be started, or does not answer `hello`.
    """
    greeted = Exec(argv, Settings(bootstrap=bootstrap, run="hello"), environment, user)
    try:
        greeted.running()
    finally:
        greeted.close()
    facts, outcomes = greeted.facts, []
    for number, case in enumerate(case for case in (*CASES, *ERROR_CASES) if only in case.name):
        missing = [each for each in case.needs if each not in facts["capabilities"]]
        if missing:
            outcomes.append(Outcome(case.name, SKIPPED, f"the program does not claim {', '.join(missing)}"))
        elif case in ERROR_CASES and apply_rules is None:
            outcomes.append(Outcome(case.name, SKIPPED, "the harness cannot change the responses of these brokers"))
        else:
            topic = f"conformance-{number}-{time.time_ns():x}"
            make_topic(topic)
            bench = Bench(argv, bootstrap, topic, user, environment, make_topic, _answers(apply_rules))
            outcome = _outcome(case, bench)
            if outcome.outcome == FAILED and case.name in known:
                outcome = Outcome(case.name, KNOWN, f"{known[case.name]} ({outcome.why})")
            outcomes.append(outcome)
        say(describe(outcomes[-1]))
    return facts, outcomes


def _answers(apply_rules: Callable[[Sequence[Rule]], None] | None) -> Callable[..., None]:
    def answer(*rules: Rule) -> None:
        assert apply_rules is not None
        apply_rules(rules)

    return answer


def _outcome(case: Case, bench: Bench) -> Outcome:
    try:
        with bench.stack:
            if case in ERROR_CASES:
                bench.stack.callback(bench.answer)
            case.run(bench)
    except (Failed, ClientError) as why:
        return Outcome(case.name, FAILED, str(why))
    return Outcome(case.name, PASSED)


def passed_unexpectedly(outcomes: Sequence[Outcome], known: Mapping[str, str]) -> list[str]:
    """Returns the names of cases that passed although they are known to fail."""
    return [each.name for each in outcomes if each.outcome == PASSED and each.name in known]


def describe(outcome: Outcome) -> str:
    """Returns the outcome of a case as a line for a terminal."""
    return f"  {outcome.outcome:8} {outcome.name}" + (f": {outcome.why}" if outcome.why else "")


def workloads(capabilities: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Returns a line for each way to use the program in a run, such as "--txn: yes" or "--txn: no".

    A capability that the program claims counts unless a case that needs it failed. Cases that its library is known to
    fail do not matter here, although runs may be invalid because of them.
    """
    broken = {
        need
        for case in (*CASES, *ERROR_CASES)
        for each in outcomes
        if each.name == case.name and each.outcome == FAILED
        for need in case.needs
    }
    usable = [each for each in CAPABILITIES if each in capabilities and each not in broken]
    rows = (
        ("--workload queue", ("produce", "consume")),
        ("--workload delivery", ("produce",)),
        ("--sub-via subscribe", ("groups",)),
        ("--sub-via subscribe --consumer-config group.protocol=consumer", ("groups-consumer",)),
        ("--txn", ("transactions", "consume")),
        ("--txn --sub-via subscribe", ("transactions", "groups", "send-offsets")),
        ("--workload pipeline", (*PIPELINE, "transactions", "send-offsets")),
        ("--workload pipeline --pipeline-mode at-least-once", PIPELINE),
    )
    return [f"{option}: {'yes' if set(needs) <= set(usable) else 'no'}" for option, needs in rows]
