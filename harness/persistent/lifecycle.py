"""Starts and stops persistent clusters, for the command line. Their keeper process is `harness.persistent.server`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.cluster.distribution import download_cache
from harness.cluster.local import namespaces, process_owner
from harness.cluster.persistent import client
from harness.cluster.persistent.client import State
from harness.cluster.table import CLUSTERS
from harness.model.errors_and_exit_codes import EXIT_BAD_INPUT, BadInput, ClusterTrouble, Missing
from harness.plan import plan_file
from harness.plan.rules import NAME, NAME_RULE
from harness.plan.test_plan import TestPlan
from harness.run import attached_cluster

Say = Callable[[str], None]
END_S: Final = 90.0
_LOCK_S: Final = 1.0


def start(name: str, plan: TestPlan, say: Say) -> State:
    """Starts a cluster; returns its state once it is up. Raises BadInput, Missing, ClusterTrouble."""
    if not NAME.fullmatch(name):
        raise BadInput(f"harness cluster up {name}: {NAME_RULE}")
    if not CLUSTERS[plan.cluster].can_stay:
        can = [name for name, kind in CLUSTERS.items() if kind.can_stay]
        raise BadInput(f"--cluster {plan.cluster}: only {', '.join(can)} clusters can be persistent")
    plan = attached_cluster.settled(plan).model_copy(update={"run": f"cluster-{name}"})
    folder = client.folder(name)
    with download_cache.locked(folder.with_name(f".{name}.lock"), say, f"starting the cluster {name}", _LOCK_S):
        state = client.read(name)
        if state is not None and state.alive:
            raise BadInput(
                f"the cluster {name} is up already, since {state.since} (pid {state.pid}): use it "
                f"(harness run --cluster {state.kind}:{name}), or stop it (harness cluster down {name})"
            )
        if folder.exists():
            say(f"removing the files of an earlier cluster {name}")
            shutil.rmtree(folder)
        folder.mkdir(parents=True, mode=0o700)
        (folder / client.PLAN).write_text(plan_file.dump(plan))
        return _keep(name, folder, say)


def _keep(name: str, folder: Path, say: Say) -> State:
    """Starts the keeper, and passes on its messages until the cluster is up."""
    read_end, write_end = os.pipe()
    environment = {
        **os.environ,
        "PYTHONPATH": namespaces.python_path(),
        "HARNESS_CACHE": str(download_cache.root()),
    }
    with (folder / client.LOG).open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "harness.persistent.server", name, str(write_end)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[write_end],
            start_new_session=True,
            cwd="/",
            env=environment,
        )
    os.close(write_end)
    failed: dict[str, Any] = {}
    try:
        with os.fdopen(read_end, "rb") as lines:
            for line in lines:
                report = json.loads(line)
                if "say" in report:
                    say(report["say"])
                else:
                    failed = report
    except BaseException:
        keeper.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            keeper.wait(END_S)
        raise
    state = client.read(name)
    if failed:
        keeper.wait()
        kind = BadInput if failed["code"] == EXIT_BAD_INPUT else ClusterTrouble
        raise kind(failed["error"])
    if state is None or not state.alive:
        raise ClusterTrouble(f"the keeper of the cluster {name} ended: {_last(folder / client.LOG)}")
    return state


def _last(log: Path) -> str:
    with suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"
    return "it has no log"


def stop(name: str, force: bool, say: Say) -> None:
    """Stops a cluster and removes its files, even if its keeper has ended.

    Raises BadInput if a run is using the cluster, unless `force`.
    """
    folder, state = client.folder(name), client.read(name)
    if not folder.exists():
        raise BadInput(f"there is no cluster {name}; harness cluster status lists all clusters that are up")
    if state is not None and state.alive:
        try:
            client.call(name, "down", force=force, timeout_s=10.0)
        except ClusterTrouble as error:
            say(f"{error}: ending the process {state.pid}")
            os.kill(state.pid, signal.SIGTERM)
        if not _gone(state, END_S):
            os.kill(state.pid, signal.SIGKILL)  # its descendants end with it
            if not _gone(state, END_S):
                raise Missing(f"the process {state.pid} did not end; end it, and try again")
    elif state is None and folder.joinpath(client.LOG).exists():
        # The cluster may be being started; the process that starts it holds the lock.
        with download_cache.locked(folder.with_name(f".{name}.lock"), say, f"starting the cluster {name}", _LOCK_S):
            pass
    remove(name)


def remove(name: str) -> None:
    """Removes the files of a cluster that is not up."""
    shutil.rmtree(client.folder(name), ignore_errors=True)
    client.folder(name).with_name(f".{name}.lock").unlink(missing_ok=True)


def _gone(state: State, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while process_owner.in_use(state.owner):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
