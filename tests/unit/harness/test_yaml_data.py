"""YAML that users write: strict, and every complaint has its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import yaml_data
from harness.model.errors_and_exit_codes import BadInput


def loaded(tmp_path: Path, text: str | bytes) -> yaml_data.Loaded:
    path = tmp_path / "f.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return yaml_data.load(path, "a plan")


def test_data_and_where_it_stands(tmp_path: Path) -> None:
    found = loaded(tmp_path, "a: 1\nb:\n  - c: x\n    d: [1, 2]\n  - e\n")
    path = tmp_path / "f.yaml"
    assert found.data == {"a": 1, "b": [{"c": "x", "d": [1, 2]}, "e"]}
    assert found.where(("a",)) == f"{path}:1:1"
    assert found.where(("a",), value=True) == f"{path}:1:4"
    assert found.where(("b", 0, "d")) == f"{path}:4:5"
    assert found.where(("b", 0, "d", 1), value=True) == f"{path}:4:12"
    assert found.where(("b", 1)) == f"{path}:5:5"
    assert found.where(("b", 0, "missing")) == f"{path}:3:5"
    assert found.where(("nothing",)) == f"{path}:1:1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1,\nb: 2", r":2:5: not a plan"),
        ("a: 1\nb: 2\na: 3\n", r":3:1: not a plan \(duplicate key 'a'\)"),
        ("a: {b: 1, b: 2}\n", r":1:11: not a plan \(duplicate key 'b'\)"),
        (
            "a: !!python/object:os.system {}\n",
            r":1:4: not a plan \(tag:yaml.org,2002:python/object:os.system",
        ),
        ("a: !!python/name:os.system x\n", r":1:4: not a plan"),
        ("a: !!set {x, y}\n", r":1:4: not a plan \(tag:yaml.org,2002:set is not plain data"),
        ("? [1, 2]\n: x\n", r":1:3: not a plan \(a key must be a plain value"),
        ("a: 2020-13-45\n", r"f.yaml: not a plan \(month must be"),
        ("a: \t- b\n", r":1:4: not a plan"),
        ("\x00", r"not a plan"),
        (b"\xff\xfe\xff", r"not a plan"),
        ("[" * 60 + "]" * 60, r":1:52: not a plan \(nested too deeply"),
        ("[" * 100_000, r"not a plan \(nested too deeply"),
        ("a" * (yaml_data.BYTES_MAX + 1), r"larger than 1048576 bytes"),
    ],
)
def test_what_is_refused_says_where(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        loaded(tmp_path, text)


def test_aliases_count_as_often_as_they_are_used(tmp_path: Path) -> None:
    assert loaded(tmp_path, "a: &x [1]\nb: *x\n").data == {"a": [1], "b": [1]}
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    with pytest.raises(BadInput, match="too many values"):
        loaded(tmp_path, laughs)


def test_an_alias_of_itself_is_nested_too_deeply(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nested too deeply"):
        loaded(tmp_path, "a: &x [*x]\n")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gone.yaml: cannot read a schedule \(No such file"):
        yaml_data.load(tmp_path / "gone.yaml", "a schedule")


def test_nothing_is_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, "# nothing\n").data is None
