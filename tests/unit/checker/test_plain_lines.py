"""Stretches of lines of the usual form become the same tables as the same lines one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from checker.tables import make_tables, plain_lines
from checker.tables.plain_lines import EDN, JSON
from harness.model.edn import fast_path
from harness.model.errors_and_exit_codes import BadHistory
from tests.bench import histories
from tests.bench.histories import Shape

NEVER = 1 << 60
HEADER = b'{"schema":1,"run":"r","segment":0,"wall_ns":0,"mono_ns":0}'
Lines = list[bytes]


def written(path: Path, lines: Lines) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def json_lines(ops: int = 200, txn: bool = True) -> Lines:
    return [orjson.dumps(data) for data in histories.ops_of(histories.make(Shape(ops, 5, txn=txn)))]


def edn_lines(ops: int = 200, txn: bool = True, record: bool = False) -> Lines:
    made = histories.ops_of(histories.make(Shape(ops, 5, txn=txn)))
    return [fast_path.text_of(data, record).encode() for data in made]


def files_of(path: Path, folder: Path) -> dict[str, bytes] | str:
    """The files of the tables, or the error."""
    try:
        make_tables.make(path, folder)
    except BadHistory as error:
        return str(error)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[str, bytes] | str]:
    """Makes tables line by line and by stretches, compares them, and returns them."""

    def made(path: Path) -> dict[str, bytes] | str:
        found = []
        for least in (NEVER, 1):
            monkeypatch.setattr(plain_lines, "STRETCH_BYTES", least)
            found.append(files_of(path, tmp_path / "tables"))
        assert found[0] == found[1]
        return found[0]

    return made


FORMS = [
    (name, lines)
    for txn in (False, True)
    for name, lines in (
        ("h.jsonl", [HEADER, *json_lines(txn=txn)]),
        ("h.edn", edn_lines(txn=txn)),
        ("h.edn", edn_lines(txn=txn, record=True)),
    )
]


@pytest.mark.parametrize(("name", "lines"), FORMS)
def test_lines_of_the_load_have_the_usual_form(name: str, lines: Lines) -> None:
    form, usual = (EDN if name == "h.edn" else JSON), lines[name == "h.jsonl" :][:300]
    text = b"".join(line + b"\n" for line in usual)
    found = form.pattern.match(text)
    assert found is not None and found.end() == len(text)


@pytest.mark.parametrize(("name", "lines"), FORMS)
def test_the_tables_are_the_same(tmp_path: Path, name: str, lines: Lines, both: Callable[[Path], object]) -> None:
    assert isinstance(both(written(tmp_path / name, lines)), dict)
    assert isinstance(both(written(tmp_path / name, lines[: len(lines) // 2])), dict)  # with open invocations


def test_integers_of_every_length_are_read(tmp_path: Path, both: Callable[[Path], object]) -> None:
    draw = random.Random(5)
    lines = []
    for index in range(400):
        key, value, offset = (draw.randrange(10 ** draw.randrange(1, 19)) for _ in range(3))
        op = {"index": index, "time_ns": 10 ** (index // 25), "process": draw.choice([1, 10**7, 10**15]) + index // 2}
        sent = [value] if index % 2 == 0 else [[offset, value]]
        lines.append(orjson.dumps({**op, "type": "ok", "f": "send", "value": [["send", key, *sent]]}))
        if index % 2 == 0:
            lines[-1] = lines[-1].replace(b'"ok"', b'"invoke"')
        else:
            process = orjson.loads(lines[-2])["process"]
            lines[-1] = orjson.dumps({**orjson.loads(lines[-1]), "process": process})
    path = written(tmp_path / "history.jsonl", [HEADER, *lines])
    assert not isinstance(both(path), str)


def test_other_lines_between_stretches_keep_the_order(tmp_path: Path, both: Callable[[Path], object]) -> None:
    lines = json_lines()
    for place in range(0, len(lines), 7):
        data = orjson.loads(lines[place])
        data["extra"] = {"committed": [["a", place]]}
        lines[place] = orjson.dumps(data)
    for place in range(3, len(lines), 11):
        lines[place] = lines[place].replace(b'"ok"', b'"info"')
    assert isinstance(both(written(tmp_path / "h.jsonl", lines)), dict)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"ok"', b'"invoke"'),
        (b'"ok"', b'"done"'),
        (b'"process":1,', b'"process":2,'),
        (b'"f":"txn"', b'"f":"send"'),
        (b'"index":1', b'"index":2'),
        (b'"time_ns":', b'"time_ns":9'),
        (b'["poll"', b'["pull"'),
        (b"[[", b"[[["),
        (b"]]", b"]"),
        (b",", b", "),
        (b"1", b"01"),
        (b"2", b"-2"),
        (b"3", b"999999999999999999"),
        (b"4", b"9999999999999999999"),
        (b"5", b'"5"'),
    ],
)
def test_invalid_and_unusual_lines_are_treated_the_same(
    tmp_path: Path, both: Callable[[Path], object], old: bytes, new: bytes
) -> None:
    lines = json_lines(60)
    for place in [place for place, line in enumerate(lines) if old in line][2:40:12]:
        changed = [*lines[:place], lines[place].replace(old, new, 1), *lines[place + 1 :]]
        both(written(tmp_path / "h.jsonl", changed))


@pytest.mark.parametrize("form", ["h.jsonl", "h.edn"])
@pytest.mark.parametrize("seed", range(20))
def test_damaged_histories_give_the_same_tables_or_the_same_error(
    tmp_path: Path, both: Callable[[Path], object], form: str, seed: int
) -> None:
    dice = random.Random(seed)
    lines = json_lines(40) if form == "h.jsonl" else edn_lines(40)
    for _ in range(dice.choice([1, 1, 3])):
        place = dice.randrange(len(lines))
        line = lines[place]
        at = dice.randrange(len(line))
        action = dice.choice(["drop", "twice", "swap", "letter", "cut"])
        if action == "drop":
            del lines[place]
        elif action == "twice":
            lines.insert(place, line)
        elif action == "swap":
            lines[place - 1], lines[place] = line, lines[place - 1]
        elif action == "letter":
            lines[place] = line[:at] + bytes([dice.choice(b"0123456789[]{}, :-a")]) + line[at + 1 :]
        else:
            lines[place] = line[:at] + line[at + 1 :]
    both(written(tmp_path / form, lines))


def test_a_key_twice_in_a_polled_map_is_an_error(tmp_path: Path, both: Callable[[Path], object]) -> None:
    lines = [
        b"{:index 0, :time 0, :type :invoke, :process 0, :f :poll, :value [[:poll]]}",
        b"{:index 1, :time 1, :type :ok, :process 0, :f :poll, :value [[:poll {3 [[0 1]], 3 [[1 2]]}]]}",
    ]
    assert "line 2" in str(both(written(tmp_path / "h.edn", lines)))


def test_short_stretches_are_left_to_the_other_reader() -> None:
    text = b"".join(line + b"\n" for line in json_lines(200)[:40])
    assert len(text) < plain_lines.STRETCH_BYTES
    assert list(plain_lines.split(text, JSON)) == [(text, False)]
    long = b"".join(line + b"\n" for line in json_lines(300)[:300])
    parts = list(plain_lines.split(HEADER + b"\n" + long + b"{", JSON))
    assert parts == [(HEADER + b"\n", False), (long, True), (b"{", False)]
