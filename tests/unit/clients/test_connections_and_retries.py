"""The file with connection settings: what is allowed in it, and that no message contains a value from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clients.confluent.settings_and_errors import consumer_config, producer_config
from harness.clients.connection import hidden, load, redacted
from harness.clients.settings import parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.plan.make_plan import make


def written(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text)
    return path


def test_properties_comments_and_variables(tmp_path: Path) -> None:
    text = "# hello\n\nsecurity.protocol = SASL_SSL\nsasl.password=${A}-${B}=\nssl.key.password=k\n"
    found = load(written(tmp_path, text), {"A": "x", "B": "y"})
    expected = {
        "security.protocol": "SASL_SSL",
        "sasl.password": "x-y=",
        "ssl.key.password": "k",
    }
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sasl.password=${NOT_SET}\n", ":1: the environment variable NOT_SET is not set"),
        ("\nsecret-alone\n", ":2: not of the form key=value"),
        ("sasl.username=me\nsasl.username=secret\n", ":2: sasl.username is given twice"),
        ("sasl.jaas.config=secret\n", ":1: sasl.jaas.config is a property of Java clients"),
        ("bootstrap.servers=secret\n", "--bootstrap"),
        ("acks=secret\n", "is not a connection property"),
        ("security-protocol=secret\n", "did you mean security.protocol?"),
    ],
)
def test_mistakes_have_a_place_and_no_value(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        load(written(tmp_path, text), {})
    assert message in str(error.value) and "secret" not in str(error.value)


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.key.location"])
def test_a_missing_file_is_named_by_its_property(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, f"security.protocol=SSL\n{name}=${{WHERE}}/ca.pem\n")
    (tmp_path / "ca.pem").write_text("")
    assert load(path, {"WHERE": str(tmp_path)})[name] == f"{tmp_path}/ca.pem"
    with pytest.raises(BadInput, match=rf"client\.properties: the file of {name} does not exist; use the path"):
        load(path, {"WHERE": "/nowhere"})


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        load(tmp_path / "nowhere")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        load(binary)


def test_a_librarys_words_lose_their_secrets() -> None:
    connection = {"sasl.password": "hunter2", "security.protocol": "SASL_SSL"}
    assert hidden("SASL_SSL: hunter2 is wrong", connection) == "SASL_SSL: <sasl.password> is wrong"


def test_short_secrets_are_replaced_as_whole_words() -> None:
    connection = {"sasl.username": "me", "sasl.password": "a", "ssl.key.password": "s"}
    text = "sasl message of 'me': password=a, key s; me:a@host, also <a>"
    assert hidden(text, connection) == (
        "sasl message of '<sasl.username>': password=<sasl.password>, key <ssl.key.password>; "
        "<sasl.username>:<sasl.password>@host, also <<sasl.password>>"
    )


def test_a_replacement_is_not_searched_for_further_secrets() -> None:
    assert hidden("sasl-user", {"sasl.password": "sasl-user", "sasl.username": "sasl"}) == "<sasl.password>"
    assert redacted("no secrets", {"": "***"}) == "no secrets"


def test_every_client_connects_so_and_shows_nothing() -> None:
    connection = {"security.protocol": "SASL_SSL", "sasl.password": "hunter2"}
    made = parse_settings({"bootstrap": "b:1", "run": "r", "connection": connection})
    assert "hunter2" not in repr(made)
    for config in (producer_config(made), consumer_config(made)):
        assert config["sasl.password"] == "hunter2"


@pytest.mark.parametrize("option", ["producer_config", "consumer_config"])
def test_secrets_do_not_go_into_the_plan(option: str) -> None:
    with pytest.raises(BadInput, match="--client-config") as error:
        make({option: {"sasl.password": "hunter2"}})
    assert "hunter2" not in str(error.value)
