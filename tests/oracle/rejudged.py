"""A history that is judged, changed in one value without changing its size, and judged again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import orjson

from checker.check import check_plain
from harness.model import op_json
from harness.model.check_result import to_data
from harness.model.errors_and_exit_codes import HarnessError
from harness.model.randomness import Draw
from tests.oracle.case import Case, draw_case
from tests.oracle.run import simulate

SEGMENT = "history/00000.jsonl"


@dataclass(frozen=True, slots=True)
class Rejudged:
    """What three checks say: of the history, of the changed one in the same folder, and of that in a fresh folder."""

    before: str
    again: str
    fresh: str


def changed(case: Case, lines: list[bytes]) -> list[bytes]:
    """One digit of a value that a poll found is another one; every length stays."""
    polls = [at for at, line in enumerate(lines) if b'"type":"ok"' in line and re.search(rb'"poll",.*[0-9]', line)]
    if not polls:
        return lines
    draw = Draw.of(case.seed, "oracle-rejudged", 0)
    at = draw.choice(polls)
    value = lines[at].find(b'"poll",')
    digits = [match.start() for match in re.finditer(rb"[0-9](?=[]},])", lines[at]) if match.start() > value]
    if not digits:
        return lines
    place = draw.choice(digits)
    other = str(9 - int(lines[at][place : place + 1])).encode()
    return [*lines[:at], lines[at][:place] + other + lines[at][place + 1 :], *lines[at + 1 :]]


def rejudged(seed: int, folder: Path) -> Rejudged | None:
    """None for a run in which no poll found anything."""
    case = draw_case(seed, 20)
    lines = [op_json.header(str(seed), 0, 0, 0), *map(op_json.encode, simulate(case).recorded)]
    other = changed(case, lines)
    if other == lines:
        return None
    used, fresh = folder / f"{seed} used", folder / f"{seed} fresh"
    before = _judged(used, lines, case)
    return Rejudged(before, _judged(used, other, case), _judged(fresh, other, case))


def _judged(folder: Path, lines: list[bytes], case: Case) -> str:
    """As `harness check --spark-master none` judges a run folder, which keeps the tables that it makes."""
    path = folder / SEGMENT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    try:
        answer = orjson.dumps(to_data(check_plain(folder, case.options())), option=orjson.OPT_SORT_KEYS).decode()
    except HarnessError as error:
        answer = str(error)
    return answer.replace(str(folder), "FOLDER")
