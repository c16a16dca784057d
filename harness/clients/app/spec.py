"""The description of an application under test: the content of app.yaml, and of the field `app` of a plan.

    command: python3 consumer.py {bootstrap} {group} {input} {output}
    instances: 2
    ready: {log: "subscribed"}                           or {port: 8080}, or {group: true}
    input: {template: '{"order": {id}, "customer": {key}}'}
    output: {id: {json: order}}                          or {header: NAME}, or {key: true}
    state: {in: {json: total}, equals: {sum: amount}}    or count, or {last: amount}
    promise: exactly-once

Texts may contain placeholders. In `command`, `environment`, `group` and `ready.port`: {bootstrap}, {input}, {output},
{group}, {instance}, {state} and {run}. In `input`: {id} and {key}. All other braces are ordinary text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from harness.clients.app.json_text import text_at
from harness.model.errors_and_exit_codes import BadInput
from harness.yaml_data import Loaded, Place, load, seconds

PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
OF_PROCESS: Final = ("bootstrap", "input", "output", "group", "instance", "state", "run")
SAMPLES_MAX: Final = 1000
SAMPLES_BYTES_MAX: Final = 256 << 10
FILE_LINES: Final = "samples"
COUNT: Final = "count"

Duration = Annotated[float, BeforeValidator(seconds), Field(ge=0.1, le=3600)]


def filled(text: str, values: Mapping[str, Any]) -> str:
    """Returns a text with each placeholder replaced by its value. Braces around other words stay."""
    return PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), text)


def _of_process(text: str) -> str:
    """Returns the text. Raises ValueError if it has a placeholder that a process does not get."""
    for found in PLACEHOLDER.finditer(text):
        if found[1] not in OF_PROCESS:
            raise ValueError(f"no placeholder {found[0]}; choose from {', '.join(f'{{{n}}}' for n in OF_PROCESS)}")
    return text


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


def _exactly_one(part: _Part, names: Sequence[str]) -> None:
    given = [name for name in names if getattr(part, name.replace("json", "json_")) not in (None, False)]
    if len(given) != 1:
        raise ValueError(f"set exactly one of {', '.join(names)}")


def _regular_expression(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


def _with_a_group(pattern: str) -> str:
    _regular_expression(pattern)
    if re.compile(pattern).groups != 1:
        raise ValueError(r"needs exactly one group, as in order-(\d+)")
    return pattern


def _with_id(value: Any) -> Any:
    """Returns the value of records, or a list of them. Raises ValueError if one of them has no id."""
    for number, text in enumerate((value,) if isinstance(value, str) else value or (), 1):
        if "{id}" not in text:
            which = "" if isinstance(value, str) else f"sample {number}: "
            raise ValueError(f"{which}put {{id}} where the record's unique number belongs")
    return value


class Ready(_Part):
    """When an instance is ready: it printed a line, listens on a port, or the group has all its members.

    log     regular expression, searched for in each line of standard output and standard error
    port    TCP port of 127.0.0.1 in the instance's network, such as 8080, or "808{instance}"
    group   whether to wait until the consumer group has as many members as there are instances
    within  seconds after which an instance that is not ready ends the run
    """

    log: str | None = Field(None, min_length=1, max_length=1000)
    port: int | str | None = None
    group: bool = False
    within: Duration = 30.0

    _log_is_regular = field_validator("log")(_regular_expression)

    @field_validator("port")
    @classmethod
    def _port(cls, port: int | str | None) -> int | str | None:
        if port is None:
            return None
        number = filled(_of_process(str(port)), {"instance": 0})
        if not number.isdecimal() or not 0 < int(number) < 1 << 16:
            raise ValueError(f"{port} is not a port number from 1 to 65535")
        return port

    @model_validator(mode="after")
    def _one(self) -> Ready:
        _exactly_one(self, ("log", "port", "group"))
        return self


class Input(_Part):
    """The input records.

    template  value of every record, with {id} for the record's unique number and {key} for its key
    samples   values of records, used in turn; in app.yaml a list, or the name of a file with one in each line
    key       key of every record
    """

    template: Annotated[str | None, AfterValidator(_with_id)] = Field(None, max_length=1 << 16)
    samples: Annotated[tuple[str, ...] | None, AfterValidator(_with_id)] = Field(
        None, min_length=1, max_length=SAMPLES_MAX
    )
    key: str = Field("{key}", max_length=1000)

    @property
    def values(self) -> tuple[str, ...]:
        return self.samples or (self.template or "",)

    @model_validator(mode="after")
    def _one(self) -> Input:
        _exactly_one(self, ("template", "samples"))
        return self


class PlaceInOutput(_Part):
    """A place in an output record.

    json     path of a field of the JSON value, such as order.id or items.0.id
    header   name of a header
    key      the record's key
    pattern  regular expression that the whole text at this place must match; its first group is the wanted part
    """

    json_: str | None = Field(None, alias="json", min_length=1)
    header: str | None = Field(None, min_length=1)
    key: bool = False
    pattern: Annotated[str, AfterValidator(_with_a_group)] = "(.*)"

    @model_validator(mode="after")
    def _one(self) -> PlaceInOutput:
        _exactly_one(self, ("json", "header", "key"))
        return self


class OutputId(PlaceInOutput):
    """Where an output record names its input record, by a whole number."""

    pattern: Annotated[str, AfterValidator(_with_a_group)] = r"(\d+)"


class OutputRecords(_Part):
    """The output records.

    id     where an output names its input
    count  number of outputs of each input
    """

    id: OutputId
    count: int = Field(1, ge=1, le=1000)


class StateFunction(_Part):
    """What the state of a key must be after an input record: a function of the key's records up to this one.

    count  their number; written as `equals: count`
    sum    the sum of the whole numbers, from 0, at this path of their JSON values
    last   the text or number at this path of the JSON value of this record
    """

    count: bool = False
    sum: str | None = Field(None, min_length=1)
    last: str | None = Field(None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if isinstance(value, str) and value != COUNT:
            raise ValueError("use count, {sum: PATH} or {last: PATH}")
        return {COUNT: True} if value == COUNT else value

    @model_validator(mode="after")
    def _one(self) -> StateFunction:
        _exactly_one(self, (COUNT, "sum", "last"))
        return self

    @property
    def name(self) -> str:
        return COUNT if self.count else "sum" if self.sum is not None else "last"


class State(_Part):
    """The state that an application keeps for each key, as its outputs show it.

    in      where an output contains the state of its input's key, after that input
    equals  what this state must be
    """

    in_: PlaceInOutput = Field(alias="in")
    equals: StateFunction


class Stop(_Part):
    """How an instance is ended: the signal, and the seconds after which it is killed."""

    signal: Literal["SIGTERM", "SIGINT"] = "SIGTERM"
    grace: Duration = 10.0


class App(_Part):
    """An application under test.

    command      a command line, split into words as a shell does, but not executed by a shell
    state        the state that the outputs show, and what it must be; None: it is not checked
    group        the consumer group whose committed offsets say which input records are done
    restart      whether an instance that exits by itself is started again
    environment  environment variables with their values
    folder       folder in which the command is executed; set from the place of app.yaml
    """

    command: str = Field(min_length=1, max_length=1 << 16)
    instances: int = Field(2, ge=1, le=100)
    ready: Ready | None = None
    input: Input
    output: OutputRecords
    state: State | None = None
    group: str = Field("{run}-group", min_length=1)
    promise: Literal["exactly-once", "at-least-once", "at-most-once"]
    stop: Stop = Stop()
    restart: bool = True
    environment: dict[str, str] = {}
    folder: str = ""

    @field_validator("command")
    @classmethod
    def _words(cls, command: str) -> str:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"cannot be split into words: {error}") from None
        if not words:
            raise ValueError("is empty")
        return _of_process(command)

    @field_validator("group")
    @classmethod
    def _group(cls, group: str) -> str:
        if "{group}" in group:
            raise ValueError("the group's own name cannot contain {group}")
        return _of_process(group)

    @field_validator("environment")
    @classmethod
    def _environment(cls, environment: dict[str, str]) -> dict[str, str]:
        for name, value in environment.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(
                    f"{name!r} is not a valid name of an environment variable: use letters, digits and _, and do not "
                    "begin with a digit"
                )
            _of_process(value)
        return environment

    @model_validator(mode="after")
    def _one(self) -> App:
        for number, text in enumerate(self.input.values if self.state is not None else (), 1):
            problem = _state_problem(self.state, filled(text, {"id": 1, "key": 1}))
            if problem is not None:
                which = f"sample {number}" if self.input.samples else "the template"
                raise ValueError(f"state.equals: {which} of the input {problem}")
        return self


def _state_problem(state: State | None, value: str) -> str | None:
    """Returns why the state cannot be computed from inputs with this value; None if it can."""
    if state is None or state.equals.count:
        return None
    path = state.equals.sum or state.equals.last or ""
    found = text_at(value, path)
    if found is None:
        return f"has no text or number at the path {path}"
    if state.equals.sum is not None and not re.fullmatch(r"\d{1,18}", found, re.ASCII):
        return f"has {found[:40]!r} at the path {path}, but a sum needs whole numbers of up to 18 digits, from 0"
    return None


PARTS: Final[Mapping[Place, type[BaseModel]]] = {
    (): App,
    ("ready",): Ready,
    ("input",): Input,
    ("output",): OutputRecords,
    ("output", "id"): OutputId,
    ("state",): State,
    ("state", "in"): PlaceInOutput,
    ("state", "equals"): StateFunction,
    ("stop",): Stop,
}


def keys(place: Place) -> Sequence[str]:
    """Returns the keys that are allowed in a mapping of app.yaml.

    place  the path of keys from the root of the file to the mapping
    """
    return [field.alias or name for name, field in PARTS.get(place, App).model_fields.items() if name != "folder"]


def read(path: Path) -> Loaded:
    """Returns the content of app.yaml without validating it.

    Adds the folder of the file, and replaces the name of a file of samples by its lines. Raises BadInput.
    """
    loaded = load(path, "an application")
    if not isinstance(loaded.data, dict):
        raise BadInput(f"{loaded.where((), True)}: an application is a mapping, which starts with `command:`")
    given = loaded.data.get("input")
    if isinstance(given, dict) and isinstance(given.get(FILE_LINES), str):
        given[FILE_LINES] = _lines(path.parent / given[FILE_LINES], loaded.where(("input", FILE_LINES), True))
    if "folder" in loaded.data:
        raise BadInput(f"{loaded.where(('folder',))}: folder: no such key; the command is executed beside this file")
    loaded.data["folder"] = str(path.absolute().parent)
    return loaded


def _lines(path: Path, at: str) -> list[str]:
    try:
        with path.open("rb") as file:
            raw = file.read(SAMPLES_BYTES_MAX + 1)
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise BadInput(f"{at}: input.samples: cannot read {path} ({why})") from None
    if len(raw) > SAMPLES_BYTES_MAX:
        raise BadInput(f"{at}: input.samples: {path} is larger than {SAMPLES_BYTES_MAX >> 10} KiB: use fewer samples")
    found = [line for line in text.splitlines() if line.strip()]
    if not found:
        raise BadInput(f"{at}: input.samples: {path} has no lines")
    return found
