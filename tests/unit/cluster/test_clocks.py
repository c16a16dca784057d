"""Separate clocks for processes, and a server's log messages about them."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cluster.local import clock_library
from harness.cluster.local.clocks import Clocks
from tests.conftest import absent

READ = """
import time
for line in iter(input, "end"):
    print(time.time(), time.clock_gettime(5), time.monotonic(), flush=True)
"""


@pytest.fixture
def clocks(tmp_path: Path) -> Clocks:
    if why := clock_library.why_not():
        absent(why)
    return Clocks(lambda name: tmp_path, lambda name: None)


class Reader:
    """A process with its own clock."""

    def __init__(self, clocks: Clocks) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", READ],
            env=dict(clocks.env("n1")),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Reader:
        self.read()  # Python has started
        return self

    def __exit__(self, *_: object) -> None:
        _, errors = self.process.communicate("end\n", timeout=10)
        assert errors == ""

    def read(self) -> list[tuple[float, float]]:
        """How far ahead it is, at least and at most: the wall clock, its coarse reading, the monotonic clock."""
        assert self.process.stdin and self.process.stdout
        before = time.time(), time.time(), time.monotonic()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seen = map(float, self.process.stdout.readline().split())
        after = time.time(), time.time(), time.monotonic()
        return [(at - latest, at - earliest) for at, earliest, latest in zip(seen, before, after, strict=True)]


def ahead(reading: list[tuple[float, float]], *expected_s: float) -> bool:
    """Whether the clocks can be as far ahead as expected."""
    return all(least - 0.2 <= s <= most + 0.2 for (least, most), s in zip(reading, expected_s, strict=True))


@pytest.mark.parametrize("ahead_s", [3600.25, -3600.25, 0.5, -1_700_000_000.0])
def test_a_running_process_takes_the_new_time_at_once(clocks: Clocks, ahead_s: float) -> None:
    with Reader(clocks) as reader:
        assert ahead(reader.read(), 0, 0, 0)
        clocks.set("n1", ahead_s)
        assert ahead(reader.read(), ahead_s, ahead_s, 0)
        clocks.set("n1", 0.0)
        assert ahead(reader.read(), 0, 0, 0)


def test_a_strobe_goes_back_and_forth_until_the_clock_is_set(clocks: Clocks) -> None:
    with Reader(clocks) as reader:
        clocks.strobe("n1", 100.0, 0.02)
        seen = set()
        for _ in range(60):
            seen.add(round(reader.read()[0][0], -2))
            time.sleep(0.007)
        assert seen == {0, 100}
        clocks.set("n1", 0.0)
        time.sleep(0.1)
        assert all(ahead(reader.read(), 0, 0, 0) for _ in range(20))


def test_a_clock_stays_as_it_is_over_a_restart(clocks: Clocks) -> None:
    clocks.env("n1")
    clocks.set("n1", 50.0)
    with Reader(clocks) as reader:
        assert ahead(reader.read(), 50, 50, 0)


def test_the_log_says_what_time_the_server_has(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[1999-01-01 00:00:00,000] INFO old (x)\n")

    def write(name: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() + 30))
        with log.open("a") as lines:
            lines.write(f"a line without a time\n[{stamp},000] WARN nonsense (x)\n")

    seen = Clocks(lambda name: tmp_path, write).ahead_s("n1")
    assert seen is not None and 28.5 < seen[0] <= seen[1] < 30.5


def test_a_server_that_says_nothing_has_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cluster.local.clocks._LOGS_WITHIN_S", 0.05)

    def refused(name: str) -> None:
        raise ConnectionRefusedError

    assert Clocks(lambda name: tmp_path, refused).ahead_s("n1") is None


TIME_OF_DAY = """
import ctypes
seconds = (ctypes.c_int64 * 2)()
library = ctypes.CDLL(None)
assert library.gettimeofday(seconds, None) == 0 and library.gettimeofday(None, None) == 0
assert 0 <= seconds[1] < 1_000_000
assert library.clock_gettime(99, seconds) == -1
print(seconds[0] + seconds[1] / 1e6)
"""


@pytest.mark.parametrize("ahead_s", [0.0, 3600.25, -3600.25])
def test_the_time_of_day_is_the_same_and_errors_are_the_kernels(clocks: Clocks, ahead_s: float) -> None:
    env = dict(clocks.env("n1"))
    clocks.set("n1", ahead_s)
    done = subprocess.run([sys.executable, "-c", TIME_OF_DAY], env=env, capture_output=True, text=True, check=True)
    assert float(done.stdout) - time.time() == pytest.approx(ahead_s, abs=2.0)


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_a_library_is_for_its_machine_and_depends_on_nothing(machine: str, number: int) -> None:
    data = clock_library.library(machine)
    assert struct.unpack_from("<H", data, 18) == (number,)  # e_machine
    assert b"GLIBC" not in data and b"lib" not in data
    at = clock_library.number_at(machine)
    # Aligned, so that the number is read atomically; and zero, until it is set.
    assert at % 8 == 0 and data[at : at + 8] == bytes(8) and data.count(b"harness clock") == 1


def test_another_machine_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert "riscv64" in clock_library.why_not()
