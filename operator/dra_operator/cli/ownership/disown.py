"""`dra-operator disown`: give devices back, by deleting the DeviceTaintRules that own them.

The operator keeps a rule, by its finalizer, until none of its own writes is under way; that is waited for.
Source: docs/operator.md, "Devices that are ours".
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dra_operator.api.names import OWNED_FINALIZER
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceTaintRule
from dra_operator.cli.client import Context, Kubeconfig, ask, served_rules
from dra_operator.cli.output import refuse
from dra_operator.cli.ownership.devices import read_cluster
from dra_operator.cli.ownership.own import (
    NOT_SERVED,
    DeviceOption,
    DryRun,
    DryRunOption,
    Output,
    OutputOption,
    PoolOption,
    say_rules,
)
from dra_operator.cli.ownership.rules import owning_selectors, selectors
from dra_operator.kinds.selector import Selector
from dra_operator.questions.ownership_effects import (
    find_divided_counters,
    find_divided_nodes,
    find_holders,
    in_whole_counter_sets,
)
from dra_operator.questions.raw_devices import ClusterDevices, DeviceKey, held_devices, names

if TYPE_CHECKING:
    from dra_operator.cluster.discovery import Served
    from dra_operator.cluster.session import ApiSession

TIMEOUT = 60.0
"""Seconds: an operator that runs lets go as soon as its writes are answered, which takes none of them longer."""
_POLL_SECONDS = 0.5
_PROGRESS_SECONDS = 5.0
RESTART = (
    "restart kube-scheduler before pods use these devices: after it has listed claims anew, its set of devices in use "
    "can lack them, and it would give one to a second pod"
)

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(slots=True)
class Release:
    """The rules to delete, the devices that are not ours then, published or held, and what is to be said before."""

    rules: list[DeviceTaintRule] = field(default_factory=list)
    devices: set[DeviceKey] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@app.command()
def disown(
    rule: Annotated[
        list[str] | None, typer.Argument(metavar="[RULE]...", help="DeviceTaintRules by their names.")
    ] = None,
    *,
    driver: Annotated[
        str,
        typer.Option("--driver", metavar="NAME", help="All rules that own devices of this driver."),
    ] = "",
    pool: PoolOption = None,
    device: DeviceOption = None,
    in_use: Annotated[
        bool,
        typer.Option(
            "--in-use", help="Also devices that claims hold; kube-scheduler must be restarted then."
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for the operator to let go.")
    ] = TIMEOUT,
    dry_run: DryRunOption = DryRun.NONE,
    output: OutputOption = Output.NAME,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Give devices back, and wait until the operator has let go."""
    if bool(rule) == bool(driver):
        refuse("name rules, or the devices by --driver: one of the two")
    if not driver and (pool or device):
        refuse("--pool and --device go with --driver")
    wanted = selectors(driver, pool or (), device or ()) if driver else []
    cluster, rules, release = ask(kubeconfig, context, lambda session: _plan(session, rule or [], wanted))
    for note in (*cluster.notes, *release.notes):
        typer.echo(f"note: {note}", err=True)
    if release.errors:
        refuse(*release.errors)
    _check_holders(cluster, release, in_use=in_use)
    bodies = [_body(each, rules) for each in release.rules]
    if dry_run is DryRun.CLIENT:
        say_rules([(body, "deleted (dry run)") for body in bodies], output)
        return
    late = ask(kubeconfig, context, lambda session: _delete(session, rules, release, timeout))
    say_rules([(body, "deleted") for body in bodies if body["metadata"]["name"] not in late], output)
    if late:
        for line in late.values():
            typer.echo(f"error: {line}", err=True)
        raise typer.Exit(1)
    for line in find_new_holders(cluster, ask(kubeconfig, context, read_cluster), release):
        typer.echo(f"warning: {line}", err=True)


async def _plan(
    session: "ApiSession", rule_names: Sequence[str], wanted: Sequence[Selector]
) -> "tuple[ClusterDevices, Served, Release]":
    rules = await served_rules(session)
    if rules is None:
        raise LookupError(NOT_SERVED)
    cluster = await read_cluster(session)
    return cluster, rules, make_release(cluster, rule_names, wanted)


def make_release(cluster: ClusterDevices, rule_names: Sequence[str], wanted: Sequence[Selector]) -> Release:
    """Return which rules are to be deleted: those of these names, and those whose devices are all selected."""
    release = Release()
    owning = owning_selectors(cluster.owning_rules())
    chosen: dict[str, None] = {}
    for name in rule_names:
        if name in owning:
            chosen[name] = None
        elif name in cluster.rules:
            release.errors.append(
                f'DeviceTaintRule "{name}" owns no devices, so it is left alone: kubectl delete devicetaintrule {name}'
            )
        else:
            hint = f"; there is {listed(list(owning))}" if owning else "; no rule owns devices"
            release.errors.append(f'there is no DeviceTaintRule "{name}"{hint}')
    for selector in wanted:
        inside = [name for name, other in owning.items() if selector.includes(other)]
        beyond = [name for name, other in owning.items() if name not in inside and selector.overlaps(other)]
        chosen.update(dict.fromkeys(inside))
        if beyond:
            text = f"{selector}: owned by DeviceTaintRule {listed(beyond)}, which owns other devices too"
            if inside:
                release.notes.append(f"{text}: they stay owned by it")
            else:
                release.errors.append(
                    f"{text}: give back {owning[beyond[0]]}, then own what you want to keep"
                )
        elif not inside:
            release.errors.append(_unowned(cluster, selector))
    release.rules = [cluster.rules[name] for name in chosen]
    release.devices = _given_back(cluster, release.rules)
    _judge_division(cluster, release)
    return release


def _given_back(cluster: ClusterDevices, rules: Sequence[DeviceTaintRule]) -> set[DeviceKey]:
    """Return the devices that are ours by these rules alone.

    A claim holds devices also while their slice is away, so those that claims hold are judged without it.
    """
    deleted = {(rule.metadata.name, rule.metadata.uid) for rule in rules}
    kept = [
        rule
        for rule in cluster.owning_rules().values()
        if (rule.metadata.name, rule.metadata.uid) not in deleted
    ]
    by_slice = {key for key, device in cluster.devices.items() if device.is_owned_by_slice}
    return {
        key
        for key in (cluster.devices.keys() | cluster.holders().keys()) - by_slice
        if any(names(rule, key) for rule in rules) and not any(names(rule, key) for rule in kept)
    }


def _judge_division(cluster: ClusterDevices, release: Release) -> None:
    """Refuse what would divide a counter set, and say where requests for All would be served by nobody.

    Devices of a counter set that is divided already are not used, so they may be given back one by one.
    """
    owned = cluster.owned()
    whole = in_whole_counter_sets(cluster, owned, release.devices)
    stay = owned - release.devices
    release.errors += find_divided_counters(cluster, stay, whole, "give back")
    release.notes += find_divided_nodes(cluster, stay, release.devices)


def _unowned(cluster: ClusterDevices, selector: Selector) -> str:
    by_slice = sorted(
        {
            device.slice_name
            for key, device in cluster.devices.items()
            if device.is_owned_by_slice and selector.matches(key)
        }
    )
    if by_slice:
        return f"{selector}: owned by a taint in ResourceSlice {listed(by_slice)}, which the driver has to take away"
    return f"{selector}: no DeviceTaintRule owns these devices"


def _check_holders(cluster: ClusterDevices, release: Release, *, in_use: bool) -> None:
    """Refuse devices in use, unless that is wanted. Raises SystemExit."""
    holders = find_holders(cluster.claims, release.devices)
    if not holders:
        return
    for line in holders:
        typer.echo(f"{'note' if in_use else 'error'}: {line}", err=True)
    if not in_use:
        refuse(
            "these devices are in use: delete these claims first, or give --in-use and restart kube-scheduler "
            "afterwards"
        )


def find_new_holders(before: ClusterDevices, after: ClusterDevices, release: Release) -> list[str]:
    """Return a line for each claim that holds devices which have been given back, and what to do about it.

    A claim that came to hold one meanwhile and is reserved for a pod has it from kube-scheduler, which knows of it.
    """
    known = {claim.metadata.uid for claim in before.claims if any(held_devices(claim))}
    claims = [claim for claim in after.claims if claim.metadata.uid in known or not claim.status.reserved_for]
    holders = find_holders(claims, _given_back(after, release.rules))
    return [*holders, RESTART] if holders else []


def _body(rule: DeviceTaintRule, rules: "Served") -> dict[str, Any]:
    selector = owning_selectors({rule.metadata.name: rule})[rule.metadata.name]
    body = selector.rule(rules.api_version)
    return {**body, "metadata": {"name": rule.metadata.name}}


async def _delete(
    session: "ApiSession",
    rules: "Served",
    release: Release,
    timeout: float,  # noqa: ASYNC109 - of all of them
) -> dict[str, str]:
    """Delete rules and wait until they are gone. Return a line for each that is still there, by its name."""
    from dra_operator.cluster.session import ApiError

    waiting = {rule.metadata.name: rule.metadata.uid for rule in release.rules}
    for name, uid in waiting.items():
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        try:
            await session.request("DELETE", rules.path(name=name), body=body)
        except ApiError as error:
            if error.status != 404:
                raise
    begun = told = time.monotonic()
    finalizers: dict[str, list[str]] = {}
    while True:
        for name, uid in list(waiting.items()):
            found = await _still_there(session, rules, name, uid)
            if found is None:
                del waiting[name]
            else:
                finalizers[name] = found
        now = time.monotonic()
        if not waiting or now - begun >= timeout:
            return {name: _late(name, finalizers[name], timeout) for name in waiting}
        if now - told >= _PROGRESS_SECONDS:
            told = now
            typer.echo(
                f"waiting for the operator to let go of {listed(list(waiting))}: {now - begun:.0f} s",
                err=True,
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _still_there(session: "ApiSession", rules: "Served", name: str, uid: str) -> list[str] | None:
    """Return the finalizers of a rule, None if it is gone; one that was created since is another."""
    from dra_operator.cluster.session import ApiError

    try:
        found = await session.request("GET", rules.path(name=name))
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    return found["metadata"].get("finalizers", []) if found["metadata"]["uid"] == uid else None


def _late(name: str, finalizers: Sequence[str], timeout: float) -> str:
    others = [each for each in finalizers if each != OWNED_FINALIZER]
    if OWNED_FINALIZER not in finalizers:
        return f'DeviceTaintRule "{name}" is still there after {timeout:g} s; its finalizers are {listed(others)}'
    patch = json.dumps({"metadata": {"finalizers": others or None}})
    return (
        f'DeviceTaintRule "{name}" is still there after {timeout:g} s: the operator lets go of it when its own writes '
        f"are answered, so look at its /readyz and log. Only if no operator runs: "
        f"kubectl patch devicetaintrule {name} --type=merge -p '{patch}'"
    )
