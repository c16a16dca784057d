"""Nothing outside of a run is served or exported: 200 paths, links, pipes, hosts, methods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from harness.report.page import run_page
from harness.web import paths, static_site
from harness.web.run_list import Catalogue
from tests.unit.web import many
from tests.unit.web.serving import Served, serving

SECRET: Final = b"what-nobody-may-see"
RUN: Final = "20260101T000000-run"
UPS: Final = (
    "..",
    "%2e%2e",
    ".%2e",
    "%2E.",
    "%252e%252e",
    "..%00",
    "..;",
    "%c0%ae%c0%ae",
    "%uff0e%uff0e",
    ". .",
)
SLASHES: Final = ("/", "%2f", "%5c", "\\", "%252f", "//", "/./")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is full of ways out, beside things that are not to be seen."""
    base = tmp_path_factory.mktemp("paths")
    folder = many.make(base / "runs", RUN, 3)
    outside = many.make(base / "elsewhere", "other", 5)
    for secret in (base / "secret.txt", base / "runs" / "secret.txt", outside / "secret.txt"):
        secret.write_bytes(SECRET)
    (outside / "plan.yaml").write_bytes(b"workload: " + SECRET)
    (outside / "report.html").write_bytes(SECRET)
    (folder / "link").symlink_to(base / "secret.txt")
    (folder / "up").symlink_to("..")
    (folder / "etc").symlink_to("/etc")
    (folder / "circle").symlink_to("circle")
    (folder / "report.html").symlink_to(outside / "report.html")
    (folder / "inner").symlink_to("plan.yaml")
    (folder / "orders").symlink_to(outside)
    (folder / "extra").mkdir()
    (folder / "extra" / "n1").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    (base / "runs" / "out").symlink_to(outside)
    (base / "runs" / "latest").symlink_to(RUN)
    (base / "runs" / "experiments").symlink_to(base / "elsewhere")
    (base / "runs" / "matrix" / "x").mkdir(parents=True)
    (base / "runs" / "matrix" / "x" / "results.json").symlink_to(outside / "results.json")
    return base / "runs"


@pytest.fixture(scope="module")
def served(runs: Path) -> Iterator[Served]:
    with serving(runs) as made:
        yield made


def escaping_targets(base: Path) -> list[str]:
    """More than 200 that ask for something outside."""
    starts = ("", f"runs/{RUN}/files/", f"runs/{RUN}/files/extra/", "runs/", "runs/latest/", "experiments/")
    found = [
        f"/{start}{slash.join([up] * depth)}{slash}secret.txt"
        for depth, start in enumerate(starts, 1)
        for up in UPS
        for slash in SLASHES
    ]
    files = f"/runs/{RUN}/files"
    found += [
        f"{files}/{name}"
        for name in (
            "link",
            "up/secret.txt",
            "etc/passwd",
            "circle",
            "pipe",
            "extra/n1/secret.txt",
            "orders/secret.txt",
            "orders/index.html",
            "up",
            "",
            ".",
            "/",
            "//etc/passwd",
            "/etc/passwd",
            "%2fetc%2fpasswd",
            f"{base}/secret.txt",
            f"%2f{base}/secret.txt",
            "plan.yaml/",
            "plan.yaml/x",
            "a" * 300,
            "a/" * 3000,
            "%",
            "%0",
            "%zz",
            "plan.yaml%00",
            "plan.yaml%00.png",
            "%00",
            "~",
            "~root",
            "C:%5c",
            "plan.yaml%20",
            "PLAN.YAML",
            "file:///etc/passwd",
            "?secret.txt",
            "#x",
            "%ff%fe",
            "\u00e9",
            "history",
            "history/",
        )
    ]
    found += [
        "/runs/out/index.html",
        "/runs/out/files/secret.txt",
        "/runs/out/run.zip",
        "/runs/out/files.html",
        "/runs/secret.txt",
        "/runs/secret.txt/index.html",
        "/runs/secret.txt/files/x",
        "/runs/",
        "/runs//",
        f"/runs//{RUN}/index.html",
        "/secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "http://127.0.0.1/etc/passwd",
        "file:///etc/passwd",
        "*",
        "x",
        "",
        "?",
        f"{base}/secret.txt",
        f"/{base}/secret.txt",
        "/" + "a" * 9000,
        "/" * 500,
        "/experiments/other.html",
        "/experiments/../secret.txt.html",
        "/compare.html?run=out&run=latest",
        "/compare.html?run=../elsewhere/other&run=latest",
        f"/compare.html?run={base}&run=/etc",
        "/compare.html?" + "run=a&" * 100,
        "/index.html?page=-1",
        "/index.html?sort=__class__&down=x&page=9e9",
    ]
    return found


def test_paths_lead_nowhere_else(served: Served, runs: Path) -> None:
    targets = escaping_targets(runs.parent)
    assert len(set(targets)) >= 200
    for path in targets:
        answer = served.raw(b"GET %s HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (path.encode(), served.port))
        assert SECRET not in answer and b"root:" not in answer and b"Traceback" not in answer, path
        status = int(answer.split(b" ", 2)[1])
        assert status in ((200,) if path.startswith("/index.html?") else (200, 302, 400, 404, 414)), path
        if "secret" in path or "etc" in path:
            assert status in (302, 400, 404, 414) or b"not found" in answer or "?" in path, path
    assert served.log == []


def test_what_is_inside_is_served(served: Served) -> None:
    for path in (
        f"/runs/{RUN}/files/plan.yaml",
        "/runs/latest/files/inner",
        f"/runs/{RUN}/files/%70lan.yaml",
    ):
        assert b"workload: queue" in served.get(path).body
    for page in ("/index.html", "/experiments.html", "/matrix.html"):
        assert "other" not in served.get(page).text and "Not shown" not in served.get(page).text
    moved = served.get(f"/runs/{RUN}")
    assert (moved.status, moved.headers["location"]) == (302, f"/runs/{RUN}/index.html")
    listed = served.get(f"/runs/{RUN}/files.html").text
    assert "plan.yaml" in listed and "secret" not in listed and "pipe" not in listed
    page = served.get(f"/runs/{RUN}/files/report.html")  # the link leads out, so a page is made
    assert page.status == 200 and SECRET not in page.body and b"INVALID" not in page.body
    assert SECRET not in served.get(f"/runs/{RUN}/run.zip").body


def test_only_loopback_is_answered_and_nothing_is_changed(served: Served) -> None:
    port = served.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert served.get("/index.html", host).status == 200
    for host in (
        "127.0.0.1",
        "localhost",
        f"example.invalid:{port}",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.1.nip.io:{port}",
        f"localhost.:{port}",
        f"0.0.0.0:{port}",
        f"127.0.0.2:{port}",
        "",
        f"a@127.0.0.1:{port}",
        f"127.0.0.1:0{port}",
    ):
        assert served.get("/index.html", host).status == 403, host
    twice = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: x:{port}\r\n\r\n".encode()
    assert b" 403 " in served.raw(twice).split(b"\r\n")[0]
    assert b" 403 " in served.raw(b"GET / HTTP/1.0\r\n\r\n").split(b"\r\n")[0]
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"):
        reply = served.get("/index.html", method=method)
        assert reply.status in (405, 501) and "<" not in reply.text
    head = served.get("/index.html", method="HEAD")
    assert (head.status, head.body) == (200, b"") and int(head.headers["content-length"]) > 1000
    assert served.made.server_address[0] == "127.0.0.1"
    assert b" 400 " in served.raw(b"<script>\r\n\r\n").split(b"\r\n")[0]


def test_files_are_nothing_that_runs(served: Served, runs: Path) -> None:
    folder = runs / RUN
    kinds = {
        "x.html": "text/plain",
        "x.svg": "image/svg+xml",
        "x.js": "text/plain",
        "x.xhtml": "text/plain",
        "x.pdf": "application/octet-stream",
        "x.parquet": "application/octet-stream",
        "x": "text/plain",
        "x.PNG": "image/png",
        "x.swf": "application/octet-stream",
    }
    for name, kind in kinds.items():
        (folder / name).write_text("<script>alert(1)</script>")
        reply = served.get(f"/runs/{RUN}/files/{name}")
        assert reply.headers["content-type"].startswith(kind), name
        assert reply.headers["x-content-type-options"] == "nosniff"
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "sandbox" in policy and "script-src" not in policy
        assert ("attachment" in reply.headers.get("content-disposition", "")) == ("octet" in kind)
        (folder / name).unlink()
    for page in ("/index.html", f"/runs/{RUN}/index.html", "/nowhere"):
        policy = served.get(page).headers["content-security-policy"]
        assert "script-src" not in policy and "default-src 'none'" in policy and "unsafe" not in policy


def test_an_export_has_nothing_from_outside(runs: Path, tmp_path: Path) -> None:
    folder = runs / RUN
    (folder / "evil.html").write_text("<script>alert(1)</script>")
    (folder / "evil.svg").write_text("<svg onload=alert(1) />")
    (folder / "page").write_text("<script>alert(1)</script>")
    site = tmp_path / "site"
    assert static_site.export(runs, site, print) == 1
    files = [path for path in site.rglob("*") if not path.is_dir()]
    assert len(files) > 15
    for path in files:
        assert path.is_file() and not path.is_symlink()
        content = path.read_bytes()
        assert SECRET not in content and b"root:" not in content, path
        if path.suffix == ".html":
            assert b"Content-Security-Policy" in content[:200], path
    exported = site / "runs" / RUN / "files"
    assert {path.name for path in exported.glob("evil*")} == {"evil.html.txt", "evil.svg.txt"}
    assert (exported / "page.txt").is_file() and (exported / "inner").is_file() is False
    assert (exported / "plan.yaml").read_bytes() == (folder / "plan.yaml").read_bytes()
    for name in ("evil.html", "evil.svg", "page"):
        (folder / name).unlink()


@pytest.mark.parametrize("name", ["plan.yaml", "history", "tables/ops/00000.parquet", "logs/n1", "results.json"])
def test_a_run_whose_own_files_are_elsewhere_is_not_shown(tmp_path: Path, name: str) -> None:
    elsewhere = many.make(tmp_path, "elsewhere", 5)
    (elsewhere / "plan.yaml").write_bytes(b"workload: " + SECRET)
    folder = many.make(tmp_path / "runs", RUN, 5)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(tmp_path / "away")
    path.symlink_to(elsewhere / name if (elsewhere / name).exists() else elsewhere)
    static_site.export(tmp_path / "runs", tmp_path / "site", print)
    assert [row.verdict for row in Catalogue(tmp_path / "runs").rows()] == ["unreadable"]
    with serving(tmp_path / "runs") as served:
        for page in ("index.html", "files.html", "run.zip", "files/report.html", "files/plan.yaml"):
            reply = served.get(f"/runs/{RUN}/{page}")
            assert reply.status == 404 and "is a link to a place outside" in reply.text
    assert sorted(path.name for path in (tmp_path / "site" / "runs" / RUN).iterdir()) == ["index.html"]
    assert not [path for path in (tmp_path / "site").rglob("*.html") if SECRET in path.read_bytes()]


def test_the_page_of_a_run_is_one_that_this_version_would_write(tmp_path: Path) -> None:
    folder = many.make(tmp_path / "runs", RUN, 5)
    kept = tmp_path / "site" / "runs" / RUN / "files" / "report.html"
    with serving(tmp_path / "runs") as served:
        for stored in (b"<script>alert(1)</script>", b"", b"<!doctype html>\n<html lang='en'>" + SECRET):
            (folder / "report.html").write_bytes(stored)
            reply = served.get(f"/runs/{RUN}/files/report.html")
            assert reply.status == 200 and b"alert(1)" not in reply.body and SECRET not in reply.body
            assert RUN in reply.text
        static_site.export(tmp_path / "runs", tmp_path / "site", print)
        assert b"alert(1)" not in kept.read_bytes() and SECRET not in kept.read_bytes()
        page = run_page.draw(folder).read_bytes()
        reply = served.get(f"/runs/{RUN}/files/report.html")
        assert reply.body == page
        script = reply.headers["content-security-policy"].split("script-src ")[1].split(";")[0]
        assert script.startswith("'sha256-") and " " not in script
        assert script.strip("'").encode() in page[:500]


def test_a_path_is_taken_apart_once() -> None:
    assert paths.parts("/a%2520b/c?x=/../") == ("a%20b", "c")
    assert paths.parts("/") == ("",)
    assert paths.parts("/runs/x/") == ("runs", "x", "")
    for bad in (
        "",
        "x",
        "*",
        "/..",
        "/a/../b",
        "/a//b",
        "/%2e%2e/x",
        "/a%2fb",
        "/a%00",
        "/é",
        "/" + "x" * 9000,
    ):
        assert paths.parts(bad) is None, bad
    for name in ("a b", "ä", "..x", "a\\b", "\udcff", "%2e", "?#&", "javascript:alert(1)"):
        assert paths.parts(f"/{paths.segment(name)}") == (name,)
        assert ":" not in paths.segment(name)
