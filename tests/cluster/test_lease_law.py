"""The law of the Lease: whatever becomes of requests, clocks and operators, no two may write at once."""

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from .leases import Clock, Contender, Store

ERRORS = (429, 500, 503, 504)


@dataclass
class Own:
    """An operator's clock, which runs a little faster or slower than the world's."""

    world: Clock
    rate: float

    def __call__(self):
        """Return the time."""
        return self.world.now * self.rate


class World:
    """Three operators, and a network that loses and delays."""

    def __init__(self, seed):
        self.chance = Random(seed)  # noqa: S311 - nothing is secret here
        self.clock, self.store = Clock(), Store()
        self.late = self.chance.choice([0.02, 0.2, 0.5])
        self.bad = self.chance.choice([0, 0.1, 0.4])
        self.was_deleted = False
        """By hand, once: who was frozen from one such time to the next cannot tell them apart."""
        self.frozen = {}
        """Until when an operator does nothing, by the clock."""
        self.operators = [self._operator(name) for name in "abc"]

    def _operator(self, name):
        rate = self.chance.uniform(0.95, 1.05)
        return Contender(self.store, Own(self.clock, rate), name, quick=False)

    def turn(self):
        """Let something happen."""
        chance = self.chance.random()
        if self.store.body is None:
            # Who starts now takes the Lease for one that was never there.
            pass
        elif chance < 0.01 or any(operator.ended for operator in self.operators):
            self._restart()
        elif chance < 0.02 and not self.was_deleted and self._all_have_seen_it():
            self.store.body, self.was_deleted = None, True
        elif chance < 0.03:
            self.store.edit(leaseDurationSeconds=self.chance.choice([20, 60]))
        for operator in self.operators:
            if self.chance.random() < 0.02:
                self.frozen[operator] = self.clock.now + self.chance.uniform(5, 30)
            if self.clock.now >= self.frozen.get(operator, 0):
                for _ in range(self.chance.choice([1, 2, 5])):
                    operator.step()
        self._carry()
        self.clock.now += self.chance.choice([0.01, 0.1, 0.5, 1, 3])

    def _all_have_seen_it(self):
        holder = self.store.body["spec"].get("holderIdentity")
        return all(operator.lease.holder == holder for operator in self.operators)

    def _restart(self):
        """End an operator in order, or start one anew that has ended or was killed, under its name or another."""
        place = self.chance.randrange(3)
        old = self.operators[place]
        if not old.ended and self.chance.random() < 0.5:
            old.stop()
        else:
            self.operators[place] = self._operator(self.chance.choice([old.identity, f"{old.identity}x"]))

    def _carry(self):
        """Let requests arrive, and answers; some late, some never, some wrong."""
        for message in tuple(self.store.under_way):
            if message.result is None and self.chance.random() > self.late:
                if self.chance.random() < self.bad:
                    message.result = self.chance.choice(ERRORS)
                    continue
                self.store.arrive(message)
                if self.chance.random() < self.bad:
                    message.result = self.chance.choice(ERRORS)
            elif message.result is not None and self.chance.random() > 0.2:
                if self.chance.random() > self.bad / 2:
                    message.answer = message.result
                self.store.under_way.remove(message)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_at_most_one_may_write(seed):
    """Requests are late, lost, or stored and answered by an error; operators freeze, die, and come back."""
    world = World(seed)
    for _ in range(300):
        world.turn()
        assert sum(operator.lease.valid for operator in world.operators) <= 1
