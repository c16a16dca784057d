"""The session starts quietly, is warm, and reports a missing Java clearly. Each test in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


def _python(code: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_start_is_quiet(spark: object) -> None:
    """The fixture skips the test if there is no Java."""
    code = """
from checker.spark import session
spark = session.start("local[1]")
assert session.start("local[1]") is spark
print(spark.sparkContext.parallelize([1, 2]).map(lambda n: n + 1).sum())
spark.stop()
"""
    done = _python(code, dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


def test_no_java(tmp_path: Path) -> None:
    code = """
from checker.spark import session
from harness.model.errors_and_exit_codes import Missing
try:
    session.start("local[1]")
except Missing as error:
    print(error)
"""
    env = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = _python(code, env)
    assert done.returncode == 0, done.stderr
    assert "needs Java 17 or newer" in done.stdout
    assert done.stdout.count("\n") == 1
