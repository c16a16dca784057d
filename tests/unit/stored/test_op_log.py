"""Finding single ops and positions in large files without reading them completely."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from harness.model import op, op_json
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import Op
from harness.stored import line_search
from harness.stored.op_log import OpLog, each, index_of


def sent(index: int, size: int = 1) -> Op:
    return Op(index, index * 1000, 0, op.OK, "send", [["send", 1, [index, value]] for value in range(size)])


def written(folder: Path, parts: list[list[Op]]) -> Path:
    (folder / "history").mkdir(parents=True)
    for number, ops in enumerate(parts):
        text = op_json.header("run-1", number, 5_000_000_000, 0) + b"".join(map(op_json.encode, ops))
        (folder / "history" / f"{number:05d}.jsonl").write_bytes(text)
    return folder


class Counted(io.BytesIO):
    """A file that counts the bytes read from it."""

    read_bytes = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.read_bytes += len(line)
        return line


@pytest.mark.parametrize("size", [1, 30, 5000])
def test_every_op_is_found_by_its_index_in_any_segment(tmp_path: Path, size: int) -> None:
    parts = [[sent(n, size if n % 7 == 0 else 1) for n in range(low, low + 400)] for low in (0, 400, 800)]
    log = OpLog(written(tmp_path, parts))
    assert all(log.at(n) == sent(n, size if n % 7 == 0 else 1) for n in range(0, 1200, 13))
    assert log.at(1200) is None and log.at(-1) is None
    assert log.header is not None and (log.header.run, log.header.wall_ns) == ("run-1", 5_000_000_000)


def test_finding_an_op_reads_little_of_a_large_segment() -> None:
    file = Counted(b"".join(op_json.encode(sent(n, 20)) for n in range(40_000)))
    size = len(file.getvalue())
    for wanted in (0, 1, 20_000, 39_999):
        file.read_bytes = 0
        assert line_search.seek(file, index_of, wanted)
        assert index_of(file.readline()) == wanted
        assert file.read_bytes < 4 * line_search.NEAR < size / 20
    assert not line_search.seek(file, index_of, 40_000)


def test_gaps_in_indices_and_damaged_lines_have_no_answer(tmp_path: Path) -> None:
    folder = written(tmp_path, [[sent(1), sent(5), sent(9)]])
    with (folder / "history" / "00000.jsonl").open("ab") as file:
        file.write(b'{"index":12,"time_ns":1,"pro')
    log = OpLog(folder)
    assert log.at(5) == sent(5)
    assert log.at(6) is None and log.at(12) is None and log.at(13) is None


def test_a_folder_without_a_history_has_no_answers(tmp_path: Path) -> None:
    log = OpLog(tmp_path)
    assert log.at(0) is None and log.header is None and list(each(tmp_path)) == []


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    run = written(tmp_path, [[sent(0)]])
    os.mkfifo(run / "history" / "00001.jsonl")
    with pytest.raises(BadInput, match=r"00001\.jsonl: not a regular file"):
        OpLog(run)
    with pytest.raises(BadInput, match="not a regular file"):
        list(each(run))
