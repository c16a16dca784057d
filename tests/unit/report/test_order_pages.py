"""Order pages: their content, their limited size, and that no string of a history becomes markup."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.model import op as ops_
from harness.model.check_result import AnomalyFound, Result
from harness.model.op import Op
from harness.report import order_paths
from harness.report.order import key_records, layout, marks, order_pages
from harness.report.order.layout import Line
from harness.report.order.markup import element
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.run import simulate
from harness.stored import operations_and_records as lookup
from tests.unit.checker.cases import Case, cases
from tests.unit.report.folders import judged, killed, recorded, woven

# A page shows sends and polls, not the deliveries of share groups, so it has no place for the record of a failed send.
SHOWN = [
    case
    for case in cases()
    if case.path.stem == "positive"
    and case.expect["valid"] == "invalid"
    and case.path.parent.name != "share-aborted-read"
]


class Parsed(HTMLParser):
    """Ids, links, and whether all elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.add(tag)
        self.ids += [name] if (name := attributes.get("id")) else []
        self.links += [href] if (href := attributes.get("href")) else []
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def whole(path: Path) -> str:
    """A page with valid links, unique ids and well-formed pictures."""
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) <= order_pages.BYTES_MAX
    page = Parsed(text)
    assert page.open == [] and "script" not in page.tags
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link.removeprefix("#") in page.ids if link.startswith("#") else (path.parent / link).is_file()
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    return text


def run_of(tmp_path: Path, ops: list[Op]) -> tuple[Path, Result]:
    run = recorded(tmp_path, "20260102T030405-kill", ops, partitions_per_topic=4)
    return run, judged(run)


def op(at_ns: int, process: int, type_: str, f: str, value: Any) -> Op:
    return Op(-1, at_ns, process, type_, f, value)


def sends(key: Any, values: list[Any], offsets: list[int]) -> list[Op]:
    found = []
    for at, (value, offset) in enumerate(zip(values, offsets, strict=True)):
        found.append(op(at * 1000, 0, ops_.INVOKE, "send", [["send", key, value]]))
        found.append(op(at * 1000 + 10, 0, ops_.OK, "send", [["send", key, [offset, value]]]))
    return found


def polls(key: Any, pairs: list[list[Any]], at_ns: int = 10**9, process: int = 1) -> list[Op]:
    value = [["poll", [[key, pairs]]]]
    return [
        op(at_ns, process, ops_.INVOKE, "poll", [["poll"]]),
        op(at_ns + 10, process, ops_.OK, "poll", value),
    ]


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.name)
def test_every_anomaly_has_a_page_with_its_places_marked(tmp_path: Path, case: Case) -> None:
    (tmp_path / "history").mkdir()
    shutil.copy(case.path, tmp_path / "history" / "00000.jsonl")
    result = judged(tmp_path, case.options)
    index, *pages = order_pages.draw(tmp_path, result)
    assert index == order_paths.index(tmp_path) and sorted(pages) == order_paths.pages(tmp_path)
    texts = [whole(page) for page in pages]
    whole(index)
    for found in marks.shown(result):
        assert any(f'id="w-{found.name}-1"' in text and f'href="#w-{found.name}-1"' in text for text in texts), (
            found.name
        )


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_pages_of_simulated_logs_with_bugs_are_whole(tmp_path: Path, bug: str) -> None:
    run, result = run_of(tmp_path, simulate(5, ops=200, txn=True, bugs=frozenset({bug})))
    pages = order_pages.draw(run, result)
    assert bool(pages) == bool(marks.shown(result))
    assert len(pages) <= order_pages.KEYS_MAX + 1
    for page in pages:
        whole(page)


def test_lines_writers_holes_faults_and_passes(tmp_path: Path) -> None:
    sent = sends(6, [1, 2, 3, 4], [0, 1, 4, 5])
    seen = polls(6, [[0, 1], [1, 2], [4, 3]]) + polls(6, [[4, 3], [5, 4]], 2 * 10**9)
    run, result = run_of(tmp_path, woven(killed(0, 15, "n2"), sent, seen))
    assert {anomaly.name for anomaly in result.anomalies} >= {"nonmonotonic-poll"}
    text = whole(order_pages.draw(run, result)[1])
    assert "partition 20260102T030405-kill-1-2" in text
    assert "no known record at 2 to 3" in text
    assert "while kill:leader n2 was active" in text
    assert "process 0, send ok" in text
    assert "nonmonotonic-poll#1: value 3 at offset 4" in text
    assert text.count('class="dot"') == 2


def test_a_long_key_is_shown_around_its_anomalies_only(tmp_path: Path) -> None:
    count = 5_000
    values = list(range(count))
    pairs = [[n, n] for n in values if n not in (700, 3_000)]
    run, result = run_of(tmp_path, woven(sends(1, values, values), polls(1, pairs, 10**10)))
    text = whole(order_pages.draw(run, result)[1])
    for shown in (650, 700, 750, 2_950, 3_000, 3_050):
        assert f'id="o-{shown}"' in text
    for left_out in (648, 752, 2_948, 3_052):
        assert f'id="o-{left_out}"' not in text
    assert "offsets 0 to 648: not shown" in text and "offsets 752 to 2,948: not shown" in text


def test_a_page_with_very_many_passes_and_anomalies_stays_small(tmp_path: Path) -> None:
    """Each record is polled by its own op, in reverse order, by more processes than fit on the page."""
    values = list(range(120))
    seen = [
        one
        for process in range(1, layout.PASSES_MAX + 9)
        for at in values
        for one in polls(1, [[119 - at, 119 - at]], 10**10 + at * 1000 + process, process)
    ]
    run, result = run_of(tmp_path, woven(sends(1, values, values), seen))
    (found,) = (anomaly for anomaly in result.anomalies if anomaly.name == "nonmonotonic-poll")
    assert found.count > 8_000
    text = whole(order_pages.draw(run, result)[1])
    assert "omitted for lack of space" in text


def test_a_page_that_would_be_too_large_shows_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = list(range(300))
    ops = woven(sends(1, values, values), polls(1, [[n, n] for n in reversed(values)], 10**10))
    run, result = run_of(tmp_path, ops)
    full = whole(order_pages.draw(run, result)[1])
    monkeypatch.setattr(order_pages, "BYTES_MAX", len(full) // 3)
    less = whole(order_pages.draw(run, result)[1])
    assert full.count('id="o-') > 100 and 5 < less.count('id="o-') < 60


HOSTILE = '"><script>alert(1)</script>&amp;\x00\x1b[31m'


def test_nothing_of_a_history_becomes_markup(tmp_path: Path) -> None:
    sent = sends(HOSTILE, [HOSTILE, "b"], [0, 1])
    run, result = run_of(tmp_path, woven(sent, polls(HOSTILE, [[1, "b"], [0, HOSTILE], [1, "b"]])))
    pages = order_pages.draw(run, result)
    assert len(pages) == 2
    for page in pages:
        text = whole(page)
        assert "<script" not in text and "\x00" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;\\x00" in text


def test_a_second_check_without_anomalies_leaves_no_pages(tmp_path: Path) -> None:
    run, result = run_of(tmp_path, woven(sends(1, [1, 2], [0, 1]), polls(1, [[1, 2], [0, 1]])))
    assert order_pages.draw(run, result) and order_paths.pages(run)
    assert order_pages.draw(run, Result("valid")) == []
    assert order_paths.pages(run) == [] and not order_paths.index(run).exists()


def test_damaged_or_missing_tables_make_no_pages(tmp_path: Path) -> None:
    run, result = run_of(tmp_path, woven(sends(1, [1, 2], [0, 1]), polls(1, [[1, 2], [0, 1]])))
    for part in (run / "tables" / "sends", run / "tables" / "polls"):
        for file in part.rglob("*.parquet"):
            file.write_bytes(b"PAR1 not really")
    assert order_pages.draw(run, result) == []
    shutil.rmtree(run / "tables")
    assert order_pages.draw(run, result) == []


@pytest.mark.parametrize(
    "witness", [{}, {"key": 1}, {"key": 1, "values": 3}, {"cycle": [1], "steps": [{"type": "ww"}]}]
)
def test_witnesses_of_another_form_are_left_out(tmp_path: Path, witness: dict[str, Any]) -> None:
    run, _ = run_of(tmp_path, woven(sends(1, [1], [0])))
    anomaly = AnomalyFound("new-one", "New.", 1, True, None, (witness,))
    assert order_pages.draw(run, Result("invalid", None, (), (anomaly,))) == []


def test_the_worst_keys_come_first(tmp_path: Path) -> None:
    def witness(key: int, value: int) -> dict[str, int]:
        return {"key": key, "value": value, "writer": 1}

    found = (
        AnomalyFound("lost-write", "Lost.", 3, True, True, (witness(1, 1), witness(2, 1), witness(2, 2))),
        AnomalyFound("G1a", "Aborted.", 1, True, True, (witness(1, 5),)),
        AnomalyFound("int-send-skip", "Fine.", 1, False, None, (witness(3, 5),)),
    )
    ordered = marks.suspects(tmp_path, Result("invalid", True, (), found))
    assert [(one.key, one.counts) for one in ordered] == [
        (1, {"lost-write": 1, "G1a": 1}),
        (2, {"lost-write": 2}),
    ]


def test_windows_are_joined_bounded_and_begin_with_the_worst() -> None:
    assert layout.windows_of([100, 120, 500, 1000], 50, 260) == [(50, 170), (450, 550)]
    assert layout.windows_of([3], 50, 10) == [(0, 53)]
    assert layout.windows_of([], 50, 10) == []


def test_file_names_of_keys_are_safe_and_differ() -> None:
    keys = [7, "7", -7, "a", "A b", "../../x", "é", None, [1], "x" * 300]
    names = [order_paths.file_name(key) for key in keys]
    assert names[:1] == ["key-7.html"] and len(set(names)) == len(keys)
    assert all(re.fullmatch(r"key-[-\w]+\.html", name, re.ASCII) for name in names)


def test_elements_escape_their_text_and_attributes() -> None:
    assert (
        element("a", "<b>&\x01", href='"x"', class_="y") == '<a href="&quot;x&quot;" class="y">&lt;b&gt;&amp;\\x01</a>'
    )


def test_an_offset_with_two_values_has_two_lines_and_what_is_read_again_begins_another_pass(
    tmp_path: Path,
) -> None:
    sent = sends(1, [1, 2, 3, 9], [0, 1, 1, 7])
    run, _ = run_of(tmp_path, woven(sent, polls(1, [[0, 1], [1, 3]]), polls(1, [[1, 3], [7, 9]], 2 * 10**9)))
    facts = lookup.of_run(run)
    assert facts is not None
    section = layout.section(key_records.read(facts, 1, [(0, 50)]), (0, 50), frozenset())
    lines = [
        (one.offset, one.value, one.readers) if isinstance(one, Line) else (one.begin, one.end) for one in section.lines
    ]
    assert lines == [(0, 1, 1), (1, 2, 0), (1, 3, 2), (2, 6), (7, 9, 1)]
    assert [[row.offset for row in one.polls] for one in section.passes] == [[0, 1], [1, 7]]
