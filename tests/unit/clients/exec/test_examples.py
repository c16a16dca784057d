"""The client programs of examples/clients, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clients.exec import examples
from harness.clients.exec.conformance_cases import CASES
from harness.clients.exec.conformance_error_cases import ERROR_CASES
from harness.model.errors_and_exit_codes import BadInput
from harness.plan.options import ClientFields

ROOT = Path(__file__).parents[4]


def test_every_folder_is_named_in_the_help_and_in_the_documents() -> None:
    folders = sorted(path.parent.name for path in examples.FOLDER.glob("*/client.yaml"))
    folders = [name for name in folders if "@" not in name]  # without the copies for other versions
    assert list(examples.NAMES) == folders
    text = str(ClientFields.model_fields["client"].description) + (ROOT / "docs/use/clients.md").read_text()
    assert all(text.count(name) >= 2 for name in folders)


@pytest.mark.parametrize("name", examples.NAMES)
def test_known_failures_are_cases(name: str) -> None:
    found = examples.find(name)
    assert found is not None and found.client.startswith("exec:") and "$" not in found.client
    assert set(found.fails) <= {case.name for case in (*CASES, *ERROR_CASES)}
    assert all(reason.endswith(".") and reason.count("\n") == 0 for reason in found.fails.values())


@pytest.mark.parametrize("name", ["confluent", "exec:./x", "./franz-go", "../clients/franz-go", "", ".", "go-lines"])
def test_other_clients_are_none_of_them(name: str) -> None:
    assert examples.find(name) is None


def test_an_installed_package_has_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "FOLDER", tmp_path / "examples")
    with pytest.raises(BadInput, match="franz-go is a client program of examples/clients, which is in a checkout"):
        examples.find("franz-go")
    assert examples.find("my-client") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("library: x\n", "language is missing"),
        ("{library: x, language: y, build: z, output: o, command: c, fails: [a]}\n", "`fails` maps"),
        ("{library: x, language: y, build: z, output: o, command: c, fails: {a: 1}}\n", "`fails` maps"),
    ],
)
def test_a_wrong_description(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "client.yaml").write_text(text)
    with pytest.raises(BadInput, match=message):
        examples.read(tmp_path)
