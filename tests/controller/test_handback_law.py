"""Whatever happens to pods and claims: nothing is taken back from a pod that may be placed, or from a claim in use."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.api.names import FINALIZER
from dra_operator.controller.claims import PodUse

from .test_handback import NO_CPU, NODE, POD, HandbackBench

PODS = {"p0": frozenset({"c0", "c2"}), "p1": frozenset({"c1", "c2"}), "p2": frozenset({"c1"})}
"""Which claims each pod names: one has a claim of its own, two share one of the others each."""
SHARED = {"c1", "c2"}
CONDITIONS = (None, NO_CPU)
RECOVERED = st.sampled_from(["allocate", "free", "reserve", "foreign"])
EVENTS = st.one_of(
    st.tuples(st.just("condition"), st.sampled_from(sorted(PODS)), st.sampled_from(CONDITIONS)),
    st.tuples(st.just("nominate"), st.sampled_from(sorted(PODS)), st.sampled_from(["", NODE, "node-2"])),
    st.tuples(st.just("bind"), st.sampled_from(sorted(PODS)), st.none()),
    st.tuples(RECOVERED, st.sampled_from(["c0", "c1", "c2"]), st.sampled_from(sorted(PODS))),
    *[st.tuples(st.just("wait"), st.sampled_from([1.0, 30.0, 61.0]), st.none())] * 3,
    *[st.tuples(st.just("answer"), st.none(), st.none())] * 2,
)


@dataclass
class ClaimState:
    """A claim as it is stored: what it holds, and for which pods it is reserved."""

    allocated: bool = True
    finalizer: bool = True
    reserved: tuple[str, ...] = ()
    foreign: bool = False


class World:
    """Pods that cannot be placed at first, their claims, and what the handback has to know of them, said again."""

    def __init__(self):
        self.bench = HandbackBench()
        self.claims = {name: ClaimState() for name in ("c0", "c1", "c2")}
        self.pods = {
            name: replace(POD, name=name, uid=f"uid-{name}", claims=claims) for name, claims in PODS.items()
        }
        self.others = dict.fromkeys(PODS, False)
        """Whether a nomination of another than ours was seen of a pod."""
        self.since = dict.fromkeys(PODS)
        self.reserved = dict.fromkeys(PODS, frozenset())
        self.ripe = set()
        self.pending = []
        for name in self.claims:
            self.store(name)
        for name in PODS:
            self.see(name)

    def store(self, name):
        """Have the newest state of a claim seen."""
        state = self.claims[name]
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in state.reserved]
        self.bench.put(
            name,
            reserved=reserved,
            allocated=state.allocated,
            finalizers=(FINALIZER,) if state.finalizer else (),
        )
        if state.foreign:
            self.bench.foreign.add(name)
        else:
            self.bench.foreign.discard(name)

    def see(self, name):
        """Have the newest state of a pod seen."""
        pod = self.pods[name]
        self.others[name] = self.others[name] or pod.nominated_node != NODE
        self.bench.claims.put_pod(PodUse("default", name, pod.claims))
        self.bench.see(pod)

    def happen(self, what, subject, value):
        """Let one thing happen."""
        match what:
            case "condition":
                self.pods[subject] = replace(self.pods[subject], unschedulable=value)
                self.see(subject)
            case "nominate":
                self.pods[subject] = replace(self.pods[subject], nominated_node=value)
                self.see(subject)
            case "bind":
                self.pods[subject] = replace(self.pods[subject], node=NODE)
                self.see(subject)
            case "allocate" | "foreign":
                self.claims[subject] = ClaimState(foreign=what == "foreign")
                self.store(subject)
            case "reserve":
                if self.claims[subject].allocated:
                    self.claims[subject].reserved = (value,)
                    self.store(subject)
            case "free":
                self.claims[subject].reserved = ()
                self.store(subject)
            case "wait":
                self.bench.clock.now += subject
            case "answer":
                self.answer()

    def answer(self):
        """Store what was sent, unless the claim has changed."""
        for write in self.pending:
            if not self.claims[write.key[1]].reserved:
                self.claims[write.key[1]] = ClaimState(allocated=False, finalizer=False)
            self.store(write.key[1])
        self.pending.clear()

    def is_stuck(self, name):
        """Return whether kube-scheduler says that it cannot place a pod, and nothing speaks against that."""
        pod = self.pods[name]
        held = {claim: self.claims[claim] for claim in pod.claims}
        if pod.node:
            return False
        if name in self.ripe:
            return True
        speaks_for_it = pod.unschedulable is not None and not (pod.nominated_node and self.others[name])
        return speaks_for_it and any(
            not claim.allocated
            or (not claim.foreign and (not claim.reserved or (key in SHARED and name in claim.reserved)))
            for key, claim in held.items()
        )

    def reserved_for(self, name):
        """Return the claims that are reserved for a pod."""
        return frozenset(claim for claim in PODS[name] if name in self.claims[claim].reserved)

    def step(self):
        """Have the operator look, and judge what it writes."""
        now = self.bench.clock.now
        for name in PODS:
            if not self.is_stuck(name):
                self.since[name] = None
                self.ripe.discard(name)
            elif self.since[name] is None or self.reserved_for(name) != self.reserved[name]:
                self.since[name] = now
                self.reserved[name] = self.reserved_for(name)
        due = {name for name, since in self.since.items() if since is not None and now >= since + 60}
        for write in self.bench.run():
            if write.kind == "withdraw":
                self.judge(write, due)
                self.pending.append(write)
            else:
                assert not self.others[write.key[1]], "a nomination of kube-scheduler's was cleared"

    def judge(self, write, due):
        """Fail if a claim may be in use, or is not ours, or a pod names it that may be placed."""
        claim = self.claims[write.key[1]]
        users = {name for name, claims in PODS.items() if write.key[1] in claims and not self.pods[name].node}
        assert not claim.reserved
        assert not (claim.allocated and claim.foreign)
        assert users <= due
        self.ripe |= users


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_nothing_is_taken_from_a_pod_that_may_be_placed(events):
    """Each write is judged by what was seen before, in whatever order things happen."""
    world = World()
    world.step()
    for event in events:
        world.happen(*event)
        world.step()
