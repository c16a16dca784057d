"""Properties of Kafka's Java client from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clients.java import connection_file
from harness.model.errors_and_exit_codes import BadInput


def test_lines_comments_and_variables(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text('# how\n\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=P required password="${P}";\n')
    assert connection_file.load(path, {"P": "hush"}) == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": 'P required password="hush";',
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=${GONE}", ":1: the environment variable GONE is not set"),
        ("a", ":1: not of the form key=value"),
        ("\nisolation.level=x", ":2: isolation.level is set by the harness"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.properties"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        connection_file.load(path, {})
    with pytest.raises(BadInput, match="cannot be read"):
        connection_file.load(tmp_path / "none", {})
