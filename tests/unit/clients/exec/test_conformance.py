"""What the outcomes of the cases of `harness client check` say about a program."""

from __future__ import annotations

from harness.clients.exec import conformance
from harness.clients.exec.conformance import FAILED, KNOWN, PASSED, Outcome

CLAIMED = ("produce", "consume", "idempotence", "groups")
SENDS, GROUPS = "sends are answered with offsets", "a revocation comes in time to commit"


def usable(*outcomes: Outcome) -> set[str]:
    return {line.removesuffix(": yes") for line in conformance.workloads(CLAIMED, outcomes) if line.endswith(": yes")}


def test_a_program_can_be_used_for_what_its_failures_do_not_touch() -> None:
    everything = usable(Outcome(SENDS, PASSED), Outcome(GROUPS, PASSED))
    assert everything == {
        "--workload queue",
        "--workload delivery",
        "--sub-via subscribe",
        "--workload pipeline --pipeline-mode at-least-once",
    }
    assert usable(Outcome(SENDS, PASSED), Outcome(GROUPS, FAILED)) == {"--workload queue", "--workload delivery"}
    assert usable(Outcome(SENDS, FAILED), Outcome(GROUPS, PASSED)) == {"--sub-via subscribe"}
    assert usable(Outcome(SENDS, KNOWN), Outcome(GROUPS, KNOWN)) == everything


def test_a_known_failure_that_passes_is_reported() -> None:
    outcomes = (Outcome(SENDS, PASSED), Outcome(GROUPS, KNOWN))
    assert conformance.passed_unexpectedly(outcomes, {SENDS: "It did not.", GROUPS: "It does not."}) == [SENDS]
