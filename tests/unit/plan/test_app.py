"""The description of an application: app.yaml as part of a plan, and the messages for wrong files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.model.errors_and_exit_codes import BadInput
from harness.plan import from_options, plan_file
from harness.plan.make_plan import make
from harness.plan.resolve import workload_of
from harness.plan.test_plan import TestPlan
from harness.run import allowed_commands

GOOD = """\
command: python3 app.py {bootstrap} {input} {output}
instances: 3
ready: {log: subscribed, within: 5s}
input:
  template: '{"order": {id}}'
output:
  id: {json: order}
promise: exactly-once
"""


def described(tmp_path: Path, text: str, **options: Any) -> TestPlan:
    path = tmp_path / "app.yaml"
    path.write_text(text)
    return from_options.gather({"workload": "app", **options}, None, None, path)[0]


def test_the_plan_has_the_application_and_its_clients(tmp_path: Path) -> None:
    plan = described(tmp_path, GOOD)
    assert plan.app is not None
    assert (plan.instances, plan.writers, plan.concurrency) == (3, 1, 4)
    assert plan.app.folder == str(tmp_path)
    assert plan.app.ready is not None
    assert plan.app.ready.within == 5
    assert described(tmp_path, GOOD, instances=5).concurrency == 6
    assert workload_of(plan).checks == ("pipeline",)


def test_a_stored_plan_is_the_same(tmp_path: Path) -> None:
    plan = described(tmp_path, GOOD)
    stored = tmp_path / "plan.yaml"
    stored.write_text(plan_file.dump(plan))
    assert plan_file.load(stored).app == plan.app
    assert "app" not in yaml.safe_load(plan_file.dump(make({})))


def test_a_stored_command_must_be_allowed(tmp_path: Path) -> None:
    plan = described(tmp_path, GOOD)
    lines: list[str] = []
    with pytest.raises(BadInput, match=r"python3 app\.py.*\n.*--allow-commands"):
        allowed_commands.refuse(plan, allowed_commands.announced(plan, "", False, lines.append))
    allowed_commands.refuse(plan, allowed_commands.announced(plan, "", False, lines.append, app_given=True))
    assert not lines
    allowed_commands.refuse(plan, allowed_commands.announced(plan, "", True, lines.append))
    assert lines == ["executing python3 app.py {bootstrap} {input} {output}"]


def test_samples_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "orders.txt").write_text('{"id": {id}, "kind": "a"}\n\n{"id": {id}, "kind": "b"}\n')
    plan = described(tmp_path, GOOD.replace("template: '{\"order\": {id}}'", "samples: orders.txt"))
    assert plan.app is not None
    assert plan.app.input.values == ('{"id": {id}, "kind": "a"}', '{"id": {id}, "kind": "b"}')


WRONG = {
    "no-command": (GOOD.partition("\n")[2], r"app.yaml:1:1: command is missing"),
    "not-a-mapping": ("- command", r"app.yaml:1:1: an application is a mapping"),
    "misspelt": (GOOD.replace("promise:", "promisse:"), r"app.yaml:8:1: promisse: no such key; did you mean promise\?"),
    "promise": (GOOD.replace("exactly-once", "once"), r"app.yaml:8:10: app.promise once: input should be 'exactly-o"),
    "instances": (GOOD.replace("3", "0"), r"app.yaml:2:12: app.instances 0: input should be greater than or equal"),
    "two-ways": (GOOD.replace("log: s", "port: 80, log: s"), r"app.yaml:3:8: app.ready: set exactly one of log, port"),
    "pattern": (GOOD.replace("subscribed", "'(('"), r"app.yaml:3:14: app.ready.log: not a regular expression: missing"),
    "duration": (GOOD.replace("5s", "soon"), r"app.yaml:3:34: app.ready.within: 'soon' is not a duration"),
    "no-id": (GOOD.replace("{id}}'", "1}'"), r"app.yaml:5:13: app.input.template: put \{id\} where the record's"),
    "placeholder": (GOOD.replace("{input}", "{topic}"), r"app.yaml:1:10: app.command: no placeholder \{topic\}; ch"),
    "no-samples": (
        GOOD.replace("template: '{\"order\": {id}}'", "samples: none.txt"),
        r"app.yaml:5:12: input.samples: cannot read .*none.txt \(No such file or directory\)",
    ),
    "output": (GOOD.replace("json: order", "xml: order"), r"app.yaml:7:8: xml: no such key; .*json, header, key, patt"),
    "quote": (
        'command: "a \'b"\n' + GOOD.partition("\n")[2],
        r"app.yaml:1:10: app.command: cannot be split into words: No closing quotation",
    ),
    "state-without-place": (GOOD + "state: {equals: count}\n", r"app.yaml:9:1: in is missing"),
    "state-function": (
        GOOD + "state: {in: {json: n}, equals: counts}\n",
        r"app.yaml:9:32: app.state.equals: use count, \{sum: PATH\} or \{last: PATH\}",
    ),
    "state-misspelt": (GOOD + "state: {in: {json: n}, equals: {summ: n}}\n", r"9:33: summ: no such key; did you mean"),
    "state-of-inputs": (
        GOOD + "state: {in: {json: n}, equals: {sum: price}}\n",
        r"app.yaml:1:1: app: state.equals: the template of the input has no text or number at the path price",
    ),
    "state-not-a-number": (
        GOOD.replace("{id}}'", '{id}, "name": "x"}\'') + "state: {in: {json: n}, equals: {sum: name}}\n",
        r"state.equals: the template of the input has 'x' at the path name, but a sum needs whole numbers",
    ),
    "port": (GOOD.replace("log: subscribed", "port: 99999"), r"app.yaml:3:15: app.ready.port: 99999 is not a port"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files_are_explained_with_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        described(tmp_path, text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workload": "queue"}, "--workload app and --app FILE must be given together"),
        ({"client": "java"}, "--client java: --workload app writes and reads with confluent"),
        ({"cluster": "sim"}, "--cluster sim has no brokers"),
        ({"clients_per_process": 2}, "--clients-per-process cannot be combined"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        described(tmp_path, GOOD, **options)


def test_a_state_is_part_of_the_plan(tmp_path: Path) -> None:
    plan = described(tmp_path, GOOD + "state: {in: {json: n}, equals: {sum: order}}\n")
    stored = tmp_path / "plan.yaml"
    stored.write_text(plan_file.dump(plan))
    assert plan.app is not None
    assert plan.app.state is not None
    assert plan.app.state.equals.name == "sum"
    assert plan_file.load(stored).app == plan.app
    counting = described(tmp_path, GOOD + "state: {in: {json: n}, equals: count}\n").app
    assert counting is not None
    assert counting.state is not None
    assert counting.state.equals.name == "count"


def test_the_workload_needs_a_file() -> None:
    with pytest.raises(BadInput, match="--workload app and --app FILE must be given together"):
        make({"workload": "app"})
