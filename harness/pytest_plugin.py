"""A pytest plugin with which tests carry out runs of the harness. It is active wherever the harness is installed.

    def test_nothing_is_lost(harness_run, assert_valid):
        assert_valid(harness_run(nemesis="leader-kill", acks="all", time_limit=30))

    pytest --harness-cluster sim --harness-seed 7

harness_run(**options)  carries out a run and returns it (`harness.stored.stored_run.Run`). The options are those of
                        `harness run`, with `_` for `-`. They override those of pytest's command line.
                        `app` is the path of an app.yaml; it implies workload="app".
kafka_cluster           a cluster that stays up for all tests of a session. If a test uses this fixture, its runs use
                        this cluster.
assert_valid(run)       fails, with the run's summary and the path of its page, unless the run is valid. (If a test
                        fails for another reason, its report shows the summaries of its runs, too.)

With --harness-cluster local:NAME or docker:NAME, every run uses a cluster that `harness cluster up NAME` started. The
plugin then neither starts nor stops a cluster.

If no test uses these fixtures, the plugin costs nothing: it imports the harness only when needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.cluster.table import CLUSTERS

if TYPE_CHECKING:
    from harness.stored.stored_run import Run
    from harness.yaml_data import Place

# An ssh cluster needs a file that describes its hosts.
KINDS: Final = tuple(kind for kind in CLUSTERS if kind != "ssh")
STAYING: Final = tuple(kind for kind in KINDS if CLUSTERS[kind].can_stay)
ONE_OF: Final = f"one of {', '.join(KINDS)}, or local:NAME or docker:NAME for a cluster that is already up"
SHOWN: Final = "harness run"
_RUNS: Final = pytest.StashKey[list["Run"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --harness-cluster and the other options of the plugin."""
    group = parser.getgroup("harness", "fault-injection tests of Kafka-like logs")
    group.addoption("--harness-cluster", default="local", help=f"cluster that runs use: {ONE_OF} [default: local]")
    group.addoption("--harness-bootstrap", default="", help="broker addresses, with --harness-cluster external")
    group.addoption("--harness-kafka-version", default="", help="Kafka version of the brokers")
    group.addoption("--harness-seed", type=int, default=None, help="seed of every run [default: random]")
    group.addoption("--harness-runs", default="", help="folder for the runs [default: a temporary one per test]")


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """A cluster for the runs of several tests.

    kind       local, docker, external, mock or sim
    name       the cluster's name if all runs share it; empty if each run starts a cluster of its own, or for external
    bootstrap  addresses for your own Kafka clients; empty if no broker can be reached yet
    """

    kind: str
    name: str = ""
    bootstrap: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The options of `harness run` that make a run use this cluster."""
        chosen = {"cluster": f"{self.kind}:{self.name}" if self.name else self.kind}
        return chosen | ({"bootstrap": self.bootstrap} if self.kind == "external" else {})


def _options_of_pytest(config: pytest.Config) -> dict[str, Any]:
    """Returns the options for runs that pytest's command line sets."""
    chosen: str = config.getoption("--harness-cluster")
    kind, colon, name = chosen.partition(":")
    if kind == "ssh":
        raise pytest.UsageError(
            f"--harness-cluster {chosen}: the plugin does not support ssh clusters; choose {ONE_OF}"
        )
    if kind not in KINDS or (colon and not (kind in STAYING and name)):
        raise pytest.UsageError(f"--harness-cluster {chosen}: no such cluster; choose {ONE_OF}")
    options: dict[str, Any] = {"cluster": chosen}
    if kind == "external":
        options["bootstrap"] = config.getoption("--harness-bootstrap")
    if version := config.getoption("--harness-kafka-version"):
        options["kafka_version"] = version
    if (seed := config.getoption("--harness-seed")) is not None:
        options["seed"] = seed
    return options


@pytest.fixture(scope="session")
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Fixture: a cluster that stays up for the whole test session.

    With mock and sim nothing stays up: each run starts its own cluster.
    """
    chosen = _options_of_pytest(request.config)
    kind, _, named = chosen["cluster"].partition(":")
    if kind not in STAYING:
        yield KafkaCluster(kind, "", chosen.get("bootstrap", ""))
        return
    from harness.model.errors_and_exit_codes import HarnessError
    from harness.persistent import lifecycle

    if named:  # started by the user, so it is not stopped here
        try:
            cluster = _started(kind, named)
        except HarnessError as error:
            pytest.fail(f"--harness-cluster {kind}:{named}: {error}", pytrace=False)
        yield cluster
        return
    name = f"pytest-{os.getpid()}"
    try:
        plan = _plan({**{key: chosen[key] for key in chosen if key != "seed"}, "outside": kind == "local"})
        lifecycle.start(name, plan, lambda text: None)
    except HarnessError as error:
        pytest.fail(f"the cluster did not start: {error}", pytrace=False)
    try:
        yield _started(kind, name)
    finally:
        lifecycle.stop(name, True, lambda text: None)


def _started(kind: str, name: str) -> KafkaCluster:
    """Returns the cluster with this kind and name, with its addresses. Raises BadInput if it is not up."""
    from harness.persistent import commands

    states = commands.status(name, kind)
    return KafkaCluster(kind, name, str(states[0].get("outside_bootstrap") or "") if states else "")


@pytest.fixture
def harness_run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Run]:
    """Fixture: a function that carries out a run.

    For example, `harness_run(nemesis="leader-kill", acks="all", time_limit=30)`.
    """
    chosen = _options_of_pytest(request.config)
    if "kafka_cluster" in request.fixturenames:
        if ":" not in chosen["cluster"]:
            chosen.pop("kafka_version", None)  # the cluster was started with it
        chosen |= request.getfixturevalue("kafka_cluster").options
    runs = Path(request.config.getoption("--harness-runs") or tmp_path / "runs")
    made: list[Run] = request.node.stash.setdefault(_RUNS, [])

    def run(**options: Any) -> Run:
        from harness.model.errors_and_exit_codes import HarnessError
        from harness.run import allowed_commands, test
        from harness.stored import stored_run

        try:
            plan = _plan({**chosen, **options})
            outcome = test.run(plan, runs, lambda text: None, quiet=True, commands=allowed_commands.commands_of(plan))
        except HarnessError as error:
            pytest.fail(f"harness run: {error}", pytrace=False)
        made.append(stored_run.Run(outcome.folder))
        return made[-1]

    return run


def _plan(options: dict[str, Any]) -> Any:
    """Returns a plan. Options may have their names on the command line (time_limit) or in plans (time_limit_s)."""
    from harness.clients.app import spec
    from harness.plan import make_plan
    from harness.plan.test_plan import TestPlan, option_name

    named = {option_name(field)[2:].replace("-", "_"): field for field in TestPlan.model_fields}
    values: dict[str, Any] = {}
    for name, value in options.items():
        field = named.get(name, name)
        info = TestPlan.model_fields.get(field)
        several = info is not None and isinstance(info.get_default(call_default_factory=False), tuple)
        if several and isinstance(value, str):
            value = tuple(part.strip() for part in value.split(",") if part.strip() and part != "none")
        values[field] = value
    if "app" not in values:
        return make_plan.make(values)
    app = spec.read(Path(values["app"]))

    def where(place: Place, value: bool = False) -> str:
        return app.where(place[1:], value) if place[:1] == ("app",) else ""

    return make_plan.make({"workload": "app", **values, "app": app.data}, where)


def assert_valid(run: Run) -> None:
    """Fails with the run's summary and the path of its page, unless the verdict is valid."""
    __tracebackhide__ = True
    if run.results.valid != "valid":
        pytest.fail(summary(run), pytrace=False)


@pytest.fixture(name="assert_valid")
def _assert_valid() -> Callable[[Run], None]:
    """Fixture: the function `assert_valid`, for tests that do not import it."""
    return assert_valid


def summary(run: Run) -> str:
    """Returns the text that describes a run in a test report: its summary, and the path of its page."""
    from harness.report.text.summary import summary as text_of

    page = run.path / "report.html"
    text = text_of(run.path, run.results)
    return f"{text}\n\nopen: {page if page.is_file() else run.path}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """If a test has failed, adds the summaries of its runs to its report."""
    report = yield
    if report.failed and call.when == "call":
        text = str(report.longrepr)
        for run in item.stash.get(_RUNS, []):
            if str(run.path) not in text:
                report.sections.append((f"{SHOWN} {run.path.name}", summary(run)))
    return report
