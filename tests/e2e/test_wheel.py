"""The wheel, installed into an empty environment outside the checkout: the command and its pytest plugin work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL_S, RUN_S = 300, 240
PLUGIN_USED = """
def test_an_honest_log_is_valid(harness_run, assert_valid):
    assert_valid(harness_run(cluster="sim", time_limit=2, rate=100, concurrency=3, key_count=3))
"""


def _run(*argv: str | Path, cwd: Path, within_s: float) -> str:
    """Returns the output of a command, isolated from this environment and checkout. A failure fails the test."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean["PATH"] = os.pathsep.join(part for part in clean["PATH"].split(os.pathsep) if str(ROOT) not in part)
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=cwd,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert done.returncode == 0, f"{argv} in {cwd}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel, its locked dependencies, and pytest."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = Path(sys.executable).with_name("uv")
    # A copy, because a build leaves files among the sources, and picks up those that an earlier build left.
    unwanted = shutil.ignore_patterns(
        ".*", "build", "runs", "tests", "docs", "*.egg-info", "__pycache__", "node_modules", "target"
    )
    shutil.copytree(ROOT, folder / "sources", ignore=unwanted)
    make = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    _run(*make, "--wheel-dir", folder, folder / "sources", cwd=folder, within_s=120)
    (wheel,) = folder.glob("*.whl")
    base = sys._base_executable  # type: ignore[attr-defined]  # the Python that this environment was made with
    _run(base, "-m", "venv", "env", cwd=folder, within_s=60)
    binaries = folder / "env" / "bin"
    install = (uv, "pip", "install", "--quiet", "--native-tls", "--python", binaries / "python")
    locked = ROOT / "requirements" / "user.lock"
    _run(*install, "--require-hashes", "-r", locked, cwd=folder, within_s=INSTALL_S)
    pytest_of_ours = f"pytest=={pytest.__version__}"
    # All dependencies are installed already, so --no-index fails if the metadata and the lock file disagree.
    _run(binaries / "pip", "install", "--quiet", "--no-index", wheel, cwd=folder, within_s=60)
    _run(*install, pytest_of_ours, cwd=folder, within_s=INSTALL_S)
    _run(binaries / "pip", "check", cwd=folder, within_s=60)
    return binaries


@pytest.mark.long
@pytest.mark.cluster
def test_the_main_job(installed: Path, tmp_path: Path) -> None:
    command = ("run", "--nemesis", "leader-kill", "--acks", "all", "--time-limit", "15")
    printed = _run(installed / "harness", *command, cwd=tmp_path, within_s=RUN_S)
    assert "VALID: no anomaly" in printed
    assert (tmp_path / "runs" / "latest" / "report.html").is_file()


@pytest.mark.long
def test_a_pytest_file_that_uses_the_plugin(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(PLUGIN_USED)
    assert "1 passed" in _run(installed / "pytest", "-q", "test_mine.py", cwd=tmp_path, within_s=RUN_S)
