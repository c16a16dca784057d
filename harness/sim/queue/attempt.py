"""One send, poll or txn op of a simulated client, run in steps, with its errors and most of the bugs.

Errors are drawn from (seed, op index), so that they do not depend on the interleaving of clients. There are three: an
acknowledgement is lost (`info`: the record may be in the log), a send is refused (`fail`), or a commit gets no response
(`info`: the transaction was committed, aborted, or is left open until it times out). The bugs are listed in
`bugs.BUGS`. Final ops have neither errors nor bugs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from harness.model.op import FAIL, INFO, OK, Op
from harness.model.randomness import Draw
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.reader import Reader
from harness.sim.queue.world import Stale, World

Steps = Generator[None, None, Op]

LOST: Final = "report: _MSG_TIMED_OUT: simulated: no acknowledgement"
REJECTED: Final = "commit: INVALID_TXN_STATE: simulated: the transaction must be aborted"
REFUSED: Final = "send: _QUEUE_FULL: simulated: refused before transmission"


class Attempt:
    """One send, poll or txn op in progress. Its value is completed one micro-op at a time."""

    def __init__(
        self, world: World, reader: Reader, op: Op, draw: Draw, process: int, quiet: bool, began_ns: int
    ) -> None:
        self._world, self._log, self._reader = world, world.log, reader
        self._settings, self._trouble = world.settings, world.settings.trouble
        self._op, self._draw, self._process, self._quiet = op, draw, process, quiet
        self._began_ns = began_ns
        self._value = [list(mop) for mop in op.value]
        self._sent: list[int] = []  # indices in value of acknowledged sends
        self._kept: list[tuple[int, int]] = []  # (key, offset) of the acknowledged sends that are in the log
        self.committed: dict[int, int] = {}  # key -> consumer offset that the op tried to commit

    def _happens(self, p: float) -> bool:
        return self._draw.random() < (0.0 if self._quiet else p)

    def _bug(self, name: str) -> bool:
        """Returns whether the bug `name` is enabled and occurs now."""
        return name in self._settings.bugs and self._happens(BUGS[name].rate)

    def _ended(self, type_: str, error: str | None = None) -> Op:
        return self._op.with_(type=type_, value=self._value, error=error)

    # --- without a transaction ---

    def plain(self) -> Steps:
        for at, mop in enumerate(self._op.value):
            yield
            if mop[0] == "poll":
                self._value[at] = self._poll(None)
                continue
            failed = self._plain_send(at, mop[1], mop[2])
            if failed is not None:
                return failed
        yield
        if self._reader.subscribed:
            self.committed = self._reader.moved()
            if self._happens(self._trouble.lost_p):
                if self._draw.random() < 0.5:
                    self._reader.commit()
                return self._ended(INFO, "commit-offsets: _TIMED_OUT: simulated: no answer")
            if not self._reader.commit():
                return self._ended(INFO if self._sent else FAIL, "commit-offsets: ILLEGAL_GENERATION: simulated")
        return self._ended(OK)

    def _plain_send(self, at: int, key: int, value: int) -> Op | None:
        """Runs one send outside a transaction: the op's micro-op number `at`. Returns None on success.

        If the send fails, returns the op's completion.
        """
        if self._happens(self._trouble.refused_p):
            return self._ended(INFO if self._sent else FAIL, REFUSED)
        if not self._sent and self._bug("aborted-visible"):
            self._log.append(key, value)
            return self._ended(FAIL, REFUSED)
        if self._bug("diverge"):
            self._world.ghosts.setdefault(key, []).append(value)
            return self._ended(INFO, LOST)
        if self._happens(self._trouble.lost_p):
            if self._draw.random() < 0.5:
                self._log.append(key, value)
            return self._ended(INFO, LOST)
        self._append(at, key, value, None)
        return None

    # --- with a transaction ---

    def transaction(self) -> Steps:
        yield
        txn = self._log.begin()
        for at, mop in enumerate(self._op.value):
            yield
            if mop[0] == "poll":
                self._value[at] = self._poll(txn)
                continue
            if self._happens(self._trouble.refused_p):
                return self._aborted(txn, REFUSED)
            if self._happens(self._trouble.lost_p):
                self._log.append(mop[1], mop[2], txn)
                return self._aborted(txn, LOST)
            self._append(at, mop[1], mop[2], txn)
        yield
        if self._op.extra.get("abort"):
            return self._aborted(txn, "aborted on purpose")
        if self._reader.subscribed and not self._reader.current():
            return self._aborted(txn, "send-offsets: ILLEGAL_GENERATION: simulated")
        self.committed = self._reader.moved()
        if self.committed and self._bug("aborted-offsets"):
            self._reader.commit()
            self._log.abort(txn)
            return self._ended(FAIL, REJECTED)
        if self.committed and self._happens(self._trouble.refused_p):
            return self._aborted(txn, REJECTED)
        if self._happens(self._trouble.lost_p):
            return self._unanswered(txn)
        if len(self._sent) == 1 and self._bug("diverge"):
            return self._ghost(txn)
        self._commit(txn)
        return self._ended(OK)

    def _commit(self, txn: int) -> None:
        if len(self._kept) > 1 and self._bug("torn-transaction"):
            self._log.erase(*self._draw.choice(self._kept))
        self._log.commit(txn)
        if self._reader.subscribed:
            self._reader.commit()

    def _unanswered(self, txn: int) -> Op:
        """Returns the completion of an op whose commit request got no response.

        Whether the transaction was committed, aborted or left open is random.
        """
        fate = self._draw.below(3)
        if fate == 0:
            self._commit(txn)
        elif fate == 1:
            self._log.abort(txn)
        else:
            self._world.abandon(txn)
        return self._ended(INFO, "commit: _TIMED_OUT: simulated: no answer")

    def _ghost(self, txn: int) -> Op:
        """Simulates the bug `diverge`: the response to a send is lost, and only one replica keeps the record."""
        at = self._sent[0]
        _, key, (_, value) = self._value[at]
        self._value[at] = ["send", key, value]
        self._world.ghosts.setdefault(key, []).append(value)
        self._log.abort(txn)
        return self._ended(INFO, f"{LOST}; abort: _TIMED_OUT: simulated: no answer")

    def _aborted(self, txn: int, why: str) -> Op:
        if self._happens(self._trouble.lost_p):
            self._world.abandon(txn)
            return self._ended(INFO, f"{why}; abort: _TIMED_OUT: simulated: no answer")
        if self._bug("aborted-visible"):
            self._log.leak(txn)
        self._log.abort(txn)
        return self._ended(FAIL, why)

    # --- steps ---

    def _append(self, at: int, key: int, value: int, txn: int | None) -> None:
        """Appends the record of a send (the op's micro-op number `at`) that will be acknowledged.

        Some bugs may occur, and change what is written.
        """
        log, flight, lost = self._log, (self._process, key), False
        if flight in self._world.in_flight:
            offset = self._world.in_flight.pop(flight)
            log.fill(key, offset, value, txn)
        elif (stale := self._world.stale_offset(self._process, key, self._began_ns)) is not None:
            offset = stale
            log.fill(key, offset, value, txn)
        else:
            if self._bug("phantom"):
                self._world.phantom(key)
            if self._bug("duplicate-on-retry"):
                log.append(key, value, txn)
            again = any(mop[0] == "send" and mop[1] == key for mop in self._op.value[at + 1 :])
            if self._bug("int-reorder" if again else "reorder"):
                self._world.in_flight[flight] = log.reserve(key)
            elif self._bug("stale-order") and key not in self._world.stale:
                self._world.stale[key] = Stale(log.reserve(key), self._process, self._op.index)
            offset = log.append(key, value, txn)
            if self._bug("lose-acked"):
                log.erase(key, offset)
                lost = True
            elif self._bug("truncate-acked"):
                lost = log.truncate(key, offset)
        self._value[at] = ["send", key, [offset, value]]
        self._sent.append(at)
        if not lost:
            self._kept.append((key, offset))

    def _poll(self, txn: int | None) -> list[Any]:
        return ["poll", self._reader.poll(txn, self._bug, self._world.ghosts)]
