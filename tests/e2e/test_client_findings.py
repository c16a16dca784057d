"""The reproductions of docs/understand/client-findings.md show their defects.

A reproduction exits with 0 when the library has the defect and with 1 when it does not. A test that fails with exit
code 1 means that a new version has mended it: change docs/understand/client-findings.md.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clients.exec import examples
from harness.run.build_client import build
from tests.conftest import absent
from tests.e2e.persistent_cluster import persistent_cluster, status

FINDINGS = Path(__file__).parents[2] / "docs" / "findings"
# The prefix of a finding's folder -> the client program whose manifest pins the library.
LIBRARIES = {
    "kafka-python": "kafka-python",
    "kafkajs": "kafkajs",
    "platformatic": "platformatic-kafka",
    "sarama": "sarama",
}
# Finding -> the version of the library that has it. The other findings are in the version that the manifest pins.
VERSIONS = {"kafka-python-producer": "3.0.12"}
REPRODUCTIONS = sorted(path for name in LIBRARIES for path in FINDINGS.glob(f"{name}-*/reproduce.*"))
BUILD_S, RUN_S = 600, 120

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(BUILD_S + RUN_S)]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """The address of a broker."""
    with persistent_cluster("--nodes", "1", "--network", "loopback") as name:
        yield status(name)["outside_bootstrap"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of examples/clients without anything that was built there."""
    ignored = shutil.ignore_patterns("build", "node_modules", "target")
    return Path(shutil.copytree(examples.FOLDER, tmp_path_factory.mktemp("findings") / "clients", ignore=ignored))


def command(script: Path, program: examples.Example) -> list[str]:
    """Installs the library in the folder of its client program; returns the command that runs a reproduction there."""
    if shutil.which(tool := shlex.split(program.build)[0]) is None:
        absent(f"{tool} is not installed")
    here = program.folder
    if script.suffix == ".go":  # `go run` would replace the exit code
        binary = here / "build" / script.parent.name
        subprocess.run(["go", "build", "-o", str(binary), str(script)], cwd=here, check=True, timeout=BUILD_S)
        return [str(binary)]
    build(program, print)
    return [str(program.output) if script.suffix == ".py" else "node", str(script)]


@pytest.mark.parametrize("script", REPRODUCTIONS, ids=lambda script: script.parent.name)
def test_the_defect_is_still_there(script: Path, bootstrap: str, programs: Path) -> None:
    (name,) = (name for prefix, name in LIBRARIES.items() if script.parent.name.startswith(f"{prefix}-"))
    program = examples.read(programs / name, VERSIONS.get(script.parent.name, ""))
    words = [*command(script, program), bootstrap]
    done = subprocess.run(words, cwd=program.folder, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "expected" in done.stdout, done.stdout + done.stderr


def test_every_finding_has_a_page_and_a_reproduction() -> None:
    table = (FINDINGS.parent / "understand" / "client-findings.md").read_text()
    missing = [path.parent.name for path in REPRODUCTIONS if f"../findings/{path.parent.name}/README.md" not in table]
    assert not missing and all((path.parent / "README.md").exists() for path in REPRODUCTIONS)
