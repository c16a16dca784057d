"""Pure generators of ops, and combinators that decide when and where the ops run.

A generator has two methods. `op(ctx)` returns (the next op, the next generator). It returns PENDING instead of an op if
the generator must wait, and None if the generator is exhausted. `update(ctx, event)` tells the generator about an
invocation or completion, and returns the next generator. Generators have no side effects, so the interpreter may ask
for the same op again. They are small frozen values.

Modelled on Jepsen's generators (jepsen.generator.pure). Random numbers are computed from the seed, a name and a number
(`harness.model.randomness`), not drawn from a shared stream. So the ops depend on nothing but the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.model.fault_and_generator_protocols import PENDING, Context, Generator, Pending
from harness.model.op import EMPTY, INFO, INVOKE, NEMESIS, Op

Answer = tuple[Op | Pending, Generator] | None


def _wait(generator: Generator) -> Answer:
    return PENDING, generator


def _same(new: tuple[Generator, ...], old: tuple[Generator, ...]) -> bool:
    """Returns whether an update left all generators unchanged. The generator that combines them can then be reused."""
    return all(a is b for a, b in zip(new, old, strict=True))


@dataclass(frozen=True, slots=True)
class Once:
    """Emits one op, and is then exhausted."""

    template: Op

    def op(self, ctx: Context) -> Answer:
        return self.template, NOTHING

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


@dataclass(frozen=True, slots=True)
class Nothing:
    """A generator that is exhausted from the start."""

    def op(self, ctx: Context) -> Answer:
        return None

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


NOTHING: Generator = Nothing()


@dataclass(frozen=True, slots=True)
class Fn:
    """An endless generator whose n-th op is `make(ctx, n)`."""

    make: Callable[[Context, int], Op]
    n: int = 0

    def op(self, ctx: Context) -> Answer:
        return self.make(ctx, self.n), Fn(self.make, self.n + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


@dataclass(frozen=True, slots=True)
class Then:
    """Runs generators one after another, each until it is exhausted. Does not wait for ops in progress (see Barrier).

    All parts receive every event from the start, also before they run. The final polls, for example, must know which
    keys were used earlier.
    """

    parts: tuple[Generator, ...]

    def op(self, ctx: Context) -> Answer:
        parts = self.parts
        while parts:
            answer = parts[0].op(ctx)
            if answer is not None:
                return answer[0], Then((answer[1], *parts[1:]))
            parts = parts[1:]
        return None

    def update(self, ctx: Context, event: Op) -> Generator:
        parts = tuple([part.update(ctx, event) for part in self.parts])
        return self if _same(parts, self.parts) else Then(parts)


def then(*parts: Generator) -> Generator:
    return Then(parts)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Starts `inner` as soon as no op is in progress. With it, a phase waits for the ops of the previous phase."""

    inner: Generator
    begun: bool = False

    def op(self, ctx: Context) -> Answer:
        if not self.begun and (len(ctx.free) < len(ctx.all) or not ctx.nemesis_free):
            return _wait(self)
        answer = self.inner.op(ctx)
        return None if answer is None else (answer[0], Barrier(answer[1], True))

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Barrier(inner, self.begun)


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Runs `inner` for `limit_ns`, counted from the first request for an op."""

    inner: Generator
    limit_ns: int
    until_ns: int | None = None

    def op(self, ctx: Context) -> Answer:
        until_ns = ctx.time_ns + self.limit_ns if self.until_ns is None else self.until_ns
        if ctx.time_ns >= until_ns:
            return None
        answer = self.inner.op(ctx)
        return None if answer is None else (answer[0], TimeLimit(answer[1], self.limit_ns, until_ns))

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else TimeLimit(inner, self.limit_ns, self.until_ns)


@dataclass(frozen=True, slots=True)
class Limit:
    """Emits at most `left` ops of `inner`."""

    inner: Generator
    left: int

    def op(self, ctx: Context) -> Answer:
        if self.left <= 0:
            return None
        answer = self.inner.op(ctx)
        if answer is None:
            return None
        spent = 0 if isinstance(answer[0], Pending) else 1
        return answer[0], Limit(answer[1], self.left - spent)

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Limit(inner, self.left)


@dataclass(frozen=True, slots=True)
class Rate:
    """Emits one op of `inner` every `period_ns`.

    If ops are delayed, those that were due in the last `burst_ns` are emitted at once; earlier ones are dropped.
    """

    inner: Generator
    period_ns: int
    next_ns: int | None = None
    burst_ns: int = 1_000_000_000

    def op(self, ctx: Context) -> Answer:
        due = ctx.time_ns if self.next_ns is None else max(self.next_ns, ctx.time_ns - self.burst_ns)
        if ctx.time_ns < due:
            return _wait(self)
        answer = self.inner.op(ctx)
        if answer is None:
            return None
        after = due if isinstance(answer[0], Pending) else due + self.period_ns
        return answer[0], Rate(answer[1], self.period_ns, after, self.burst_ns)

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Rate(inner, self.period_ns, self.next_ns, self.burst_ns)


@dataclass(frozen=True, slots=True)
class After:
    """Starts `inner` `delay_ns` after the first request for an op. With NOTHING as `inner`, this is a pause."""

    delay_ns: int
    inner: Generator = NOTHING
    from_ns: int | None = None

    def op(self, ctx: Context) -> Answer:
        from_ns = ctx.time_ns + self.delay_ns if self.from_ns is None else self.from_ns
        if ctx.time_ns < from_ns:
            return PENDING, After(self.delay_ns, self.inner, from_ns)
        answer = self.inner.op(ctx)
        return None if answer is None else (answer[0], After(self.delay_ns, answer[1], from_ns))

    def update(self, ctx: Context, event: Op) -> Generator:
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else After(self.delay_ns, inner, self.from_ns)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Runs the generators `make(n)` for n = 0, 1, 2, ... one after another, without end.

    It is exhausted only if two generators in a row emit no op.
    """

    make: Callable[[int], Generator]
    n: int = 0
    current: Generator | None = None

    def op(self, ctx: Context) -> Answer:
        current, n = self.current or self.make(self.n), self.n
        for _ in range(2):
            answer = current.op(ctx)
            if answer is not None:
                return answer[0], Repeat(self.make, n, answer[1])
            n += 1
            current = self.make(n)
        return None  # two empty rounds in a row

    def update(self, ctx: Context, event: Op) -> Generator:
        if self.current is None:
            return self
        current = self.current.update(ctx, event)
        return self if current is self.current else Repeat(self.make, self.n, current)


@dataclass(frozen=True, slots=True)
class Any_:
    """Emits an op of the first part that has one ready. It is exhausted when all parts are exhausted."""

    parts: tuple[Generator, ...]

    def op(self, ctx: Context) -> Answer:
        waiting = False
        parts = list(self.parts)
        for position, part in enumerate(self.parts):
            answer = part.op(ctx)
            if answer is None:
                parts[position] = NOTHING
                continue
            parts[position] = answer[1]
            if not isinstance(answer[0], Pending):
                return answer[0], Any_(tuple(parts))
            waiting = True
        return _wait(Any_(tuple(parts))) if waiting else None

    def update(self, ctx: Context, event: Op) -> Generator:
        parts = tuple([part.update(ctx, event) for part in self.parts])
        return self if _same(parts, self.parts) else Any_(parts)


def any_(*parts: Generator) -> Generator:
    return parts[0] if len(parts) == 1 else Any_(parts)


# --- processes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ForNemesis:
    """Sends the ops of `inner` to the nemesis. `inner` receives only the events of the nemesis.

    While an op of one of `faults` is in progress, `inner` waits, because ops of the same fault run one at a time. If
    `faults` is empty, `inner` waits while any nemesis op is in progress.
    """

    inner: Generator
    faults: frozenset[str] = frozenset()

    def op(self, ctx: Context) -> Answer:
        if not self.faults.isdisjoint(ctx.busy_faults) if self.faults else not ctx.nemesis_free:
            return _wait(self)
        answer = self.inner.op(ctx)
        if answer is None:
            return None
        op, inner = answer
        changed = op if isinstance(op, Pending) else op.with_(process=NEMESIS, type=INFO)
        return changed, ForNemesis(inner, self.faults)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process != NEMESIS:
            return self
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else ForNemesis(inner, self.faults)


@dataclass(frozen=True, slots=True)
class Clients:
    """Sends the ops of `inner` to client processes. `inner` receives only the events of client processes."""

    inner: Generator

    def op(self, ctx: Context) -> Answer:
        if not ctx.free:
            return _wait(self)
        answer = self.inner.op(ctx)
        return None if answer is None else (answer[0], Clients(answer[1]))

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process == NEMESIS:
            return self
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Clients(inner)


@dataclass(frozen=True, slots=True)
class EachSlot:
    """Runs a generator `make(slot)` for each slot, that is, for each concurrent client.

    If the process of a slot crashes and is replaced by a new one, the slot's generator continues.
    """

    make: Callable[[int], Generator]
    copies: tuple[Generator, ...] | None = None

    def _copies(self, ctx: Context) -> tuple[Generator, ...]:
        return self.copies or tuple(self.make(slot) for slot in range(len(ctx.all)))

    def op(self, ctx: Context) -> Answer:
        copies = list(self._copies(ctx))
        busy = len(ctx.free) < len(ctx.all)
        waiting = False
        for process in ctx.free:
            slot = ctx.all.index(process)
            answer = copies[slot].op(replace(ctx, free=(process,), all=(process,)))
            if answer is None:
                copies[slot] = NOTHING
                continue
            copies[slot] = answer[1]
            if not isinstance(answer[0], Pending):
                return answer[0].with_(process=process), EachSlot(self.make, tuple(copies))
            waiting = True
        return _wait(EachSlot(self.make, tuple(copies))) if waiting or busy else None

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process not in ctx.all:
            return self
        slot = ctx.all.index(event.process)
        copies = list(self._copies(ctx))
        copies[slot] = copies[slot].update(ctx, event)
        return EachSlot(self.make, tuple(copies))


def op(f: str, value: Any = None, **extra: Any) -> Op:
    """Returns an invocation that any free process can run."""
    return Op(-1, -1, -1, INVOKE, f, value, None, extra or EMPTY)


def sequence(ops: Sequence[Op]) -> Generator:
    """Returns a generator that emits these ops, in this order."""
    return Then(tuple(Once(each) for each in ops))
