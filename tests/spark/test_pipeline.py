"""The checks of pipelines on simulated runs, in a few jobs: correct ones, each bug, and bad files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.pipeline_outputs import OUTPUTS
from checker.check import check
from checker.pipeline import judge
from checker.pipeline.foreign_logs import EventPattern, LogPattern
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result
from harness.model.op import INVOKE, OK, Op
from harness.model.transforms import TRANSFORMS
from harness.pipeline_app.mistakes import MISTAKES, NOT_FENCED, SHARED_ID
from harness.pipeline_app.ports import Options
from harness.report.text import pipeline_text, summary
from harness.sim.pipeline.run import files, simulate
from tests.unit.report.folders import killed, recorded, woven

pytestmark = pytest.mark.spark

READ, SENT, COMMITTED = "pipeline/read-0.jsonl", "pipeline/sent-0.jsonl", "pipeline/committed.json"
Files = dict[str, list[dict[str, Any]]]


def simulated(options: Options, seed: int, eager: bool = True) -> Files:
    """A simulated run; it must be longer for zombies to overlap and for producers to fence each other."""
    turns = 600 if options.mistake in (SHARED_ID, NOT_FENCED) else 200
    return files(simulate(options, seed, turns, eager))


def write(folder: Path, content: Mapping[str, list[dict[str, Any]]]) -> Path:
    for name, lines in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder


# --- one error in a correct run ----------------------------------------------------------------------


def _outputs(content: Files) -> list[dict[str, Any]]:
    return [row for row in content[READ] if row.get("side") == "output" and row["committed"]]


def _missing(content: Files) -> None:
    content[READ].remove(_outputs(content)[50])


def _duplicate(content: Files) -> None:
    row = _outputs(content)[50]
    last = max(one["offset"] for one in _outputs(content) if one["partition"] == row["partition"])
    content[READ].insert(0, row | {"offset": last + 100, "incarnation": 77})


def _reordered(content: Files) -> None:
    one = _outputs(content)[50]
    two = next(row for row in _outputs(content)[51:] if row["key"] == one["key"])
    one["offset"], two["offset"] = two["offset"], one["offset"]


def _phantom(content: Files) -> None:
    content[READ].insert(0, _outputs(content)[50] | {"offset": 10**6, "id": 10**6})


def _unreadable(content: Files) -> None:
    nothing = {"id": None, "key": None, "n": None}
    content[READ].insert(0, _outputs(content)[50] | nothing | {"offset": 10**6})
    content[READ].insert(0, _outputs(content)[50] | nothing | {"offset": 10**6 + 1})


def _wrong(content: Files) -> None:
    content[READ].insert(0, _outputs(content)[50] | {"offset": 10**6, "n": 9})


def _uncommitted(content: Files) -> None:
    inputs = [row["offset"] for row in content[READ] if row.get("side") == "input" and row["partition"] == 0]
    content[COMMITTED][0]["offsets"]["in/0"] = sorted(inputs)[-3]


def _lost(content: Files) -> None:
    row = next(row for row in content[READ] if row.get("side") == "input")
    content[READ].remove(row)
    content[READ] = [one for one in content[READ] if one.get("id") != row["id"]]


def _unsent(content: Files) -> None:
    content[SENT][5]["outcome"] = "fail"


def _aborted(content: Files) -> None:
    """A process reports that it aborted everything that it had committed, and all of it is visible."""
    for line in content["events/instance-0.jsonl"]:
        if line["event"] == "committed":
            line["event"] = "aborted"


def _twice(content: Files) -> dict[str, Any]:
    """The writer sent a record twice: it is in the input again, after the committed part."""
    rows = [row for row in content[READ] if row.get("side") == "input" and row["partition"] == 0]
    last = max(int(row["offset"]) for row in rows)
    again = next(row for row in rows if row["offset"] != last) | {"offset": last + 1}
    content[READ].insert(0, again)
    content[COMMITTED][0]["offsets"]["in/0"] = last + 1
    return again


def _twice_and_made_once(content: Files) -> None:
    content[COMMITTED][0]["offsets"]["in/0"] = _twice(content)["offset"] + 1


def _twice_and_both_made(content: Files) -> None:
    again = _twice(content)
    content[COMMITTED][0]["offsets"]["in/0"] = again["offset"] + 1
    made = next(row for row in _outputs(content) if row["id"] == again["id"])
    content[READ].insert(0, made | {"offset": 10**6})


def _twice_and_made_too_often(content: Files) -> None:
    _twice_and_both_made(content)
    content[READ].insert(0, _outputs(content)[0] | {"offset": 10**6 + 1})


def _twice_and_both_made_before_it_was_done(content: Files) -> None:
    _twice_and_both_made(content)
    content[COMMITTED][0]["offsets"]["in/0"] -= 1


def _twice_and_only_the_second_made(content: Files) -> None:
    """What is made of a record's second copy stands where that copy does: it is not late."""
    again = _twice(content)
    content[COMMITTED][0]["offsets"]["in/0"] = again["offset"] + 1
    made = next(row for row in _outputs(content) if row["id"] == again["id"])
    made["offset"] = 10**6


def _twice_and_the_second_wrong(content: Files) -> None:
    _twice_and_both_made(content)
    content[READ][0]["key"] += 1


def _number_beyond(content: Files) -> None:
    """What is no output of the record has no place in the order, so nothing after it is late."""
    row = next(row for row in _outputs(content) if row["key"] == _outputs(content)[50]["key"])
    row["n"] += 1000


WRONG: Mapping[str, tuple[Callable[[Files], None], Mapping[str, int]]] = {
    "missing": (_missing, {"missing-output": 1}),
    "duplicate": (_duplicate, {"duplicate-output": 1}),
    "reordered": (_reordered, {"reordered-output": 1}),
    "phantom": (_phantom, {"phantom-output": 1}),
    "unreadable": (_unreadable, {"phantom-output": 2}),
    "wrong": (_wrong, {"wrong-output": 1}),
    "uncommitted": (_uncommitted, {"uncommitted-output": 3}),
    "lost": (_lost, {"lost-input": 1}),
    "unsent": (_unsent, {"phantom-input": 1}),
    "aborted": (_aborted, {"aborted-output": 0}),
    "twice and made once": (_twice_and_made_once, {"missing-output": 1}),
    "twice and made too often": (_twice_and_made_too_often, {"duplicate-output": 1}),
    "twice and only the second made": (_twice_and_only_the_second_made, {"missing-output": 1}),
    "twice and the second wrong": (_twice_and_the_second_wrong, {"wrong-output": 1}),
    "a number beyond": (_number_beyond, {"wrong-output": 1, "missing-output": 1}),
    "twice and both made before it was done": (_twice_and_both_made_before_it_was_done, {"uncommitted-output": 1}),
}
RIGHT: Mapping[str, Callable[[Files], None]] = {"twice and both made": _twice_and_both_made}


def _counted_twice(content: Files, made: tuple[bool, bool]) -> None:
    """A record of a running count was sent again; `made`: which of its copies has its count."""
    again = _twice(content)
    content[COMMITTED][0]["offsets"]["in/0"] = again["offset"] + 1
    count = sum(row.get("side") == "input" and row["key"] == again["key"] for row in content[READ])
    first = next(row for row in _outputs(content) if row["id"] == again["id"])
    if made[1]:
        content[READ].insert(0, first | {"offset": 10**6, "n": count})
    if not made[0]:
        content[READ].remove(first)


def _counted_both(content: Files) -> None:
    _counted_twice(content, (True, True))


def _counted_second(content: Files) -> None:
    _counted_twice(content, (False, True))


def _counted_wrong(content: Files) -> None:
    _counted_twice(content, (True, True))
    content[READ][0]["n"] += 1


def _counted_and_deleted(content: Files) -> None:
    """The pipeline has counted the records that were deleted later."""
    content[READ].remove(
        min((row for row in content[READ] if row.get("side") == "input"), key=lambda row: row["offset"])
    )


COUNTED: Mapping[str, tuple[Callable[[Files], None], Mapping[str, int]]] = {
    "counted: both": (_counted_both, {}),
    "counted: second": (_counted_second, {"missing-output": 1}),
    "counted: wrong": (_counted_wrong, {"wrong-output": 1}),
    "counted: deleted": (_counted_and_deleted, {"lost-input": 1, "phantom-output": 1}),
}


def _twice_and_not_done(content: Files) -> None:
    _twice(content)


def _no_end(content: Files) -> None:
    content[READ].pop()


def _behind(content: Files) -> None:
    content[READ][-1]["caught_up"] = False


def _nothing(content: Files) -> None:
    content[READ] = content[READ][-1:]
    content[SENT] = []


def _bad_lines(content: Files) -> None:
    content[READ].insert(0, {"side": "input", "topic": "in", "partition": "zero"})
    content[READ].insert(0, {"side": "elsewhere"})


def _no_mode(content: Files) -> None:
    content["pipeline/pipeline.json"][0]["mode"] = "twice"


def _no_reading(content: Files) -> None:
    del content[READ]


def _no_writers(content: Files) -> None:
    del content[SENT]


def _no_offsets(content: Files) -> None:
    del content[COMMITTED]


def _lost_sends(content: Files) -> None:
    """A line about what was sent is malformed, so the record is unknown."""
    content[SENT][5]["outcome"] = "maybe"


def _lost_commit(content: Files) -> None:
    """The group's commit is not recorded, and the outputs produced with it were aborted later."""
    for line in content["events/instance-0.jsonl"]:
        if line["event"] == "committed":
            line["event"] = "aborted"
    content["events/instance-0.jsonl"].append({"event": "committed", "instance": "i0"})


def _odd_offset(content: Files) -> None:
    _uncommitted(content)
    content[COMMITTED][0]["offsets"]["in/0"] = "many"


UNKNOWN: Mapping[str, tuple[Callable[[Files], None], str]] = {
    "twice and not done": (_twice_and_not_done, "1 of "),
    "no-end": (_no_end, "1 of 1 pipeline/read-*.jsonl are incomplete"),
    "behind": (_behind, "the reading did not reach the end of the topics"),
    "nothing": (_nothing, "the input is empty"),
    "bad-lines": (_bad_lines, "2 lines of pipeline/read-*.jsonl cannot be used"),
    "no-mode": (_no_mode, "pipeline/pipeline.json: mode 'twice' is unknown"),
    "no-reading": (_no_reading, "there is no pipeline/read-*.jsonl"),
    "no-writers": (_no_writers, "there is no pipeline/sent-*.jsonl"),
    "lost-sends": (_lost_sends, "1 line of pipeline/sent-*.jsonl cannot be used"),
    "odd-offset": (_odd_offset, "pipeline/committed.json: 'in/0' is not an offset"),
    "no-offsets": (_no_offsets, "pipeline/committed.json cannot be read"),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """The findings of both checks for each run, by the run's name."""

    batch: Mapping[str, Result]
    offsets: Mapping[str, Result]


@pytest.fixture(scope="module")
def seeds(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Number of correct runs, and of runs with each bug."""
    return (100, 10) if request.config.getoption("--soak") else (4, 1)


@pytest.fixture(scope="module")
def judged(spark: Any, seeds: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("runs")
    honest, each = seeds
    runs = [
        write(
            folder / f"honest {seed}",
            simulated(Options(transform=TRANSFORMS[seed % 4], abort_p=0.05), seed, seed % 8 < 4),
        )
        for seed in range(honest)
    ]
    for mistake in MISTAKES:
        runs += [
            write(folder / f"{mistake} {seed}", simulated(Options(mistake=mistake, abort_p=0.05), seed))
            for seed in range(each)
        ]
    for mode in ("at-least-once", "at-most-once", "auto-commit"):
        runs.append(write(folder / mode, simulated(Options(mode=mode), 1)))
    right = simulated(Options(abort_p=0.05), 1)
    changes = {name: change for name, (change, _) in {**WRONG, **UNKNOWN}.items()}
    for name, change in {**changes, **RIGHT}.items():
        content = orjson.loads(orjson.dumps(right))
        change(content)
        runs.append(write(folder / name, content))
    counting = simulated(Options(transform="aggregate", abort_p=0.05), 1)
    for name, (change, _) in COUNTED.items():
        content = orjson.loads(orjson.dumps(counting))
        change(content)
        runs.append(write(folder / name, content))
    torn = write(folder / "torn", right)
    for path in (torn / READ, torn / "events" / "instance-0.jsonl"):
        path.write_bytes(path.read_bytes() + b'{"side": "inp')
    runs.append(torn)
    content = orjson.loads(orjson.dumps(right))
    _lost_commit(content)
    runs.append(write(folder / "lost-commit", content))
    torn_sent = write(folder / "torn-sent", right)
    (torn_sent / SENT).write_bytes((torn_sent / SENT).read_bytes()[:-9])
    runs.append(torn_sent)
    batch, offsets = judge.batch(spark, runs), judge.offsets(spark, runs)
    return Judged({run.name: batch[run] for run in runs}, {run.name: offsets[run] for run in runs})


def counts(result: Result) -> dict[str, int]:
    return {found.name: found.count for found in result.anomalies}


def test_nothing_is_flagged_in_honest_runs(judged: Judged, seeds: tuple[int, int]) -> None:
    for name in [*(f"honest {seed}" for seed in range(seeds[0])), "torn"]:
        for result in (judged.batch[name], judged.offsets[name]):
            assert (result.valid, counts(result), result.reasons) == ("valid", {}, ()), name
    assert judged.batch["honest 0"].statistics["pipeline"]["expected"] > 300


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_found(judged: Judged, seeds: tuple[int, int], mistake: str) -> None:
    for seed in range(seeds[1]):
        result = judged.batch[f"{mistake} {seed}"]
        assert MISTAKES[mistake].shows in counts(result), f"seed {seed}: {result.reasons}"
        assert (result.valid, result.promised) == ("invalid", True)
        found = next(one for one in result.anomalies if one.name == MISTAKES[mistake].shows)
        for witness in found.witnesses:
            assert witness["instance"] is not None and witness["incarnation"] is not None
            assert witness["offset"] is not None and witness["around"], witness
        if mistake != SHARED_ID:  # no event shows what one producer does to another
            offsets = judged.offsets[f"{mistake} {seed}"]
            assert offsets.valid == "invalid" and offsets.anomalies, f"seed {seed}"
            assert offsets.anomalies[0].witnesses[0]["instance"] is not None


def test_weaker_modes(judged: Judged) -> None:
    least, most, auto = (judged.batch[name] for name in ("at-least-once", "at-most-once", "auto-commit"))
    assert set(counts(least)) <= {"duplicate-output", "reordered-output"}
    assert (least.valid, least.promised) == ("invalid", False)
    assert set(counts(most)) == {"missing-output"} and most.promised is False
    assert counts(auto) and auto.promised is False
    for name in ("at-least-once", "at-most-once", "auto-commit"):
        assert not [found for found in judged.offsets[name].anomalies if found.bad], name


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_though_unusual(judged: Judged, name: str) -> None:
    result = judged.batch[name]
    assert (result.valid, counts(result), result.reasons) == ("valid", {}, ()), name


@pytest.mark.parametrize("name", COUNTED)
def test_running_counts_of_records_that_were_sent_again_or_deleted(judged: Judged, name: str) -> None:
    assert counts(judged.batch[name]) == COUNTED[name][1]


@pytest.mark.parametrize("name", WRONG)
def test_one_thing_wrong(judged: Judged, name: str) -> None:
    result, (_, expected) = judged.batch[name], WRONG[name]
    assert (result.valid, result.promised) == ("invalid", True)
    assert counts(result).keys() == expected.keys()
    assert all(counts(result)[each] == count for each, count in expected.items() if count)
    for found in result.anomalies:
        for witness in found.witnesses:
            text = CATALOGUE[found.name].prose(witness, None)  # type: ignore[arg-type]
            assert text.startswith("Input ") and text.endswith(".")


def test_events_that_are_missing_prove_nothing(judged: Judged) -> None:
    for result in (judged.batch["lost-commit"], judged.offsets["lost-commit"]):
        assert not result.anomalies, counts(result)
    assert judged.offsets["lost-commit"].valid == "unknown"


def test_a_torn_line_of_what_was_sent_is_damage(judged: Judged) -> None:
    result = judged.batch["torn-sent"]
    assert (result.valid, counts(result)) == ("unknown", {})


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_judged(judged: Judged, name: str) -> None:
    result, (_, reason_start) = judged.batch[name], UNKNOWN[name]
    assert result.valid == "unknown" and not result.anomalies, counts(result)
    assert any(reason.startswith(reason_start) for reason in result.reasons), result.reasons


def test_a_run_folder(spark: Any, tmp_path: Path) -> None:
    """All witnesses are stored, faults are reported, and the summary is readable."""
    ops = [Op(-1, 10**9, 0, INVOKE, "work", None), Op(-1, 2 * 10**9, 0, OK, "work", 1)]
    run = recorded(tmp_path, "a run [1]", woven(ops, killed(1.0, 3.0, "n1")), workload="pipeline")
    write(run, simulated(Options(mistake="commit-buffered"), 3))
    options = CheckOptions(checks=("pipeline", "offsets"), expected_faults=("kill:leader",))
    result = check(spark, run, options, lambda text: None)
    assert result.valid == "invalid" and not result.reasons
    stored = {path.stem: pq.ParquetFile(path).read() for path in (run / "results" / "witnesses").iterdir()}
    assert {name: table.num_rows for name, table in stored.items()} == counts(result)
    assert set(stored) & OUTPUTS.keys() and set(stored) - OUTPUTS.keys()
    for found in result.anomalies:
        texts = [orjson.loads(text) for text in stored[found.name].column("witness").to_pylist()]
        assert all(witness in texts for witness in found.witnesses)
    faults = [e for found in result.anomalies for w in found.witnesses for e in w["around"] if "instance" not in e]
    assert any(fault["event"].startswith("kill:leader") for fault in faults)
    text = summary.summary(run, result)
    assert "missing-output" in text and "instance" in text and "inputs: " in text
    # Checking a run again removes the files of the previous check.
    write(run, simulated(Options(), 3))
    for stale in run.glob("events/instance-*"):
        if stale.name not in {Path(name).name for name in simulated(Options(), 3)}:
            stale.unlink()
    again = check(spark, run, options, lambda text: None)
    assert (again.valid, again.anomalies) == ("valid", ())
    assert not list((run / "results" / "witnesses").iterdir())


def test_logs_of_others(spark: Any, tmp_path: Path) -> None:
    at = "{} (?P<topic>[a-z]+)/(?P<partition>[0-9]+) (?P<first>[0-9]+)-(?P<last>[0-9]+)"
    pattern = LogPattern(
        (
            EventPattern("now mine: (?P<partitions>.*)", "assigned"),
            EventPattern("gone: (?P<partitions>.*)", "revoked"),
            EventPattern(at.format("read"), "polled"),
            EventPattern(at.format("rotated"), "committed"),
        ),
        "epoch-ms",
        "^(?P<time>[0-9]+) ",
    )
    (tmp_path / "pod-1.log").write_text(
        "1000 now mine: in-0, in-1\n1001 read in/0 0-9\n1002 rotated in/0 0-9\n1003 gone: in-0\nhello\n"
    )
    (tmp_path / "pod-2.log").write_text("1004 now mine: in-0\n1005 read in/0 15-19\n1006 rotated in/1 3-4\n")
    paths = sorted(tmp_path.iterdir())
    result = judge.of_logs(spark, paths, pattern)
    assert counts(result) == {"offset-gap": 1, "work-unassigned": 1}
    gap = result.anomalies[0].witnesses[0]
    assert (gap["instance"], gap["first"], gap["until"]) == ("pod-2.log", 10, 15)
    assert result.statistics["offsets"]["lines"] == {"rejected": 0, "unmatched": 1, "cut": 0}
    text = pipeline_text.of_logs(result, 3)
    assert "partition in-0 offsets 10 to 14: reading started at 15, but offset 10 was committed" in text.lower()
    assert counts(judge.of_logs(spark, paths[:1], pattern)) == {}
    assert counts(judge.of_logs(spark, paths, pattern, markers=5)) == {"work-unassigned": 1}
    nothing = judge.of_logs(spark, paths, LogPattern((EventPattern("(?P<time>x)", "closed"),), "epoch-s"))
    assert (nothing.valid, nothing.reasons[0]) == (
        "unknown",
        "there are no events, so offsets cannot be judged",
    )
