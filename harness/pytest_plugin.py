"""Runs of the harness as tests: a pytest plugin, there wherever the harness is installed.

    def test_nothing_is_lost(harness_run, assert_valid):
        assert_valid(harness_run(nemesis="leader-kill", acks="all", time_limit=30))

    pytest --harness-cluster sim --harness-seed 7

`harness_run(**options)` carries out a run and returns it (`harness.stored.stored_run.Run`); the options are those of
`harness run` with `_` for `-`, and win over those of the command line. `kafka_cluster` is a cluster that
stays for all the tests of a session: runs of a test that asks for it attach to it. With --harness-cluster
local:NAME or docker:NAME every run attaches to a cluster that `harness cluster up NAME` started, and nothing
here starts or ends one. `assert_valid(run)` fails with the run's summary and the path of its page; and so
does any other failing test that has made runs.
Without a test that asks for any of it, the plugin costs nothing: what it needs is imported then.
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

# Clusters on other hosts need a file that describes them.
KINDS: Final = tuple(kind for kind in CLUSTERS if kind != "ssh")
STAYING: Final = tuple(kind for kind in KINDS if CLUSTERS[kind].can_stay)
ONE_OF: Final = f"one of {', '.join(KINDS)}, or local:NAME or docker:NAME, which is up already"
SHOWN: Final = "harness run"
_RUNS: Final = pytest.StashKey[list["Run"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """--harness-cluster, --harness-kafka-version, --harness-seed, --harness-runs."""
    group = parser.getgroup("harness", "fault-injection tests of Kafka-like logs")
    group.addoption("--harness-cluster", default="local", help=f"where runs go: {ONE_OF} [default: local]")
    group.addoption("--harness-bootstrap", default="", help="addresses, with --harness-cluster external")
    group.addoption("--harness-kafka-version", default="", help="Kafka version of the runs' brokers")
    group.addoption("--harness-seed", type=int, default=None, help="seed of every run [default: drawn]")
    group.addoption("--harness-runs", default="", help="folder for the runs [default: one of the test's own]")


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """A cluster for many runs.

    kind       local, docker, external, mock or sim
    name       of one that stays, or empty
    bootstrap  addresses for clients of your own; empty where nothing listens before a run
    """

    kind: str
    name: str = ""
    bootstrap: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """What tells a run to use it."""
        chosen = {"cluster": f"{self.kind}:{self.name}" if self.name else self.kind}
        return chosen | ({"bootstrap": self.bootstrap} if self.kind == "external" else {})


def _options_of_pytest(config: pytest.Config) -> dict[str, Any]:
    """Options of runs from the command line of pytest."""
    chosen: str = config.getoption("--harness-cluster")
    kind, colon, name = chosen.partition(":")
    if kind == "ssh":
        raise pytest.UsageError(
            f"--harness-cluster {chosen}: clusters on other hosts are not for this plugin; give {ONE_OF}"
        )
    if kind not in KINDS or (colon and not (kind in STAYING and name)):
        raise pytest.UsageError(f"--harness-cluster {chosen}: {ONE_OF}")
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
    """A cluster that is up for the whole session; of mock and sim, of which each run has one, the kind."""
    chosen = _options_of_pytest(request.config)
    kind, _, named = chosen["cluster"].partition(":")
    if kind not in STAYING:
        yield KafkaCluster(kind, "", chosen.get("bootstrap", ""))
        return
    from harness.model.errors_and_exit_codes import HarnessError
    from harness.persistent import lifecycle

    if named:  # somebody else's: it stays as it is
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
    """A cluster that is up, as its keeper tells of it. Raises BadInput for one that is not."""
    from harness.persistent import commands

    states = commands.status(name, kind)
    return KafkaCluster(kind, name, str(states[0].get("outside_bootstrap") or "") if states else "")


@pytest.fixture
def harness_run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Run]:
    """Carries out runs: `harness_run(nemesis="leader-kill", acks="all", time_limit=30)`."""
    chosen = _options_of_pytest(request.config)
    if "kafka_cluster" in request.fixturenames:
        if ":" not in chosen["cluster"]:
            chosen.pop("kafka_version", None)  # the cluster was started with it
        chosen |= request.getfixturevalue("kafka_cluster").options
    runs = Path(request.config.getoption("--harness-runs") or tmp_path / "runs")
    made: list[Run] = request.node.stash.setdefault(_RUNS, [])

    def run(**options: Any) -> Run:
        from harness.model.errors_and_exit_codes import HarnessError
        from harness.run import test
        from harness.stored import stored_run

        try:
            plan = _plan({**chosen, **options})
            outcome = test.run(plan, runs, lambda text: None, quiet=True, commands=plan.client)
        except HarnessError as error:
            pytest.fail(f"harness run: {error}", pytrace=False)
        made.append(stored_run.Run(outcome.folder))
        return made[-1]

    return run


def _plan(options: dict[str, Any]) -> Any:
    """A plan of options by their names on the command line (time_limit), or in plans (time_limit_s)."""
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
    return make_plan.make(values)


def assert_valid(run: Run) -> None:
    """Fails with the run's summary and the path of its page, unless the verdict is valid."""
    __tracebackhide__ = True
    if run.results.valid != "valid":
        pytest.fail(summary(run), pytrace=False)


@pytest.fixture(name="assert_valid")
def _assert_valid() -> Callable[[Run], None]:
    """The function, for tests that do not import it."""
    return assert_valid


def summary(run: Run) -> str:
    """What the run found, and where to look on."""
    from harness.report.text.summary import summary as text_of

    page = run.path / "report.html"
    text = text_of(run.path, run.results)
    return f"{text}\n\nopen: {page if page.is_file() else run.path}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails tells of its runs."""
    report = yield
    if report.failed and call.when == "call":
        text = str(report.longrepr)
        for run in item.stash.get(_RUNS, []):
            if str(run.path) not in text:
                report.sections.append((f"{SHOWN} {run.path.name}", summary(run)))
    return report
