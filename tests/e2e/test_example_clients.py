"""The client programs in examples/clients: each is built as its client.yaml says, and passes `harness client check`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness_command import harness

FOLDER = Path(__file__).parents[2] / "examples" / "clients"
CLIENTS = sorted(path.parent.name for path in FOLDER.glob("*/client.yaml"))
TOOLS = {"Go": "go", "Rust": "cargo", "JavaScript": "node", "Java": "java", "Python": "python3"}
BUILD_S = 1200


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_it_follows_the_protocol(tmp_path: Path, name: str) -> None:
    facts = yaml.safe_load((FOLDER / name / "client.yaml").read_text())
    tool = TOOLS[facts["language"]]
    if shutil.which(tool) is None:
        assert "CI" not in os.environ, f"{tool} is not installed"
        pytest.skip(f"{tool} is not installed")
    copy = tmp_path / "clients"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("build", "node_modules", "target"))
    here = copy / name
    subprocess.run(facts["build"], shell=True, cwd=here, check=True, timeout=BUILD_S)
    program, *arguments = facts["command"].split()
    path = str(here / program) if "/" in program else program
    command = " ".join([path, *(str(here / each) if (here / each).exists() else each for each in arguments)])
    done = harness("client", "check", command, "--client-user", "root", "--json", timeout_s=600)
    report = json.loads(done.stdout)
    wrong = [f"{each['name']}: {each['why']}" for each in report["cases"] if each["outcome"] == "failed"]
    assert done.returncode == 0 and not wrong, wrong
