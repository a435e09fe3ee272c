"""One random history: what plugin, kubelet, device manager and crashes do to an agent, and what must never be."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc

from bridgefuzz.plugin import DevicePlugin, Listed
from bridgefuzz.world import DRIVER, RESOURCE, BridgeWorld

SLICES_SECONDS = 2.0
"""How soon after a plugin's message, or the agent's readiness, slices are what the plugin says."""
SLACK_SECONDS = 18.0
"""What a machine on which much else runs may add."""


class BrokenError(AssertionError):
    """What must never be has happened."""


class History:
    """The steps of one history, drawn from a seed."""

    def __init__(self, world: BridgeWorld, seed: str, devices: int) -> None:
        self.world = world
        self.random = random.Random(seed)  # noqa: S311 - a seed makes a history repeatable
        self.claims: dict[str, dict[str, Any]] = {}
        self.ids: dict[str, list[str]] = {}
        self.prepared: set[str] = set()
        self.held: set[str] = set()
        self.slowest = 0.0
        self.number = 0
        self.plugin: DevicePlugin = world.plugin({f"dev-{n}": Listed(numa=(n % 2,)) for n in range(devices)})
        self.plugin.behaviour.cdi_devices = True
        self.is_running = False

    def begin(self) -> None:
        """Start agent and plugin."""
        self.start_agent()
        self.start_plugin()
        self.check_slices()

    def step(self) -> None:
        """Do something at random, and check what must be then."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (4, self.flip_health),
            (2, self.add_devices),
            (2, self.remove_devices),
            (6, self.prepare),
            (3, self.prepare_again),
            (4, self.unprepare),
            (2, self.crash),
            (2, self.crash_while_preparing),
            (1, self.restart_plugin),
            (1, self.restart_kubelet),
            (2, self.hold),
        ]
        weights, actions = zip(*steps, strict=True)
        self.random.choices(actions, weights)[0]()
        self.check_allocates()

    def end(self) -> None:
        """Unprepare everything: nothing is left."""
        for name in sorted(self.claims):
            self.end_claim(name)
        if left := self.world.cdi_files():
            raise BrokenError(f"CDI files are left: {sorted(left)}")
        folder = self.world.kubelet.folder / "plugins" / "dra-bridge" / "claims"
        if left := [path.name for path in folder.iterdir()]:
            raise BrokenError(f"checkpoints are left: {left}")

    def start_agent(self, killed_at: int = 0) -> None:
        """Start the agent; it may end before it is ready if it is to end at a write."""
        self.world.start_agent(killed_at=killed_at)
        self.world.wait_for(
            lambda: self.world.is_ready() or self.world.agent.exitcode is not None, "the agent to be ready"
        )
        if self.world.agent.exitcode is not None:
            self.start_agent()

    def start_plugin(self) -> None:
        """Register the plugin, as it does when it sees a new socket."""
        self.plugin.stop()
        self.world.wait_for(self.try_plugin, "the plugin to register")
        self.is_running = True

    def try_plugin(self) -> bool:
        """Register, if the agent is there; one that has ended at a write is started again."""
        try:
            self.plugin.start()
        except grpc.RpcError:
            self.plugin.stop()
            if self.world.agent.exitcode is not None:
                self.start_agent()
            return False
        return True

    # Steps

    def flip_health(self) -> None:
        """Some devices turn, and the plugin says so."""
        for name in self.some_devices():
            self.plugin.devices[name].healthy ^= True
        self.tell()

    def add_devices(self) -> None:
        """The plugin has more devices."""
        for _ in range(self.random.randint(1, 5)):
            self.number += 1
            self.plugin.devices[f"new-{self.number}"] = Listed()
        self.tell()

    def remove_devices(self) -> None:
        """Some devices are gone, be they in use or not."""
        for name in self.some_devices()[: len(self.plugin.devices) - 5]:
            del self.plugin.devices[name]
        self.tell()

    def hold(self) -> None:
        """The device manager offers devices and gives some to a container, or it has them back."""
        if self.held:
            self.held = set()
        else:
            used = {each for ids in self.ids.values() for each in ids}
            self.held = {name for name in self.some_devices() if name not in used}
        self.world.kubelet.held[RESOURCE] = set(self.held)
        # It is asked once a second.
        self.check_slices(extra=1.5)

    def prepare(self) -> None:
        """A claim is allocated from what the slices offer, and prepared."""
        free = self.free_devices()
        if not free:
            return
        self.number += 1
        name = f"claim-{self.number}"
        chosen = self.random.sample(free, min(len(free), self.random.randint(1, 4)))
        cut = self.random.randint(0, len(chosen) - 1)
        requests = {key: part for key, part in (("a", chosen[:cut]), ("b", chosen[cut:])) if part}
        self.claims[name] = self.world.put_claim(name, requests)
        self.ids[name] = chosen
        self.try_prepare(name)

    def prepare_again(self) -> None:
        """The kubelet asks again: the plugin is not."""
        if not self.prepared:
            return
        name = self.random.choice(sorted(self.prepared))
        before = len(self.plugin.allocated)
        answer = self.try_prepare(name)
        if answer is not None and answer.error:
            raise BrokenError(f"{name} was prepared, and now: {answer.error}")
        if len(self.plugin.allocated) != before:
            raise BrokenError(f"{name} was prepared, and the plugin was asked again")

    def unprepare(self) -> None:
        """A claim ends."""
        if self.claims:
            self.end_claim(self.random.choice(sorted(self.claims)))

    def crash(self) -> None:
        """The agent ends at any moment, maybe soon after its start again."""
        self.world.kill_agent()
        self.start_agent(killed_at=self.random.choice([0, self.random.randint(1, 12)]))
        self.start_plugin()
        self.revive()
        self.check_slices()

    def crash_while_preparing(self) -> None:
        """The agent ends at one of the next writes, of a preparation most likely."""
        self.world.kill_agent()
        self.start_agent(killed_at=self.random.randint(8, 30))
        with suppress(grpc.RpcError):
            self.plugin.stop()
            self.plugin.start()
        for _ in range(3):
            self.prepare()
            self.unprepare()
        self.revive()
        self.check_slices()

    def restart_plugin(self) -> None:
        """The plugin dies and comes back."""
        self.plugin.stop()
        time.sleep(self.random.random() * 0.3)
        self.start_plugin()
        self.check_slices()

    def restart_kubelet(self) -> None:
        """A kubelet that starts deletes the slices of its node."""
        self.world.remove_slices()
        self.check_slices()

    # What they use

    def some_devices(self) -> list[str]:
        """Return some of the plugin's devices."""
        names = sorted(self.plugin.devices)
        return self.random.sample(names, self.random.randint(1, min(6, len(names))))

    def tell(self) -> None:
        """Let the plugin list its devices, and wait for the slices."""
        self.plugin.change()
        self.check_slices()

    def free_devices(self) -> list[str]:
        """Return what a scheduler would allocate: what is published without taints and not allocated."""
        used = {each for ids in self.ids.values() for each in ids}
        return sorted(name for name, taints in self.world.taints().items() if not taints and name not in used)

    def try_prepare(self, name: str) -> Any:
        """Prepare a claim; None if the agent does not answer."""
        try:
            answer = self.world.kubelet.prepare(DRIVER, self.claims[name], seconds=20)
        except (grpc.RpcError, KeyError):
            return None
        if not answer.error:
            self.prepared.add(name)
            self.check_prepared(name, answer)
        return answer

    def end_claim(self, name: str) -> None:
        """Unprepare a claim as a kubelet does, again until it is done."""

        def is_done() -> bool:
            try:
                return self.world.kubelet.unprepare(DRIVER, self.claims[name]) == ""
            except grpc.RpcError:
                self.revive()
                return False

        self.world.wait_for(is_done, f"the end of {name}")
        uid = self.claims[name]["metadata"]["uid"]
        if left := [each for each in self.world.cdi_files() if uid in each]:
            raise BrokenError(f"{name} is unprepared, and {left} is there")
        del self.claims[name], self.ids[name]
        self.prepared.discard(name)

    def revive(self) -> None:
        """Start the agent and the plugin again if the agent has ended."""
        if self.world.agent is None or self.world.agent.exitcode is not None:
            self.start_agent()
            self.start_plugin()

    # What must be

    def check_slices(self, extra: float = 0.0) -> None:
        """Slices are what plugin and device manager say, in time."""
        expected = {
            name: {
                *({("device-manager", "in-use")} if name in self.held else ()),
                *(() if listed.healthy else {("unhealthy", "unhealthy")}),
            }
            for name, listed in self.plugin.devices.items()
        }
        begun = time.monotonic()
        limit = SLICES_SECONDS + SLACK_SECONDS + extra
        while (found := self.world.taints()) != expected:
            if self.world.agent.exitcode is not None:
                self.revive()
                begun = time.monotonic()
            if time.monotonic() - begun > limit:
                wrong = {name: found.get(name) for name in expected if found.get(name) != expected[name]}
                more = sorted(found.keys() - expected.keys())
                raise BrokenError(
                    f"after {limit} s slices differ: {wrong}, and {more} are there\n{self.world.log()[-3000:]}"
                )
            time.sleep(0.01)
        self.slowest = max(self.slowest, time.monotonic() - begun - extra)

    def check_prepared(self, name: str, answer: Any) -> None:
        """A prepared claim has its devices, and its CDI file names them."""
        if sorted(each.device_name for each in answer.devices) != sorted(self.ids[name]):
            raise BrokenError(f"{name} was answered {answer}")
        uid = self.claims[name]["metadata"]["uid"]
        (content,) = [text for file, text in self.world.cdi_files().items() if uid in file]
        paths = [
            node["path"] for each in content["devices"] for node in each["containerEdits"]["deviceNodes"]
        ]
        if sorted(paths) != sorted(f"/dev/{each}" for each in self.ids[name]):
            raise BrokenError(f"{name} has the devices {paths}")

    def check_allocates(self) -> None:
        """No device was allocated that the device manager has, or that another prepared claim has."""
        for ids in self.plugin.allocated:
            if self.held.intersection(ids):
                raise BrokenError(f"{ids} were allocated, and {self.held} are in a container")
            owners = [name for name in self.claims if set(ids) & set(self.ids[name])]
            if len(owners) > 1:
                raise BrokenError(f"{ids} are of {owners}")
        self.plugin.allocated.clear()


def run_history(seed: str, steps: int, devices: int = 200) -> History:
    """Run a history. Raises BrokenError if something is wrong."""
    with BridgeWorld() as world:
        history = History(world, seed, devices)
        history.begin()
        for _ in range(steps):
            history.step()
        history.end()
    return history
