"""The client programs in examples/clients pass `harness client check`, but for the failures that `fails` lists.

Three in different languages run in CI, all of them at night.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from harness.clients.exec import examples
from tests.conftest import absent, nightly_if
from tests.e2e.harness_command import harness

IN_CI = ("franz-go", "kafka-python", "platformatic-kafka")
BUILD_AND_CHECK_S = 1800


@pytest.mark.long
@pytest.mark.timeout(BUILD_AND_CHECK_S)
@pytest.mark.parametrize("name", [nightly_if(name not in IN_CI, name) for name in examples.NAMES])
def test_it_follows_the_protocol(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # `make long` installs Go and Node here if the machine has none.
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}")
    example = examples.find(name)
    assert example is not None
    if shutil.which(tool := shlex.split(example.build)[0]) is None:
        absent(f"{tool} is not installed")
    done = harness("client", "check", name, "--client-user", "root", "--json", timeout_s=BUILD_AND_CHECK_S)
    assert done.stdout, done.stderr
    wrong = [
        f"{each['name']}: {each['why']}" for each in json.loads(done.stdout)["cases"] if each["outcome"] == "failed"
    ]
    assert done.returncode == 0 and not wrong, wrong
