"""The log model against the simulated log, with seeds and with Hypothesis; without bugs, and with each bug."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from harness.cli.app import invoke
from harness.model.randomness import Draw
from harness.sim.log_model.actions_as_text import parse
from harness.sim.log_model.bugs import LOG_BUGS
from workloads.log_model.draw_actions import (
    KINDS,
    RESTARTS_MAX,
    TOPIC_STEPS,
    WEIGHTS,
    draw_action,
    draw_settings,
    topics,
)
from workloads.log_model.search import replay, search, text
from workloads.log_model.session import Session, simulated

STEPS = 2000
CI_SEEDS, SOAK_SEEDS = 2, 20
# Few bits, so that shrinking is fast; the actions drawn from them differ enough.
BITS = st.integers(0, 1023)


@pytest.fixture(scope="module")
def seeds(request: pytest.FixtureRequest) -> range:
    return range(1, 1 + (SOAK_SEEDS if request.config.getoption("--soak") else CI_SEEDS))


def test_the_honest_log_never_diverges(seeds: range) -> None:
    assert [search(seed, STEPS, simulated(frozenset())) for seed in seeds] == [None] * len(seeds)


@pytest.mark.parametrize("bug", LOG_BUGS)
def test_each_bug_is_found_and_shrunk_to_a_short_program(bug: str, seeds: range) -> None:
    opened = simulated(frozenset({bug}))
    for seed in seeds:
        found = search(seed, STEPS, opened)
        assert found is not None and found.step <= STEPS, seed
        assert len(found.shrunk.actions) <= 12, text(found, [bug])
        again = parse(text(found, [bug]), "text")
        assert replay(opened, *again) == found.shrunk.found
        assert replay(simulated(frozenset()), *again) is None


def test_a_seed_is_one_list_and_weights_are_kept() -> None:
    first = list(topics(7, 600))
    assert first == list(topics(7, 600)) != list(topics(8, 600))
    assert [len(topic.actions) for topic in first] == [TOPIC_STEPS] * 4 + [100]
    restarts = [sum(action.f == "restart" for action in topic.actions) for topic in topics(7, 5000)]
    assert 0 < max(restarts) <= RESTARTS_MAX
    only = topics(7, 600, dict.fromkeys(WEIGHTS, 0) | {"append": 1, "read": 2})
    assert {action.f for topic in only for action in topic.actions} == {"append", "read"}


def test_the_command_prints_a_program_that_it_can_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.log"
    assert invoke(["model", "run", "--bug", "retry-appended", "--out", str(out)]) == 1
    assert out.read_text() in capsys.readouterr().out
    assert invoke(["model", "replay", str(out)]) == 1
    assert "2 actions, bugs retry-appended: divergence at action 2" in capsys.readouterr().out
    out.write_text(out.read_text().replace("# bugs", "# no bugs"))
    assert invoke(["model", "replay", str(out)]) == 0
    assert invoke(["model", "run", "--steps", "300", "--weights", "read=0"]) == 0
    assert invoke(["model", "run", "--weights", "reed=1"]) == 254
    assert invoke(["model", "replay", str(tmp_path / "absent")]) == 254


# --- with Hypothesis ------------------------------------------------------------------------------------


def machine(bugs: frozenset[str]) -> type[RuleBasedStateMachine]:
    """A state machine with the same actions, against a log with these bugs."""

    class LogMachine(RuleBasedStateMachine):
        session: Session

        @initialize(kind=st.sampled_from(KINDS), bits=BITS)
        def open(self, kind: str, bits: int) -> None:
            self.topic = draw_settings(Draw(bits), kind)
            self.session = Session(self.topic, simulated(bugs)(self.topic))
            self.restarts, self.n = 0, 0

        def act(self, f: str, bits: int) -> None:
            self.n += 1
            action = draw_action(Draw(bits), {f: 1}, self.topic, self.n)
            assert self.session.step(action) is None, action.text()

        @rule(f=st.sampled_from([f for f in WEIGHTS if f != "restart"]), bits=BITS)
        def step(self, f: str, bits: int) -> None:
            self.act(f, bits)

        @precondition(lambda self: self.restarts < 8)
        @rule(bits=BITS)
        def restart(self, bits: int) -> None:
            self.restarts += 1
            self.act("restart", bits)

    return LogMachine


def profile(examples: int, *phases: Phase) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=50,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=phases or tuple(Phase),
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> Iterator[int]:
    yield 5000 if request.config.getoption("--soak") else 40


def test_hypothesis_finds_nothing_in_the_honest_log(examples: int) -> None:
    run_state_machine_as_test(machine(frozenset()), settings=profile(examples))


def test_hypothesis_finds_a_bug_by_the_same_actions() -> None:
    with pytest.raises(AssertionError, match="retry"):
        run_state_machine_as_test(machine(frozenset({"retry-appended"})), settings=profile(1000, Phase.generate))
