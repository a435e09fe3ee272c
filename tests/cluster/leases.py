"""What tests of the Lease have in common: an API server with one Lease, a network, and operators that want it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dra_operator.cluster.lease import Lease
from dra_operator.cluster.session import ApiError, ApiUnreachable

SECONDS = 15


class Turn:
    """Somebody else's turn: what awaits it goes on at the next step."""

    def __await__(self):
        """Wait once."""
        yield


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self):
        """Return the time."""
        return self.now


@dataclass(eq=False)
class Message:
    """A request under way: stored or not, answered or not."""

    method: str
    body: dict | None
    result: dict | int | None = None
    answer: dict | int | str | None = None


@dataclass
class Store:
    """The one Lease of an API server, changed as it changes it: only in the version, of the object, that was sent."""

    body: dict | None = None
    fault: str | int | dict | None = None
    under_way: list = field(default_factory=list)
    _versions: int = 0

    def work(self):
        """Store all that is under way and answer it, as `fault` has it."""
        for message in self.under_way:
            if self.fault == "refused":
                message.answer = "refused"
                continue
            self.arrive(message)
            message.answer = message.result if self.fault is None else self.fault
        self.under_way.clear()

    def arrive(self, message):
        """Do what a request asks for."""
        message.result = self._do(message.method, message.body)

    def _do(self, method, body):
        if method == "POST":
            return 409 if self.body else self._keep(body, f"uid-{self._versions}")
        if self.body is None:
            return 404 if method == "GET" or "uid" not in body["metadata"] else 409
        if method == "GET":
            return self.body
        sent, stored = body["metadata"], self.body["metadata"]
        same = (sent["resourceVersion"], sent["uid"]) == (stored["resourceVersion"], stored["uid"])
        return self._keep(body, stored["uid"]) if same else 409

    def _keep(self, body, uid):
        self._versions += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._versions), "uid": uid}
        self.body = {**body, "metadata": metadata}
        return self.body

    def edit(self, **terms):
        """Change its terms as somebody with kubectl does."""
        self._keep({**self.body, "spec": {**self.body["spec"], **terms}}, self.body["metadata"]["uid"])


class Contender:
    """An operator that wants the Lease, takes it when it can, and keeps it while it can."""

    def __init__(self, store, clock, identity, *, quick=True, seconds=SECONDS):
        self.store, self.clock, self.identity = store, clock, identity
        self.lease = Lease(
            self,
            "ns",
            identity,
            seconds=seconds,
            clock=clock,
            wall=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock()),
            sleep=self._sleep,
            pause=self._sleep,
        )
        self.asked = []
        """The method of each request, and the seconds that it may take."""
        self.ended = False
        self._quick = quick
        self._begin, self._life = self._live, None

    async def request(self, method, path, *, body=None, timeout):  # noqa: ASYNC109, ARG002 - as a session's
        """Send a request; wait for its answer for so long."""
        message = Message(method, body)
        self.asked.append((method, timeout))
        self.store.under_way.append(message)
        sent = self.clock()
        while message.answer is None:
            if self.clock() - sent >= timeout:
                raise ApiUnreachable("no answer in time")
            await Turn()
        if message.answer == "page":
            raise ApiError(404, "", "", is_status=False)
        if isinstance(message.answer, str):
            raise ApiUnreachable(message.answer)
        if isinstance(message.answer, int):
            raise ApiError(message.answer, "", "")
        return message.answer

    async def _sleep(self, seconds):
        until = self.clock() + seconds
        while self.clock() < until:
            await Turn()

    async def _live(self):
        while True:
            try:
                if await self.lease.acquire():
                    break
            except (ApiError, ApiUnreachable):
                pass
            await self._sleep(self.lease.period)
        await self.lease.keep()

    def step(self):
        """Go on until the next wait."""
        if self._quick:
            self.store.work()
        if self.ended:
            return
        self._life = self._life or self._begin()
        try:
            self._life.send(None)
        except StopIteration:
            self.ended = True

    def rest(self, seconds=SECONDS):
        """Go on for so long, quickly answered."""
        until = self.clock.now + seconds
        while self.clock.now < until and not self.ended:
            self.step()
            self.clock.now += 0.05

    def stop(self):
        """Begin to end in order, whatever is under way."""
        if self._life is not None:
            self._life.close()
        self._begin, self._life = self.lease.give_up, None

    def end(self):
        """End in order, quickly answered."""
        self.stop()
        while not self.ended:
            self.step()
