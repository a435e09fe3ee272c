"""`dra-operator own`: take devices for the operator, by DeviceTaintRules that keep everybody else off them.

First it is said what that hits. What cannot work is refused: devices that share counters with others that stay out.
Source: docs/operator.md, "Devices that are ours".
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dra_operator.api.convert import Body
from dra_operator.api.names import OWNED_POLICY
from dra_operator.api.text import listed
from dra_operator.cli.arguments import choice_of
from dra_operator.cli.client import Context, Kubeconfig, ask, served_rules
from dra_operator.cli.output import refuse
from dra_operator.cli.ownership.devices import KINDS_READ, devices_of
from dra_operator.cli.ownership.policy import FenceReport, find_uncovered, lets_pass, read_fence
from dra_operator.cli.ownership.rules import (
    MOST_RULES,
    find_unpublished,
    owning_selectors,
    rule_problems,
    selectors,
)
from dra_operator.cli.snapshot import read_objects
from dra_operator.cluster.ownership_policy import OPERATOR, RulesFence, policy_for_pools
from dra_operator.kinds.selector import Selector
from dra_operator.questions.impact import RuleChange, describe_holders, find_impact
from dra_operator.questions.manifests import to_yaml, write_yaml
from dra_operator.questions.raw_devices import ClusterDevices
from dra_operator.questions.state import ClusterState

if TYPE_CHECKING:
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.session import ApiSession

NOT_SERVED = (
    "the API server does not serve DeviceTaintRule, which Kubernetes does from 1.37 on (1.36: with the feature gate "
    "DRADeviceTaintRules and the API resource.k8s.io/v1beta2). From 1.36 on the driver can publish the taint "
    "dra-operator.io/owned:NoSchedule in its slices instead; `dra-operator own --print-policy` prints a policy for that"
)

BLIND = (
    f"ValidatingAdmissionPolicy {OWNED_POLICY} does not know the new rules: if it was deleted and created again, the "
    "API server goes on with those of before, until kube-apiserver is restarted"
)
_VERSION = "resource.k8s.io/v1"
_KNOWN_SECONDS = 10
"""How long an API server may take to know a rule, for a warning; most take much less than a second."""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class DryRun(StrEnum):
    """Whether anything is written."""

    NONE = "none"
    CLIENT = "client"


class Output(StrEnum):
    """How objects are printed."""

    NAME = "name"
    YAML = "yaml"
    JSON = "json"


@dataclass(slots=True)
class Plan:
    """The rules to create, and what is to be said before: why not, what to think about, what to know."""

    selectors: list[Selector] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


DriverOption = Annotated[str, typer.Option("--driver", metavar="NAME", help="The driver of the devices.")]
PoolOption = Annotated[
    list[str] | None,
    typer.Option("--pool", metavar="NAME", help="Only devices of this pool. May be repeated."),
]
DeviceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Only devices of this name, in each --pool, or in all. May be repeated.",
    ),
]
DryRunOption = Annotated[
    DryRun,
    typer.Option(
        "--dry-run", metavar="none|client", parser=choice_of(DryRun), help="With client, nothing is written."
    ),
]
OutputOption = Annotated[
    Output,
    typer.Option(
        "-o", "--output", metavar="name|yaml|json", parser=choice_of(Output), help="How to print rules."
    ),
]


@app.command()
def own(
    *,
    driver: DriverOption,
    pool: PoolOption = None,
    device: DeviceOption = None,
    unpublished: Annotated[
        bool, typer.Option("--unpublished", help="Also what no driver publishes now.")
    ] = False,
    print_policy: Annotated[
        bool,
        typer.Option(
            "--print-policy",
            help="Print an admission policy for these pools that needs no DeviceTaintRules, and do nothing else.",
        ),
    ] = False,
    operator_user: Annotated[
        str,
        typer.Option(
            metavar="USER",
            help="With --print-policy: the user as whom the operator speaks, if it is not that of manifests/.",
        ),
    ] = OPERATOR,
    dry_run: DryRunOption = DryRun.NONE,
    output: OutputOption = Output.NAME,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Take devices for the operator, after saying what that hits."""
    wanted = selectors(driver, pool or (), device or ())
    if problems := rule_problems(wanted):
        refuse(*problems)
    if print_policy:
        _print_policy(wanted, operator_user)
        return
    cluster, rules, plan = ask(
        kubeconfig, context, lambda session: _plan(session, wanted, unpublished=unpublished)
    )
    for note in (*cluster.notes, *plan.notes):
        typer.echo(f"note: {note}", err=True)
    for warning in plan.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if plan.errors:
        refuse(*plan.errors)
    bodies = [selector.rule(rules.api_version) for selector in plan.selectors]
    if dry_run is DryRun.CLIENT:
        say_rules([(body, "created (dry run)") for body in bodies], output)
        return
    stored, problems = ask(kubeconfig, context, lambda session: create_rules(session, rules, bodies))
    say_rules(stored, output)
    if problems:
        refuse(*problems)
    if plan.selectors and not ask(kubeconfig, context, lambda session: _is_known(session, cluster, plan)):
        typer.echo(f"warning: {BLIND}", err=True)


def say_rules(rules: Sequence[tuple[dict[str, Any], str]], output: Output) -> None:
    """Print rules, and what was done with each, as kubectl does."""
    bodies = [body for body, _ in rules]
    if output is Output.NAME:
        for body, done in rules:
            typer.echo(f"devicetaintrule.resource.k8s.io/{body['metadata']['name']} {done}")
    elif output is Output.YAML:
        typer.echo("".join(part.decode() for part in write_yaml(bodies)), nl=False)
    else:
        items = {"apiVersion": "v1", "kind": "List", "items": bodies}
        typer.echo(json.dumps(bodies[0] if len(bodies) == 1 else items, indent=4))


def _print_policy(wanted: Sequence[Selector], username: str) -> None:
    if any(selector.device is not None for selector in wanted):
        refuse(
            "--device: the policy lists pools, since all devices of a pool are owned together there: leave it out"
        )
    bodies = policy_for_pools(username, [(selector.driver, selector.pool) for selector in wanted])
    typer.echo("---\n".join(to_yaml(body) for body in bodies), nl=False)


async def _plan(
    session: "ApiSession", wanted: Sequence[Selector], *, unpublished: bool
) -> "tuple[ClusterDevices, Served, Plan]":
    rules = await served_rules(session)
    if rules is None:
        raise LookupError(NOT_SERVED)
    taken = await read_objects(session, KINDS_READ)
    cluster = devices_of(taken)
    plan = make_plan(cluster, wanted, taken.bodies)
    if not unpublished:
        plan.errors += [
            f"{line} (--unpublished owns it all the same)"
            for line in find_unpublished(wanted, cluster.devices)
        ]
    plan.warnings += _fence_warnings(await read_fence(session), cluster, wanted)
    return cluster, rules, plan


def _fence_warnings(state: FenceReport, cluster: ClusterDevices, wanted: Sequence[Selector]) -> Iterator[str]:
    if state.problem is not None:
        yield state.problem
    pools = {(key.driver, key.pool) for key in cluster.devices if any(each.matches(key) for each in wanted)}
    if uncovered := find_uncovered(state.fence, pools):
        yield (
            f"ValidatingAdmissionPolicy {OWNED_POLICY} has a list of pools without {listed(uncovered)}: add them, or "
            "use the one of manifests/components/ownership, which follows the rules"
        )


def make_plan(cluster: ClusterDevices, wanted: Sequence[Selector], bodies: Sequence[Body]) -> Plan:
    """Return which rules are needed, and what they hit. `bodies` are all objects that were read."""
    plan = Plan()
    existing = owning_selectors(cluster.owning_rules())
    for selector in wanted:
        name = next((name for name, other in existing.items() if other.includes(selector)), None)
        if name is None:
            plan.selectors.append(selector)
        elif cluster.rules[name].metadata.deletion_timestamp:
            plan.errors.append(
                f'DeviceTaintRule "{name}" owns {selector} and is being deleted: wait until it is gone, and try again'
            )
        else:
            plan.notes.append(f'{selector}: owned by DeviceTaintRule "{name}" already')
    if not plan.selectors:
        return plan
    _judge_impact(plan, bodies)
    count = len(existing) + len(plan.selectors)
    if count > MOST_RULES:
        plan.warnings.append(
            f"{count} DeviceTaintRules would own devices, more than {MOST_RULES}: each is asked about every allocation "
            "in the cluster; own whole drivers or pools instead of single devices"
        )
    return plan


def _judge_impact(plan: Plan, bodies: Sequence[Body]) -> None:
    """Add to a plan what its rules hit."""
    state = ClusterState.load(bodies, unread=dict.fromkeys(("Node", "Pod"), "is not read"))
    first, *others = [selector.rule(_VERSION) for selector in plan.selectors]
    report = find_impact(state, RuleChange(first, tuple(others)))
    plan.errors += report.problems
    if report.claims:
        plan.notes.append(
            f"{report.used} of {report.devices} devices are in use; they are ours to allocate when these claims end:"
        )
        plan.notes += [f"  {line}" for line in describe_holders(report.claims)]
    plan.warnings += report.warnings


async def _is_known(session: "ApiSession", cluster: ClusterDevices, plan: Plan) -> bool:
    """Return False if the fence lets pass what the rules should keep off, and True if that cannot be found out."""
    state = await read_fence(session)
    last = plan.selectors[-1]
    device = next((key for key in cluster.devices if last.matches(key)), None)
    waiting = next((claim for claim in cluster.claims if claim.status.allocation is None), None)
    if not isinstance(state.fence, RulesFence) or state.problem or device is None or waiting is None:
        return True
    for _ in range(_KNOWN_SECONDS):
        if not await lets_pass(session, waiting, device):
            return True
        await asyncio.sleep(1)
    return False


async def create_rules(
    session: "ApiSession", rules: "Served", bodies: Sequence[dict[str, Any]]
) -> tuple[list[tuple[dict[str, Any], str]], list[str]]:
    """Create rules; return them as stored, each with what was done, and a line for each whose name is taken.

    One that owns the same devices is that of somebody who was faster.
    """
    from dra_operator.cluster.session import ApiError

    stored, problems = [], []
    for body in bodies:
        try:
            stored.append((await session.request("POST", rules.path(), body=body), "created"))
        except ApiError as error:
            if error.status != 409:
                raise
            there = await session.request("GET", rules.path(name=body["metadata"]["name"]))
            if problem := _other_rule(there, body):
                problems.append(problem)
            else:
                stored.append((there, "exists already"))
    return stored, problems


def _other_rule(there: dict[str, Any], body: dict[str, Any]) -> str | None:
    """Return why a rule that has the name of another does not own what that one would own; None if it does."""
    rule = f'DeviceTaintRule "{body["metadata"]["name"]}" is there already'
    if there["metadata"].get("deletionTimestamp"):
        return f"{rule} and is being deleted: wait until it is gone, and try again"
    if there["spec"].get("deviceSelector") != body["spec"]["deviceSelector"]:
        return f"{rule}, and selects other devices: delete it"
    taint, wanted = (each["spec"]["taint"] for each in (there, body))
    if any(taint.get(name, "") != wanted.get(name, "") for name in ("key", "value", "effect")):
        return f"{rule}, and has the taint {_shown(taint)}, by which it owns nothing: delete it"
    return None


def _shown(taint: dict[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"
