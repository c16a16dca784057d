"""Rules of the wire proxy as data: parsing, validation, and the counts of what the rules did.

A rule selects requests by API, node and sender, and says what to do with them or with their responses. The API
names are those of the Kafka protocol guide.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from harness.model import wire_answers
from harness.model.errors_and_exit_codes import BadInput

# The position of a name is its API key (Kafka protocol guide, "Api Keys").
_IN_ORDER: Final = """
Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown OffsetCommit
OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups
SaslHandshake ApiVersions CreateTopics DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch
AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit DescribeAcls CreateAcls
DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs SaslAuthenticate
CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken
DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments ListPartitionReassignments
OffsetDelete DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials
Vote BeginQuorumEpoch EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot
DescribeCluster DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions
ListTransactions AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe ControllerRegistration
GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs ListConfigResources DescribeTopicPartitions
ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter RemoveRaftVoter
UpdateRaftVoter InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
AlterShareGroupOffsets DeleteShareGroupOffsets
"""
APIS: Final[Mapping[str, int]] = {name: key for key, name in enumerate(_IN_ORDER.split())}
NAMES: Final[Mapping[int, str]] = dict(enumerate(_IN_ORDER.split()))

REQUEST, RESPONSE = "request", "response"
CLIENTS, BROKERS = "clients", "brokers"
HOLD, DELAY, REORDER, SWAP, DROP, CUT = "hold", "delay", "reorder", "swap", "drop", "cut"
DUPLICATE, ANSWER, WATCH = "duplicate", "answer", "watch"
ACTIONS: Final = (HOLD, DELAY, REORDER, SWAP, DROP, CUT, DUPLICATE, ANSWER, WATCH)
PRODUCER, OTHERS, ANYBODY = "producer", "others", "anybody"
HOLD_MAX_S: Final = 600.0
_API_FIELDS: Final = ("api", "until")
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "action": ACTIONS,
    "direction": (REQUEST, RESPONSE),
    "sender": (CLIENTS, BROKERS),
    "until_by": (PRODUCER, OTHERS, ANYBODY),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the wire proxy: which frames (requests or responses) it matches, and what happens to a matching frame.

    action     hold: keep the frame and all later frames of its connection back, until `for_s` is over or a request
               of an API in `until` has been answered; no frame is lost
               delay: keep the frame back for `for_s`; later frames of the connection wait at most as long
               reorder: hold the frame until a request of the same API has been answered on another connection
               swap: hold a request until the next one on its connection, of whatever API, has been forwarded, for at
               most `for_s`; the responses reach the client in the order of its requests. It is applied only if a next
               request comes in time, as from a client with several requests in flight
               drop: discard the frame and all later ones of its connection in the same direction, because the
               middle of a byte stream cannot be left out; the receiver notices only by its own timeout
               cut: close the connection of the request's sender, before it gets the response; if the matching frame is
               the request, it is still forwarded
               duplicate: forward a request twice; its sender gets the first response
               answer: with direction request, answer the request with `error`, without forwarding it; with direction
               response, forward the request, and put `error` in place of each success in the response
               watch: only count the frame; further rules may apply to it. Triggers use this
    error      for answer: the error's name in Kafka's protocol, such as NOT_LEADER_OR_FOLLOWER
    api        names in APIS; empty: all
    direction  request: the requests that match; response: the responses to these requests
    node       the broker that the frame goes to or comes from; empty: any
    sender     clients or brokers; brokers is possible where requests between brokers pass through the proxy too
    commit     for EndTxn: only those that commit (True) or abort (False)
    count      the maximum number of times that the rule is applied; None: no limit
    probability  the probability that the rule is applied to a matching frame; drawn from the run's seed
    for_s      longest time that a frame is kept back, in seconds
    until      hold ends when a request of one of these APIs has been answered
    until_by   which of these requests end the hold. producer: those with the held frame's transactional id; others:
               those on another connection; anybody: all
    cut        for a held request: close its sender's connection at once, as if the response had been lost
    in_turn    while a frame of a transactional id is held, let other frames of this id (such as a retry) pass
    """

    action: str
    api: tuple[str, ...] = ()
    direction: str = REQUEST
    node: str = ""
    sender: str = CLIENTS
    commit: bool | None = None
    count: int | None = None
    probability: float = 1.0
    for_s: float = 5.0
    until: tuple[str, ...] = ()
    until_by: str = ANYBODY
    cut: bool = False
    in_turn: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Counts of one rule.

    matched   frames that matched the rule
    applied   frames that the rule was applied to
    released  frames that were held and then forwarded
    lost      frames that could not be delivered because the broker had closed the connection
    last_s    when the rule was last applied, in seconds since the epoch; 0: never
    """

    matched: int = 0
    applied: int = 0
    released: int = 0
    lost: int = 0
    last_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts of the traffic through a proxy.

    unanswered  requests to which brokers send no response by design (acks=0)
    unmatched   responses that do not belong to any request
    unknown     requests of an API that is not in APIS; they are forwarded unchanged
    unparsed    connections that turned out not to use Kafka's protocol; from then on, their bytes are forwarded
                unchanged
    open        connections that are open now
    bytes_in    bytes received, from clients and brokers together
    bytes_out   bytes sent, to clients and brokers together
    """

    connections: int = 0
    requests: int = 0
    responses: int = 0
    unanswered: int = 0
    unmatched: int = 0
    unknown: int = 0
    unparsed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    open: int = 0


def rule_of(data: Mapping[str, Any]) -> Rule:
    """Converts plain data, such as the entry of a schedule, to a rule. The data has the fields of `Rule`.

    A single API may be given as a string instead of a list. Raises BadInput if a field or value is not valid. For an
    unknown name, the message suggests the closest known one.
    """
    known = {each.name: each for each in fields(Rule)}
    for name in data:
        if name not in known:
            raise BadInput(f"a wire rule has no field {name!r}{_near(str(name), list(known))}")
    if "action" not in data:
        raise BadInput(f"a wire rule needs an action: {', '.join(ACTIONS)}")
    values = dict(data)
    for name in _API_FIELDS:
        if name in values:
            values[name] = _apis(name, values[name])
    for name, choices in _CHOICES.items():
        if name in values and values[name] not in choices:
            raise BadInput(f"a wire rule's {name} must be one of {', '.join(choices)}, not {values[name]!r}")
    for name in ("cut", "in_turn"):
        if name in values and not isinstance(values[name], bool):
            raise BadInput(f"a wire rule's {name} must be true or false, not {values[name]!r}")
    if not isinstance(values.get("commit"), bool | None):
        raise BadInput(f"a wire rule's commit must be true or false, not {values['commit']!r}")
    if not isinstance(values.get("node", ""), str):
        raise BadInput(f"a wire rule's node must be a name such as n1, not {values['node']!r}")
    _number(values, "count", 1, None)
    _number(values, "probability", 0.0, 1.0)
    _number(values, "for_s", 0.0, HOLD_MAX_S)
    rule = Rule(**values)
    _consistent(rule)
    return rule


def rule_text(data: Mapping[str, Any]) -> str:
    """Returns the text of a rule that is given as plain data, such as `action=hold;api=EndTxn|Produce;for_s=3`.

    It has no spaces. Raises BadInput if the data is not a valid rule.
    """
    rule = rule_of(data)
    values = {**data, **{name: getattr(rule, name) for name in _API_FIELDS if name in data}}
    order = [each.name for each in fields(Rule)]
    return ";".join(f"{name}={_field_text(values[name])}" for name in sorted(values, key=order.index))


def _field_text(value: Any) -> str:
    if isinstance(value, tuple):
        return "|".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def rule_in(text: str) -> Rule:
    """Returns the rule that a text describes, in the form that `rule_text` returns.

    Raises BadInput if it is not valid.
    """
    data: dict[str, Any] = {}
    for part in text.split(";"):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or name in data:
            raise BadInput(
                f"{part.strip()!r} is not valid in a wire rule; example of a rule: action=hold;api=EndTxn;for_s=3"
            )
        data[name] = tuple(value.split("|")) if name in _API_FIELDS else _value_of(value)
    return rule_of(data)


def _value_of(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return value


def _consistent(rule: Rule) -> None:
    if rule.direction == RESPONSE and rule.action == DUPLICATE:
        raise BadInput("a wire rule can duplicate requests only: a duplicate response would break the connection")
    if rule.direction == RESPONSE and rule.action == SWAP:
        raise BadInput(
            "a wire rule can swap requests only: a client closes a connection whose responses are out of order"
        )
    if rule.cut and (rule.action != HOLD or rule.direction != REQUEST):
        raise BadInput(
            "a wire rule's `cut` needs action: hold and direction: request; to cut without holding, use action: cut"
        )
    if rule.until and rule.action != HOLD:
        raise BadInput(f"a wire rule's `until` needs action: hold, not {rule.action}")
    if rule.commit is not None and rule.api != ("EndTxn",):
        raise BadInput("a wire rule's `commit` needs api: EndTxn")
    if rule.action == REORDER and not rule.api:
        raise BadInput("a wire rule with action: reorder needs an api")
    if rule.error and rule.action != ANSWER:
        raise BadInput(f"a wire rule's `error` needs action: answer, not {rule.action}")
    if rule.action == ANSWER:
        wire_answers.validate(rule.api, rule.error, carried_out=rule.direction == RESPONSE)


def _apis(field: str, value: Any) -> tuple[str, ...]:
    names: Sequence[Any] = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise BadInput(f"a wire rule's {field} must be an API's name or a list of names, not {value!r}")
    for name in names:
        if name not in APIS:
            raise BadInput(f"a wire rule's {field}: Kafka has no API named {name!r}{_near(str(name), list(APIS))}")
    return tuple(names)


def _number(values: Mapping[str, Any], name: str, low: float, high: float | None) -> None:
    value = values.get(name)
    if value is None:
        if name in values and name != "count":
            raise BadInput(f"a wire rule's {name} must be a number")
        return
    whole = name == "count"
    right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not right or not value >= low or (high is not None and not value <= high):
        kind = "whole number" if whole else "number"
        bounds = f"of at least {low:g}" if high is None else f"from {low:g} to {high:g}"
        raise BadInput(f"a wire rule's {name} must be a {kind} {bounds}, not {value!r}")


def _near(name: str, known: list[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
