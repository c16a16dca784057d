"""What a pipeline's run is drawn to be: mode, transform, settings, faults, what its brokers or instances do wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.model.check_options import CheckOptions
from harness.model.randomness import Draw
from harness.model.transforms import TRANSFORMS
from harness.pipeline_app.mistakes import MISTAKES
from harness.plan import resolve
from harness.plan.test_plan import TestPlan
from tests.oracle.case import Case

MODES = ("exactly-once", "files", "at-least-once", "at-most-once", "auto-commit")
ONCE = ("exactly-once", "files")
FAULTS = (
    "kill:leader",
    "elect-unclean:leader",
    "power-loss:all",
    "power-loss:leader",
    "truncate-tail:leader",
    "config-change:compact",
    "config-change:retention",
    "config-change:min-isr-down",
    "delete-records:some",
)
LIES = (
    "lose-output",
    "double-output",
    "show-aborted",
    "hide-committed",
    "swap-outputs",
    "wrong-key",
    "wrong-number",
    "phantom-output",
    "lose-input",
    "delete-head",
    "phantom-input",
    "forget-commits",
)
CLUSTER = {"acks", "idempotence", "replication", "min_insync_replicas", "broker_config", "nemesis"}  # fields of a plan
# What became of an input record that its writer sent again: which of its two copies have their outputs.
AGAIN = ("both made", "first made", "second made", "second made twice", "none made", "second damaged", "not committed")
CUTS = ("behind", "no ending", "no reading", "no sends", "no offsets", "bad line")


@dataclass(frozen=True, slots=True)
class PipelineCase:
    """One run as drawn.

    cluster  settings and faults of the brokers and of the writers
    again    what became of each input record that its writer sent again, from `AGAIN`
    cut      what is missing of the files, from `CUTS`; "": nothing
    """

    seed: int
    cluster: Case
    turns: int = 30
    mode: str = "exactly-once"
    transform: str = "identity"
    mistake: str = ""
    abort_p: float = 0.05
    eager: bool = True
    again: tuple[str, ...] = ()
    lies: tuple[str, ...] = ()
    cut: str = ""

    def options(self) -> CheckOptions:
        """What a run with this plan tells the checker."""
        plan = self.cluster.plan().model_dump(include=CLUSTER) | {
            "workload": "pipeline",
            "pipeline_mode": self.mode,
            "transform": self.transform,
            "pipeline_mistake": self.mistake,
        }
        options = resolve.judged_by(TestPlan(**plan))
        settings = replace(options.settings, eligible_leader_replicas=self.cluster.elr)
        return replace(options, settings=settings, expected_faults=(), require_final_polls=False)


def draw_case(seed: int) -> PipelineCase:
    draw = Draw.of(seed, "oracle-pipeline", 0)
    mode = draw.choice((*ONCE, *MODES))
    replication = draw.choice((1, 2, 3, 3, 3))
    acks = draw.choice(("1", "all", "all"))
    fault = draw.choice(("", "", *FAULTS))
    if replication == 1 and fault == "elect-unclean:leader":
        fault = ""
    cluster = Case(
        seed,
        0,
        acks=acks,
        idempotence=draw.choice((None, False)) if acks == "all" else None,
        replication=replication,
        min_isr=min(replication, draw.choice((1, 2, 2))),
        broker={"unclean.leader.election.enable": "true"} if draw.random() < 0.1 else {},
        faults=(fault,) if fault else (),
        elr=draw.choice((None, True, False)),
    )
    return PipelineCase(
        seed,
        cluster,
        turns=draw.between(15, 60),
        mode=mode,
        transform=draw.choice(TRANSFORMS),
        mistake=draw.choice(tuple(MISTAKES)) if mode in ONCE and draw.random() < 0.15 else "",
        abort_p=draw.choice((0.0, 0.1, 0.3)),
        eager=draw.random() < 0.5,
        again=tuple(draw.choice(AGAIN) for _ in range(draw.choice((0, 0, 1, 1, 3)))),
        lies=tuple(draw.choice(LIES) for _ in range(draw.choice((0, 0, 0, 1, 1, 2)))),
        cut=draw.choice(("",) * 18 + CUTS),
    )
