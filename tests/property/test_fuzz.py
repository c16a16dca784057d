"""Damaged histories give a verdict other than `valid`, or one error message, but never a crash.

Bytes are flipped, cut out, duplicated and inserted in EDN, JSON lines and Parquet folders, and fields of ops get
values of other types. A change that does not alter the history (a blank, for example) may leave the verdict
unchanged. Therefore `valid` is allowed if the damaged file still contains a correct history, but not if lines
were lost or the damaged place is known to matter.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checker.check import check_plain
from checker.tables import parquet_folder
from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.edn import fast_path, reader
from harness.model.edn import ops as edn_ops
from harness.model.errors_and_exit_codes import BadHistory
from harness.sim.queue.run import simulate

SEEDS = 30  # per repetition and form
OPS: Final = [op_json.to_data(op) for op in simulate(7, ops=24, processes=3, keys=3, txn=True)]
# Ops with every field that the checker reads besides keys, values and offsets.
_END: Final = {"final": True, "positions": [[1, 1]], "ends": [[1, 0, 1]]}
_ASSIGNED: Final = {"event": "assigned", "keys": [1], "committed": [[1, None]]}
_STARTED: Final = {
    "do": "start",
    "of": 1,
    "number": 1,
    "took_effect": True,
    "rule": {"reported": True},
    "expect": {"recovers": "point", "says": ["a"], "never": ["b"]},
    "log": {"n1": {"segments": {"r-0-0": [0]}, "said": {"a": ["line"]}, "all_ms": 1}},
    "before": {"n1": {"logs": {"r-0-0": {"segments": [[0, 9]], "point": 0}}}},
    "started_s": {"n1": 1.0},
    "ended": [],
    "offsets": [1],
    "sequences": {"retry": [46, -1], "gap": 45, "end": 2},
}
_LOOK: Final = [[1, {"leader": "n1", "isr": ["n1"], "start": 0, "end": 1}]]
_FAULT: Final = {"fault": "kill:leader", "span": "s", "phase": "complete"}
RICH: Final[list[dict[str, Any]]] = [
    {"index": index, "time_ns": index, "process": process, "type": kind, "f": f, "value": value, "extra": extra}
    for index, (process, kind, f, value, extra) in enumerate(
        [
            (0, "invoke", "send", [["send", 1, 1]], {}),
            (0, "ok", "send", [["send", 1, [0, 1]]], {"notes": ["a note"]}),
            (1, "invoke", "subscribe", [1], {}),
            (1, "ok", "subscribe", [1], {"seek_to_beginning": True}),
            (1, "invoke", "txn", [["poll"], ["send", 2, 1]], {"final": True}),
            (
                1,
                "ok",
                "txn",
                [["poll", [[1, [[0, 1]]], [2, []]]], ["send", 2, [0, 1]]],
                {**_END, "rebalance_log": [_ASSIGNED], "committed": [[1, 1]]},
            ),
            ("nemesis", "info", "config-back", {"took_effect": True, "deleted": [[1, 0]], "nodes": ["n1"]}, _FAULT),
            (2, "invoke", "delete-records", [[1, 0]], {}),
            (2, "ok", "delete-records", [[1, 0]], {}),
            (2, "invoke", "debug-topic-partitions", [1], {}),
            (2, "ok", "debug-topic-partitions", _LOOK, {"final": True}),
            ("nemesis", "info", "step", _STARTED, _FAULT),
            (1, "invoke", "poll", [["poll"]], {"final": True}),
            (1, "ok", "poll", [["poll", [[1, [[0, 1]]]]]], {**_END, "rebalance-log": [{"keys": [1]}]}),
        ]
    )
]
ALL_CHECKS: Final = CheckOptions(
    checks=("queue", "delivery", "recovery", "log-model"), require_final_polls=True, expected_faults=("kill:leader",)
)
TOKENS: Final = [
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b"#",
    b"\\",
    b";",
    b" ",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3(",
    b"-",
    b"0",
    b"1e999",
    b"null",
    b"nil",
    b"true",
    b":ok",
    b":info",
    b"#_",
    b"##NaN",
    b"[" * 200,
    b"#a " * 100,
    b"\xed\xa0\x80",
    b"0" * 5000,
    b"9" * 25,
]
VALUES: Final[list[Any]] = [
    None,
    True,
    -1,
    1 << 62,
    (1 << 64) - 1,
    1.5,
    "",
    "nemesis",
    "ok",
    "info",
    "x" * 300,
    [],
    {},
    [[]],
    [None],
    {"edn": "#{"},
    {"edn": ":a"},
    [["poll"]],
    [["send", 1]],
    [["poll", [[1, [[0, 1], [0]]]]]],
    [["poll", {"1": []}]],
    {"event": 1, "keys": 5},
    [{"keys": 5}],
    [{"committed": 5}],
    [5],
    ["12"],
    [[1, 2]],
    [[None, None]],
    [[None, 0, 0]],
]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A few changed bytes at random places."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data)) if data else 0
        kind = chance.randrange(5)
        if kind == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.choice([1, 2, 10, 100])]
        elif kind == 2:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            data[at:at] = data[at : at + chance.choice([1, 30, 300])]
        else:
            data[at : at + 1] = chance.choice(TOKENS)
    return bytes(data)


def swapped(chance: random.Random, whole: list[dict[str, Any]] = OPS) -> list[dict[str, Any]]:
    """The ops, with a value of another type in one of them."""
    ops: list[dict[str, Any]] = json.loads(json.dumps(whole))
    place: Any = chance.choice(ops)
    while True:
        name = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[name]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.3:
            place[name] = chance.choice(VALUES)
            return ops
        place = inner


def verdict(path: Path, seed: int = 0) -> str:
    """The checker's verdict, or BadHistory. Any other exception is a bug."""
    answers = []
    for options in (CheckOptions(), CheckOptions(jepsen_compatible=True))[: 2 if seed % 4 == 0 else 1]:
        try:
            answers.append(check_plain(path, options).valid)
        except BadHistory as error:
            assert 0 < len(str(error)) < 2000 and "\n" not in str(error), error
            answers.append("refused")
    assert answers.count("refused") in (0, len(answers)), answers
    return answers[0]


def _edn_text(ops: list[dict[str, Any]]) -> bytes:
    return "".join(fast_path.text_of(op) + "\n" for op in ops).encode()


def _json_text(ops: list[dict[str, Any]]) -> bytes:
    return op_json.header("r", 0, 1, 2) + b"".join(json.dumps(op).encode() + b"\n" for op in ops)


FORMS: Final[dict[str, Callable[[list[dict[str, Any]]], bytes]]] = {
    "h.edn": _edn_text,
    "h.jsonl": _json_text,
    "h.edn.gz": lambda ops: gzip.compress(_edn_text(ops), 1),
    "h.jsonl.gz": lambda ops: gzip.compress(_json_text(ops), 1),
}


def test_undamaged_is_valid(tmp_path: Path) -> None:
    for name, write in FORMS.items():
        (tmp_path / name).write_bytes(write(OPS))
        assert verdict(tmp_path / name) == "valid", name


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.repeat(1, 120)
def test_flipped_bytes(tmp_path: Path, name: str, repetition: int) -> None:
    whole = FORMS[name](OPS)
    for seed in range(repetition * SEEDS, (repetition + 1) * SEEDS):
        (tmp_path / name).write_bytes(damaged(whole, random.Random(seed)))
        verdict(tmp_path / name, seed)


@pytest.mark.parametrize("name", ["h.edn", "h.jsonl"])
@pytest.mark.repeat(1, 60)
def test_values_of_other_types(tmp_path: Path, name: str, repetition: int) -> None:
    for seed in range(repetition * SEEDS, (repetition + 1) * SEEDS):
        (tmp_path / name).write_bytes(FORMS[name](swapped(random.Random(seed))))
        verdict(tmp_path / name, seed)


@pytest.mark.repeat(4, 120)
def test_fields_of_other_types(tmp_path: Path, repetition: int) -> None:
    """In every field that a check reads."""
    for seed in range(repetition * SEEDS, (repetition + 1) * SEEDS):
        (tmp_path / "h.jsonl").write_bytes(_json_text(swapped(random.Random(seed), RICH)))
        try:
            check_plain(tmp_path / "h.jsonl", ALL_CHECKS)
        except BadHistory as error:
            assert 0 < len(str(error)) < 2000 and "\n" not in str(error), error


@pytest.mark.parametrize("field", ["rebalance_log", "keys", "committed", "positions", "ends"])
@pytest.mark.parametrize("value", [7, "ab", {"keys": [1]}, True, [7]])
def test_a_list_of_another_type_is_refused_with_its_place(tmp_path: Path, field: str, value: Any) -> None:
    ops = json.loads(json.dumps(RICH))
    extra = ops[5]["extra"]
    if field == "keys":
        if isinstance(value, list):
            return  # a key may have any type
        extra = extra["rebalance_log"][0]
    extra[field] = value
    (tmp_path / "h.jsonl").write_bytes(_json_text(ops))
    with pytest.raises(BadHistory, match=r"h\.jsonl, line 7: "):
        check_plain(tmp_path / "h.jsonl", CheckOptions())


@pytest.mark.parametrize("name", ["h.edn", "h.jsonl"])
@pytest.mark.parametrize("kind", ["moved", "lost", "doubled", "retimed"])
def test_lines_moved_lost_or_doubled_are_never_valid(tmp_path: Path, name: str, kind: str) -> None:
    for at in range(0, len(OPS) - 1, 4):
        ops = [dict(op) for op in OPS]
        if kind == "moved":
            ops.insert(at + 1, ops.pop(at))
        elif kind == "lost":
            del ops[at]
        elif kind == "doubled":
            ops.insert(at, ops[at])
        else:
            ops[at]["time_ns"] = ops[-1]["time_ns"] + 1
        (tmp_path / name).write_bytes(FORMS[name](ops))
        found = verdict(tmp_path / name)
        assert found != "valid", at
        assert found == "refused" or kind in ("lost", "retimed"), at


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode(errors="replace"))))
@pytest.mark.parametrize("name", FORMS)
def test_any_bytes(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert verdict(tmp_path / name) != "valid"


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.repeat(1, 40)
def test_flipped_bytes_in_tables(tmp_path: Path, checksums: bool, repetition: int) -> None:
    """With checksums no damage is accepted; without, Parquet's own checks and the description must detect it."""
    (tmp_path / "h.jsonl").write_bytes(_json_text(OPS))
    parquet_folder.write(tmp_path / "h.jsonl", tmp_path / "whole")
    if not checksums:
        (tmp_path / "whole" / "_checksums.json").unlink()
    assert verdict(tmp_path / "whole") == "valid"
    files = sorted(path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*.*"))
    for seed in range(repetition * SEEDS, (repetition + 1) * SEEDS):
        chance = random.Random(seed)
        folder = tmp_path / "tables"
        shutil.copytree(tmp_path / "whole", folder)
        file = folder / chance.choice(files)
        before = file.read_bytes()
        file.write_bytes(damaged(before, chance) if chance.random() < 0.9 else b"")
        found = verdict(folder, seed)
        if checksums and file.read_bytes() != before:
            assert found == "refused", (seed, file.name)
        shutil.rmtree(folder)


def test_edn_forms_are_those_of_the_log() -> None:
    """The EDN text that is damaged above is what Jepsen would write."""
    for op in OPS:
        assert edn_ops.data_of(reader.loads(fast_path.text_of(op))) == op
