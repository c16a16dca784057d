"""Schedules as users write them: their meaning, and messages about mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli.app import invoke
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, from_options, make_plan, plan_file, schedule, schedule_rules
from nemesis.schedule.entry import LEADER_CHANGE, LOG, SEGMENT_ROLL, TXN_OPEN, Entry, Trigger

NODES = ("n1", "n2", "n3")

WHOLE = """
- {fault: leader-kill, at: 10s, for: 6s}
- {fault: isolate:follower, every: 20s, jitter: 500ms, for: 1m, until: 2m, times: 3}
- {fault: pause:client, when: {log: "Rolled.*segment", node: n1}, for: 5, rest: 10s, times: 2}
- {fault: client-crash, when: leader-change}
- {fault: pause:leader, when: {segment-roll: true}, at: 3s, for: 5s}
- {fault: pause:n2, when: {txn-open: 200ms}, for: 5s}
"""


def gathered(tmp_path: Path, text: str, **options: object) -> tuple[Entry, ...]:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    plan, where = from_options.gather({"time_limit_s": 300.0, **options}, None, path)
    return schedule.entries(schedule_rules.checked(plan, NODES, plan.nemesis, where))


def test_what_entries_mean(tmp_path: Path) -> None:
    assert gathered(tmp_path, WHOLE.replace("1m", "10s"), txn=True) == (
        Entry("kill:leader", 10, for_s=6),
        Entry("isolate:follower", 20, 20, 0.5, 10, 120, 3),
        Entry("pause:client", for_s=5, times=2, when=Trigger(LOG, "Rolled.*segment", "n1"), rest_s=10),
        Entry("kill:client", when=Trigger(LEADER_CHANGE)),
        Entry("pause:leader", 3, for_s=5, when=Trigger(SEGMENT_ROLL)),
        Entry("pause:n2", for_s=5, when=Trigger(TXN_OPEN, open_s=0.2)),
    )


def test_in_a_plan_it_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(WHOLE)
    plan, _ = from_options.gather({"txn": True}, None, path)
    (tmp_path / "plan.yaml").write_text(plan_file.dump(plan))
    again = plan_file.load(tmp_path / "plan.yaml")
    assert again == plan
    assert derived.scheduled(again)[0] == "leader-kill"
    assert set(derived.check_options(again).expected_faults) >= {"pause:client", "pause:n2"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {falt: kill:leader, at: 1s}", r"s.yaml:1:4: falt: no such key; did you mean fault?"),
        ("- {at: 1s}", "s.yaml:1:3: fault is missing"),
        ("- {fault: kill:leader}", "s.yaml:1:3: schedule[1]: say when the fault starts: `at`, `every` or `when`"),
        (
            "- {fault: kill:leader, at: 1 day}",
            "s.yaml:1:28: schedule[1].at: '1 day' is not a duration: write",
        ),
        ("- {fault: kill:leader, at: -1s}", "s.yaml:1:28: schedule[1].at: '-1s' is not a duration"),
        ("- {fault: kill:leader, at: -1}", "s.yaml:1:28: schedule[1].at -1: input should be greater"),
        ("- {fault: kill:leader, at: .inf}", "s.yaml:1:28: schedule[1].at inf"),
        ("- {fault: kill:leader, at: yes}", "s.yaml:1:28: schedule[1].at: True is not a duration"),
        ("- {fault: kill:leader, at: [1]}", r"s.yaml:1:28: schedule[1].at: [1] is not a duration"),
        ("- {fault: kill:leader, every: 0s, for: 1s}", "s.yaml:1:31: schedule[1].every 0s"),
        ("- {fault: kill:leader, at: 1s, times: 3}", "`times` above 1 needs `every`"),
        ("- {fault: kill:leader, at: 1s, rest: 3s}", "`rest` requires `when`"),
        ("- {fault: kill:leader, every: 9s, when: leader-change}", "`every` cannot be combined with `when`"),
        (
            "- {fault: kill:leader, when: {}}",
            "s.yaml:1:30: schedule[1].when: set exactly one of log, leader-change, s",
        ),
        (
            "- {fault: kill:leader, when: {log: a, txn-open: 1s}}",
            "s.yaml:1:30: schedule[1].when: set exactly one of",
        ),
        ("- {fault: kill:leader, when: {log: '('}}", "'(' is not a regular expression"),
        ("- {fault: kill:leader, when: {lgo: a}}", r"s.yaml:1:31: lgo: no such key; did you mean log?"),
        ("- {fault: kill:leader, when: moonrise}", "s.yaml:1:30: schedule[1].when moonrise: "),
        ("- {fault: kill:leader, when: {txn-open: 1s, node: n1}}", "`node` requires `log`"),
        ("- {fault: kill:leader, when: {log: a, node: n9}}", "s.yaml:1:45: there is no node 'n9': the nodes"),
        ("- {fault: kill:leader, when: {txn-open: 1s}}", "s.yaml:1:41: needs --txn"),
        ("- at: 1s\n  fault: leader-kil", "s.yaml:2:10: leader-kil: no such fault; did you mean leader-kill"),
        ("- {fault: 'kill:leader,kill:n1', at: 1s}", "s.yaml:1:11: name exactly one fault per entry"),
        ("- {fault: none, at: 1s}", "s.yaml:1:11: name exactly one fault per entry"),
        ("- {fault: kill:moon, at: 1s}", "s.yaml:1:11: kill:moon: kill has no target 'moon'"),
        ("- {fault: pause:one, at: 1s}", "s.yaml:1:11: pause:one is in --nemesis too"),
        ("- {fault: kill:n1, every: 5s, for: 6s}", "s.yaml:1:27: every: 5 s: it would start again before it ends"),
        (
            "- {fault: kill:n1, at: 400s}",
            "s.yaml:1:24: at: 400 s is not before the end of the load, at 300 s",
        ),
        ("- {fault: kill:n1, at: 9s, until: 9s}", "s.yaml:1:35: until: 9 s is not after the first round"),
        (
            "- {fault: kill:n1, at: 9s}\n- {fault: kill:n1, at: 99s}",
            "s.yaml:2:11: fault: kill:n1 is already on",
        ),
        ("fault: kill:leader", "s.yaml:1:1: a schedule is a list of entries"),
        ("", "s.yaml:1:1: a schedule is a list of entries"),
        ("- kill:leader", "s.yaml:1:3: schedule[1] kill:leader: write it as keys and values"),
        ("- {fault: kill:leader, at: 1s\n", "s.yaml:2:1: not a schedule"),
    ],
)
def test_what_makes_no_sense_says_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        gathered(tmp_path, text, nemesis="pause:one")


def test_in_a_plan_file_the_place_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("acks: all\nschedule:\n  - fault: kill:leader\n    at: 5s\n    fro: 1s\nrate_hz: -2\n")
    with pytest.raises(BadInput) as caught:
        from_options.gather({}, path, None)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}:6:10: rate_hz -2: ")
    assert second == f"{path}:5:5: fro: no such key; did you mean for?"
    with pytest.raises(BadInput, match=r"^--rate -1.0: .*\n.*p.yaml:5:5: fro"):
        from_options.gather({"rate_hz": -1.0}, path, None)


def test_without_files_an_entry_is_named_by_number() -> None:
    plan = make_plan.make({"schedule": [{"fault": "kill:leader", "at": 1}, {"fault": "kill:leadr", "at": 1}]})
    with pytest.raises(BadInput, match=r"^schedule, entry 2: kill:leadr: kill has no target 'leadr'; did you"):
        schedule_rules.checked(plan, NODES)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--cluster", "mock"],
            "kill:leader needs Processes, which librdkafka's mock cluster does not offer",
        ),
        (["--cluster", "sim"], "--cluster sim has no processes to inject faults into"),
        (["--nodes", "1", "--nemesis", "leader-kill"], "kill:leader is in --nemesis too"),
    ],
)
def test_on_the_command_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("- {fault: kill:leader, at: 1s, for: 2s}\n")
    assert invoke(["run", "--schedule", "s.yaml", *more]) == 254
    assert message in capsys.readouterr().err
