"""`--spark-master none`: this process runs the kernels that Spark's tasks call, and finds the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.run import check_and_draw
from tests.e2e.harness_command import harness, run

pytestmark = pytest.mark.spark


def files(folder: Path) -> dict[str, bytes]:
    """The files with witnesses that a check stores."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_is_judged_alike_with_spark_and_without(spark: Any, tmp_path: Path) -> None:
    ran = run(tmp_path, "--cluster", "sim", "--sim-bugs", "lose-acked", "--txn", "--time-limit", "3", "--seed", "7")
    plain, witnesses = ran.result, files(ran.folder / "results")
    assert plain["valid"] is False and witnesses
    check_and_draw.check_run(ran.folder, check_and_draw.options_of(ran.folder), spark, print)
    assert ran.result == plain
    assert files(ran.folder / "results") == witnesses

    again = harness("check", str(ran.folder), "--spark-master", "none")
    assert again.returncode == ran.code == 1, again.stderr
    assert ran.result == plain


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        (("run", "--workload", "pipeline", "--cluster", "mock"), "--workload pipeline"),
        (("offsets", "--pattern", "java", "service.log"), "harness offsets"),
        (("qos", "--bootstrap", "127.0.0.1:1", "--input", "a", "--output", "b"), "the live check"),
    ],
)
def test_what_needs_spark_says_so(tmp_path: Path, command: tuple[str, ...], needs: str) -> None:
    (tmp_path / "service.log").touch()
    named = [str(tmp_path / part) if part.endswith(".log") else part for part in command]
    done = harness(*named, "--spark-master", "none")
    assert done.returncode == 254 and done.stderr.count("\n") == 1
    assert f"--spark-master none: {needs} needs Spark; use local[N]" in done.stderr
