"""Why the comparison of a pipeline's run withholds `valid`, and what a run folder says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checker.pipeline import judge, tables, witnesses
from checker.pipeline.tables import Setting, Table
from checker.pipeline.witnesses import Found

ENDED = {"ends": {"in/0": 5, "out/0": 7}, "caught_up": True}
SETTING = Setting("exactly-once", "identity", None, {("in", 0): 5}, 1)


def unread(setting: Setting, files: int, endings: list[Any], rejected: int = 0) -> list[str]:
    table = Table(None, None, {"run": rejected} if rejected else {}, {"run": files} if files else {})
    return judge._unread("run", setting, table, endings)


def test_a_whole_reading_gives_no_reason() -> None:
    assert unread(SETTING, 1, [ENDED]) == []


@pytest.mark.parametrize(
    ("setting", "files", "endings", "rejected", "reason"),
    [
        (SETTING, 0, [], 0, "there is no pipeline/read-*.jsonl: the topics were not read at the end"),
        (SETTING, 1, [ENDED], 1, "1 line of pipeline/read-*.jsonl cannot be used: not JSON, or without a required "),
        (SETTING, 1, [ENDED], 1200, "1,200 lines of pipeline/read-*.jsonl cannot be used"),
        (Setting(readers=3), 1, [ENDED], 0, "2 of 3 pipeline/read-*.jsonl are missing"),
        (SETTING, 2, [ENDED], 0, "1 of 2 pipeline/read-*.jsonl are incomplete: the reading did not finish"),
        (SETTING, 1, [ENDED | {"caught_up": False}], 0, "the reading did not reach the end of the topics"),
        (
            Setting(committed={("in", 0): 5, ("in", 1): 2}),
            1,
            [ENDED],
            0,
            "partitions with committed offsets were not read: in/1",
        ),
    ],
)
def test_what_was_not_read(setting: Setting, files: int, endings: list[Any], rejected: int, reason: str) -> None:
    (found,) = unread(setting, files, endings, rejected)
    assert found.startswith(reason)


@pytest.mark.parametrize(
    ("setting", "figures", "reasons"),
    [
        (Setting(), {}, []),
        (SETTING, {}, ["the input is empty"]),
        (
            Setting("exactly-once", "identity"),
            {"inputs": 3, "done": 0},
            ["the group committed no offset, so no input record counts as processed"],
        ),
        (
            SETTING,
            {"inputs": 1200, "done": 1198},
            ["2 of 1,200 input records are at or beyond the committed offsets"],
        ),
        (SETTING, {"inputs": 3, "done": 3}, []),
    ],
)
def test_what_was_not_done(setting: Setting, figures: dict[str, int], reasons: list[str]) -> None:
    assert judge._undone(setting, figures, []) == reasons


def test_what_the_writers_sent_must_be_known() -> None:
    assert "the records that writers sent are unknown" in judge._unsent("run", Table(None, None, {}, {}))[0]
    assert judge._unsent("run", Table(None, None, {}, {"run": 1})) == []


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ("", "there are no events"),
        ("polled committed", "no assignment was logged"),
        ("assigned committed", "neither positions nor polls were logged"),
        ("assigned position", "neither commits nor polls were logged"),
        ("assigned polled", ""),
        ("assigned position committed", ""),
    ],
)
def test_what_events_must_tell(kinds: str, reason: str) -> None:
    found = judge.unjudged(dict.fromkeys(kinds.split(), 1))
    assert [text.startswith(reason) for text in found] == ([True] if reason else [])


# --- what a run says of itself ------------------------------------------------------------------------


def setting(folder: Path, about: Any, committed: Any = None) -> Setting:
    (folder / "pipeline").mkdir(exist_ok=True)
    (folder / "pipeline" / "pipeline.json").write_bytes(orjson.dumps(about))
    offsets = {"offsets": {"in/0": 5}} if committed is None else committed
    (folder / "pipeline" / "committed.json").write_bytes(orjson.dumps(offsets))
    return tables.setting(folder)


GOOD = {"schema": 1, "mode": "exactly-once", "transform": "identity", "mistake": None, "readers": 2}


def test_a_setting(tmp_path: Path) -> None:
    assert setting(tmp_path, GOOD) == Setting("exactly-once", "identity", None, {("in", 0): 5}, 2)
    mistaken = setting(tmp_path, GOOD | {"mistake": "commit-buffered", "readers": "many"})
    assert (mistaken.mistake, mistaken.readers, mistaken.wrong) == ("commit-buffered", 0, ())
    assert setting(tmp_path, {name: GOOD[name] for name in ("mode", "transform")}).wrong == ()


@pytest.mark.parametrize(
    ("about", "committed", "wrong"),
    [
        (GOOD | {"schema": 2}, None, "pipeline/pipeline.json has schema 2; this checker reads 1"),
        (
            GOOD | {"mode": "twice"},
            None,
            "pipeline/pipeline.json: mode 'twice' is unknown; must be one of at-least-once",
        ),
        (
            GOOD | {"transform": "none"},
            None,
            "pipeline/pipeline.json: transform 'none' is unknown; must be one of identity",
        ),
        ([], None, "pipeline/pipeline.json is not a JSON object"),
        (GOOD, {"offsets": []}, "pipeline/committed.json has no offsets"),
        (GOOD, {"offsets": {"in/x": 5}}, "pipeline/committed.json: 'in/x' is not an offset of a topic/partition"),
        (GOOD, {"offsets": {"in/0": "5"}}, "pipeline/committed.json: 'in/0' is not an offset of a topic/partition"),
        (GOOD, {"offsets": {"in/0": True}}, "pipeline/committed.json: 'in/0' is not an offset of a topic/partition"),
    ],
)
def test_what_is_wrong_with_a_setting_is_said(tmp_path: Path, about: Any, committed: Any, wrong: str) -> None:
    (found,) = setting(tmp_path, about, committed).wrong
    assert found.startswith(wrong)


def test_offsets_that_are_none_count_as_none(tmp_path: Path) -> None:
    """Below 0 is the client library's way to say that there is none; 0 is an offset."""
    committed = {"offsets": {"in/0": 0, "in/1": -1001, "a/b/2": 7}}
    assert setting(tmp_path, GOOD, committed).committed == {("in", 0): 0, ("a/b", 2): 7}


@pytest.mark.parametrize("text", ["in", "/0", "in/", "in/-1", ""])
def test_what_is_no_place(text: str) -> None:
    assert tables.place(text) is None


@pytest.mark.parametrize(
    ("content", "torn"),
    [(b"", 0), (b'{"a": 1}\n', 0), (b'{"a": 1}\n{"b', 1), (b'{"a": 1}\n{"b": 2}', 0), (b'{"a": 1}\n  ', 0)],
)
def test_a_last_line_that_was_not_finished(tmp_path: Path, content: bytes, torn: int) -> None:
    file = tmp_path / "read-0.jsonl"
    file.write_bytes(content)
    assert tables._torn(file) == torn
    file.write_bytes(b'{"a": 1}\n' * 200_000 + content)  # only the end of a large file is looked at
    assert tables._torn(file) == torn


# --- the verdict --------------------------------------------------------------------------------------


def test_the_verdict_and_what_is_promised() -> None:
    doubled = {"duplicate-output": Found(2, ({"id": 1},))}
    once = witnesses.result(SETTING, doubled, (), {})
    assert (once.valid, once.promised, once.anomalies[0].count) == ("invalid", True, 2)
    least = witnesses.result(Setting("at-least-once", "identity"), doubled, (), {})
    assert (least.valid, least.promised) == ("invalid", False)
    nobody_knows = witnesses.result(Setting("", "identity"), doubled, ("no mode",), {})
    assert (nobody_knows.valid, nobody_knows.promised) == ("invalid", None)
    assert witnesses.result(SETTING, {}, ("why", "why"), {}).reasons == ("why",)
    assert [witnesses.result(SETTING, {}, why, {}).valid for why in ((), ("why",))] == ["valid", "unknown"]
    tolerated = witnesses.result(Setting("at-most-once", "identity"), {"work-skipped": Found(1, ({},))}, (), {})
    assert (tolerated.valid, tolerated.promised, tolerated.anomalies[0].bad) == ("valid", None, False)


def test_what_counts_is_told_first() -> None:
    found = {"work-skipped": Found(1, ({},)), "two-owners": Found(1, ({},))}
    result = witnesses.result(Setting("at-most-once", "identity"), found, (), {})
    assert [one.name for one in result.anomalies] == ["two-owners", "work-skipped"]


@pytest.mark.parametrize(
    ("transform", "promised"), [("identity", True), ("aggregate", False), ("", False), ("filter", True)]
)
def test_a_transform_without_memory_gives_the_same_in_every_mode(transform: str, promised: bool) -> None:
    wrong = witnesses.result(Setting("at-least-once", transform), {"wrong-output": Found(1, ({},))}, (), {})
    assert wrong.promised is promised
