"""Pages about runs, runs in progress, and unusual files; hostile strings stay text."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import orjson
import pytest
import yaml

from harness.cli import app
from harness.history_writer import OWNER
from harness.model import op_json
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import OK, Op
from harness.web import past_results, read_live_history, run_query, static_site, zip_archive
from harness.web.run_list import Catalogue
from harness.web.site import Site
from tests.unit.report.folders import judged, recorded
from tests.unit.web import many
from tests.unit.web.serving import Served, serving
from tests.web.hostile import STRINGS


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand runs, experiments and matrices."""
    runs = tmp_path_factory.mktemp("thousand") / "runs"
    names = many.many(runs, 1000)
    many.experiment(runs, "20260301T000000-a", "2026-03-01T00:00:00Z", 5, 5, names[:2])
    many.experiment(runs, "20260302T000000-b", "2026-03-02T00:00:00Z", 2, 5, names[2:4])
    many.matrix(runs, "20260301T000000", [0, 1, 2])
    many.matrix(runs, "20260302T000000", [0, 0, 0])
    return runs


@pytest.fixture(scope="module")
def served(thousand: Path) -> Iterator[Served]:
    with serving(thousand) as made:
        yield made


class Links(HTMLParser):
    """Elements, attributes and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


KNOWN: Final = frozenset(
    re.findall(
        r"\w+",
        "html head meta link title style body a nav main h1 h2 h4 p form label select option input button "
        "div table thead tbody tr th td span i b small section ul li code pre figure img figcaption br "
        "svg g path rect text circle",
    )
)
LINK: Final = re.compile(r"(\.\./)*[\w%][\w.%/~-]*(\?[\w=&;%+.~-]*)?|\?[\w=&;%+.~-]*|/\w+\.html|#main|data:,")


def shown(text: str) -> Links:
    """The links of a page; checks that it has only known elements and attributes."""
    found = Links(text)
    assert found.tags <= KNOWN, found.tags - KNOWN
    assert not any(name.startswith("on") for name in found.attributes)
    for link in found.links:
        assert LINK.fullmatch(link), link
    return found


def names(text: str) -> list[str]:
    """The runs on a page of the list, in order."""
    return re.findall(r'name="run" value="([^"]*)"', text)


def test_a_thousand_runs_are_listed_and_not_read_again(thousand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(thousand)
    opened: list[str] = []
    real = io.open

    def counting(file: Any, *arguments: Any, **more: Any) -> Any:
        opened.append(str(file))
        return real(file, *arguments, **more)

    monkeypatch.setattr(io, "open", counting)
    rows = catalogue.rows()
    assert len(rows) == 1000 and len(opened) == 3000  # a plan, a result and the end of a history each
    opened.clear()
    assert catalogue.rows() == rows and opened == []
    changed = rows[7].path / "results.json"
    os.utime(changed, ns=(1, 1))
    catalogue.rows()
    assert changed.as_posix() in opened and len(opened) == 3


def test_sort_filter_search_and_pages(served: Served) -> None:
    first = served.get("/")
    assert names(first.text)[0] == "20260301T000999-run" and len(names(first.text)) == 200
    assert "page 1 of 5" in first.text
    assert names(served.get("/index.html?page=5").text)[-1] == "20260301T000000-run"
    assert names(served.get("/?sort=run&down=0").text)[0] == "20260301T000000-run"
    assert names(served.get("/?sort=anomalies").text)[0] == "20260301T000995-run"
    bad = served.get("/?verdict=invalid&workload=delivery&anomaly=lost-write").text
    assert names(bad) and all(int(one[9:15]) % 20 == 0 for one in names(bad))
    assert all(int(one[9:15]) % 5 == 4 for one in names(served.get("/?q=KILL:client+unknown").text))
    assert len(names(served.get("/?q=kill:leader+%22acks+1%22&fault=kill:leader").text)) == 66
    assert names(served.get("/?q=000123").text) == ["20260301T000123-run"]
    assert "No run matches" in served.get("/?q=nothing+like+it").text
    for page in (first.text, bad):
        shown(page)


def test_every_link_leads_somewhere(served: Served) -> None:
    seen: set[str] = set()
    for page in (
        "/index.html",
        "/experiments.html",
        "/matrix.html",
        "/runs/20260301T000005-run/index.html",
        "/runs/20260301T000005-run/files.html",
        "/experiments/acks-1.html",
    ):
        base = page.rpartition("/")[0].split("/")[1:]
        for link in shown(served.get(page).text).links:
            path = link.replace("&amp;", "&").partition("?")[0]
            if path in ("", "data:,", "#main") or "/runs/" in path[4:]:
                continue
            parts = base.copy()
            for part in path.split("/"):
                parts = parts[:-1] if part == ".." else [*parts, part]
            seen.add("/" + "/".join(parts))
    assert len(seen) > 200
    wrong = [path for path in sorted(seen)[::9] if served.get(path).status != 200]
    assert wrong in ([], ["/compare.html"])
    assert served.get("/compare.html").status == 404


def test_two_runs_side_by_side(served: Served) -> None:
    text = served.get("/compare.html?run=20260301T000000-run&run=20260301T000001-run").text
    assert "Settings that differ" in text and "kill:leader" in text and "pause:leader" in text
    assert text.index("20260301T000000-run") < text.index("20260301T000001-run")
    one = served.get("/compare.html?run=20260301T000000-run")
    assert one.status == 404 and "select two" in one.text
    assert "there is no run nothing here" in served.get("/compare.html?run=nothing&run=latest").text
    since = served.get("/runs/20260301T000025-run/compare.html").text
    assert "20260301T000015-run" in since and 'href="../../runs/' in since  # queue, pause:leader
    first = served.get("/runs/20260301T000000-run/compare.html")
    assert first.status == 404 and "no run before" in first.text


def test_experiments_and_matrices_over_time(served: Served, thousand: Path) -> None:
    listed = served.get("/experiments.html").text
    assert "2 of 5" in listed and "5 of 5" not in listed
    text = served.get("/experiments/acks-1.html").text
    assert "2026-03-01T00:00:00Z: 5 of 5; 2026-03-02T00:00:00Z: 2 of 5" in text
    assert 'href="../runs/20260301T000002-run/index.html"' in text
    matrix = served.get("/matrix.html").text
    assert matrix.index("3 of 3") < matrix.index("1 of 2")
    broken = {
        "newer": {"schema": 9},
        "list": [1],
        "half": {
            "schema": 1,
            "experiment": "x",
            "title": "",
            "began": "",
            "cases": [
                {
                    "case": {"name": "x", "variant": "", "title": ""},
                    "versions": "",
                    "attempts": [],
                    "seen": [["x", 5, 1, True]],
                }
            ],
        },
    }
    for name, content in broken.items():
        (thousand / "experiments" / name).mkdir()
        (thousand / "experiments" / name / "results.json").write_bytes(orjson.dumps(content))
    assert len(past_results.Results(thousand).read().broken) == 3
    text = served.get("/experiments.html").text
    assert text.count("Not shown:") == 3 and "newer version (schema 9)" in text
    assert (
        past_results.slug("../../x").startswith("-")
        and past_results.slug("..").startswith("-")
        and past_results.slug("a-1") == "a-1"
    )


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    folder = many.going(tmp_path)
    site = Site(tmp_path)
    at = f"/runs/{folder.name}/index.html"
    text = site.answer(at).body.decode()
    assert 'http-equiv="refresh"' in text and "running" in text and "kill:leader n2" in text
    assert 'http-equiv="refresh"' not in site.answer(f"{at}?still=1").body.decode()
    assert "inconsistent-offsets" in text and "restart: kill:leader n1" in text
    reading = site.views.watches.look(folder)
    assert reading.progress.by_f["send"]["ok"] == 60 and len(reading.first.unread) == 30 and reading.whole

    history = folder / "history" / "00000.jsonl"
    line = op_json.encode(Op(999, 99 * many.S, 1, OK, "poll", [["poll", [[1, [[45, 45]]]]]]))
    with history.open("ab") as file:
        file.write(line[:50])
    assert site.views.watches.look(folder).progress.by_f["poll"]["ok"] == 1  # an incomplete line is read later
    with history.open("ab") as file:
        file.write(line[50:] + b"no op\n[]\n" + line.replace(b"ok", b"zz") + line.replace(b'"poll"', b"7"))
    reading = site.views.watches.look(folder)
    progress = reading.progress
    assert progress.by_f["poll"]["ok"] == 2 and progress.end_ns == 99 * many.S and reading.skipped == 4
    (folder / "history" / "00001.jsonl").write_bytes(b'{"schema":1}\n' + line)
    assert site.views.watches.look(folder).progress.by_f["poll"]["ok"] == 3

    by_pieces = read_live_history.Watch(folder)
    for _ in range(10_000):
        if by_pieces.read(1000).whole:
            break
    assert by_pieces.reading.progress.by_f == progress.by_f
    assert by_pieces.reading.first.messages == reading.first.messages

    for path in (folder / "history").iterdir():
        os.utime(path, (1, 1))
    text = site.answer(at).body.decode()
    assert "cut off" in text and "harness check" in text and 'http-equiv="refresh"' not in text
    (folder / OWNER).unlink()
    assert "was not judged" in site.answer(at).body.decode()


def test_half_a_run_another_schema_and_edited_files(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (runs / "only-history" / "history").mkdir(parents=True)
    (runs / "only-plan").mkdir()
    (runs / "only-plan" / "plan.yaml").write_text("workload: queue\n")
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
    )
    contents = {
        "newer": (None, b'{"schema": 99, "valid": true}'),
        "torn": (None, b'{"schema": 1, "va'),
        "list": (None, b"[]"),
        "edited": (
            None,
            orjson.dumps(
                {
                    "schema": 1,
                    "valid": False,
                    "promised": "?",
                    "reasons": [],
                    "anomalies": [
                        {"name": "x", "summary": "", "count": 3, "bad": True, "witnesses": [{"a": [[[]]]}]},
                        {"name": "lost-write", "summary": "", "count": -1, "bad": True, "witnesses": [{"key": {}}]},
                    ],
                    "statistics": {"sent": "many", "by_f": {"send": 7}, "rates": 5, "latencies": [1], "ops": {}},
                }
            ),
        ),
        "huge": (b"time_limit_s: 1" + b"0" * 400, None),
        "deep": (b"[" * 600, None),
        "steps": (b"- " * 3_000, None),
        "bomb": (bomb.encode(), None),
        "odd": (
            yaml.safe_dump(
                {
                    "nemesis": {"a": 1},
                    "acks": [1],
                    "versions": [],
                    "started": 5,
                    "client": {},
                    "time_limit_s": "x",
                    7: 8,
                    "schedule": [None],
                }
            ).encode(),
            b'{"valid": true}',
        ),
        "binary": (bytes(range(256)), bytes(range(256))),
    }
    for name, (plan, results) in contents.items():
        folder = many.make(runs, name, 1)
        for file, content in (("plan.yaml", plan), ("results.json", results)):
            if content is not None:
                (folder / file).write_bytes(content)
    with serving(runs) as served:
        listed = served.get("/").text
        assert len(names(listed)) == len(contents) + 2 and "unreadable" in listed
        for name in (*contents, "only-history", "only-plan"):
            for page in ("index.html", "files.html", "compare.html", "files/report.html", "run.zip"):
                reply = served.get(f"/runs/{name}/{page}")
                assert reply.status in ((200, 404) if page == "compare.html" else (200,)), (name, page)
                assert b"Traceback" not in reply.body
            for other in ("newer", "edited", "odd"):
                assert served.get(f"/compare.html?run={name}&run={other}").status in (200, 404)
        assert "schema 99; this version reads schemas up to 1" in served.get("/runs/newer/index.html").text
        assert "not JSON" in served.get("/runs/torn/index.html").text
        assert "was not judged" in served.get("/runs/only-plan/index.html").text
        assert served.log == []
    assert static_site.export(runs, tmp_path / "site", print) == len(contents) + 2


def file_names(texts: tuple[str, ...]) -> list[str]:
    """Those that are valid file names on this system."""
    return [one for one in texts if one and "/" not in one and "\0" not in one and len(one.encode()) < 200]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """As names of runs and files, in plans, results and experiments; through server, export and ZIP."""
    runs = tmp_path / "runs"
    texts = [
        *file_names(STRINGS),
        *(one.replace("/", "\\") for one in STRINGS if "/" in one and len(one) < 200),
    ]
    texts = list(dict.fromkeys([*texts, os.fsdecode(b"\xff\xfe"), "...", "a?b#c&d%2e", "C:\\x"]))
    assert len(texts) >= 100
    for number, text in enumerate(texts):
        folder = many.make(runs, text, number)
        plan = yaml.safe_load((folder / "plan.yaml").read_text())
        fields = {"nemesis": [text], "workload": text, "acks": text, "versions": {"kafka": text}}
        if text.isprintable():
            (folder / "plan.yaml").write_text(yaml.safe_dump(plan | fields))
        result = orjson.loads((folder / "results.json").read_bytes())
        clean = text.encode(errors="replace").decode()
        result |= {"valid": False, "reasons": [clean], "checker_version": clean}
        result["anomalies"] = [
            {"name": clean, "summary": clean, "count": 1, "bad": True, "witnesses": [{clean: clean}]}
        ]
        (folder / "results.json").write_bytes(orjson.dumps(result))
    run = many.going(runs)
    (run / "logs").mkdir()
    for text in texts:
        (run / text).write_text(text, errors="replace")
        (run / "logs" / text).mkdir()
        (run / "logs" / text / "server.log").write_text(text, errors="replace")
    many.experiment(runs, texts[0], texts[1], 1, 1, texts[:3], experiment=texts[2], title=texts[3])
    many.experiment(runs, "plain", "", 1, 1, [], experiment="../../../../tmp/x", title="")
    many.matrix(runs, texts[4], [0])
    with serving(runs) as served:
        listed = served.get("/index.html").text
        assert len(names(listed)) == len(texts) + 1
        every = [link for link in shown(listed).links if link.startswith("runs/")]
        assert len(every) == len(texts) + 1
        assert [link for link in every if served.get(f"/{link}").status != 200] == []
        pages = ["/experiments.html", "/matrix.html", f"/runs/{run.name}/index.html"]
        pages += [f"/{link}" for link in every[::10]]
        pages += [f"/?q={quote(text, errors='replace')}&fault={quote(text, errors='replace')}" for text in texts[::8]]
        pages += [
            f"/compare.html?run={quote(os.fsencode(one))}&run={quote(os.fsencode(texts[0]))}" for one in texts[1::20]
        ]
        pages += [f"/{quote(os.fsencode(text))}" for text in texts[::20]]
        for page in pages:
            shown(served.get(page).text)
        files = shown(served.get(f"/runs/{run.name}/files.html").text).links
        mine = [link for link in files if link.startswith("files/")]
        assert len(mine) == 2 * len(texts) + 3
        for link in mine[::7]:
            reply = served.get(f"/runs/{run.name}/{link}")
            assert reply.status == 200 and "html" not in reply.headers["content-type"]
        archive = zipfile.ZipFile(io.BytesIO(served.get(f"/runs/{run.name}/run.zip").body))
        assert archive.testzip() is None and len(archive.namelist()) == len(mine)
        for name in archive.namelist():
            assert not re.search(r'[\\:<>"|?*\x00-\x1f]|(^|/)\.\.?(/|$)', name) and not name.startswith("/")
        assert served.log == []
    site = tmp_path / "site"
    assert static_site.export(runs, site, print) == len(texts) + 1
    for path in site.rglob("*.html"):
        if path.name != "report.html":
            shown(path.read_text())
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "site"}


def test_a_zip_is_the_run(tmp_path: Path) -> None:
    folder = many.make(tmp_path, "run", 5)
    (folder / "big.bin").write_bytes(bytes(3_000_000))
    os.utime(folder / "big.bin", (0, 0))
    os.utime(folder / "plan.yaml", (9e9, 9e9))
    out = io.BytesIO()
    zip_archive.write(folder, out)
    archive = zipfile.ZipFile(out)
    expected = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    assert {name: archive.read(name) for name in archive.namelist()} == expected


def test_a_static_site_links_to_its_own_files(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for number in range(12):
        many.make(runs, f"run-{number}", number)
    many.experiment(runs, "a", "2026-03-01T00:00:00Z", 1, 1, ["run-1"])
    judged(recorded(runs, "judged", []))
    static_site.export(runs, tmp_path / "site", print)
    checked = 0
    for page in (tmp_path / "site").rglob("*.html"):
        if page.parent.name == "files":
            continue
        for link in shown(page.read_text()).links:
            if link not in ("data:,", "#main"):
                target = (page.parent / link.replace("%20", " ")).resolve()
                assert target.is_file(), (page, link)
                checked += 1
    assert checked > 300
    assert names((tmp_path / "site" / "index.html").read_text()) == []
    first = (tmp_path / "site" / "by-anomalies.html").read_text()
    assert first.index("run-10") < first.index("run-5") < first.index("run-1/")


def test_what_cannot_be_served_or_exported_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    many.make(runs, "run", 1)
    (tmp_path / "file").write_text("")
    with serving(runs) as served:
        cases = {
            f"--runs {runs} --port {served.port}": "is in use; choose another --port",
            f"--runs {tmp_path}/file": "not a folder of runs",
            f"--runs {runs} --port 70000": "65535",
            f"--runs {tmp_path}/none --export {tmp_path}/site": "not a folder of runs",
            f"--runs {runs} --export {runs}": "choose a new or an empty folder",
            f"--runs {runs} --export {runs}/site": "is inside the folder of runs",
            f"--runs {runs} --export {tmp_path}/file": "choose a new or an empty folder",
            f"--runs {runs} --export {tmp_path}/file/x": "choose a new folder",
        }
        for arguments, message in cases.items():
            assert app.invoke(["serve", *arguments.split()]) == 254, arguments
            output = capsys.readouterr()
            assert message in output.err and output.err.count("\n") <= 2 and "Traceback" not in output.err, arguments
    for empty in (tmp_path / "nothing", tmp_path / "empty"):
        if empty.name == "empty":
            empty.mkdir()
        with serving(empty) as served:
            assert "harness run --nemesis leader-kill" in served.get("/").text
            for page in ("/experiments.html", "/matrix.html"):
                assert "There are no results of" in served.get(page).text
    (tmp_path / "nothing").write_text("")
    with pytest.raises(BadInput):
        Catalogue(tmp_path / "nothing").rows()


def test_queries_that_make_no_sense_are_left_out() -> None:
    query = run_query.of({"sort": ["x"], "page": ["\u0663"], "q": [" a "], "down": ["yes"], "other": ["z"]})
    assert query == run_query.Query(q="a", down=False)
    assert query.link(page=3) == "?q=a&sort=run&down=0&page=3"
    assert run_query.Query().link() == "?"
