"""How the commands for stored histories interpret a path."""

from __future__ import annotations

from pathlib import Path

from harness.run.choose_spark import bytes_of


def test_the_size_of_a_history_is_that_of_its_file_or_of_all_parts_of_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    parts = {"history/00000.jsonl": 30, "history/00001.jsonl": 12, "pipeline/read-0.jsonl": 8}
    for name, size in parts.items():
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (run / "report.html").write_bytes(b"x" * 1000)
    assert bytes_of(run) == 50
    assert bytes_of(run / "history" / "00000.jsonl") == 30
    packed = tmp_path / "history.edn.gz"
    packed.write_bytes(b"x" * 10)
    assert bytes_of(packed) == 80
