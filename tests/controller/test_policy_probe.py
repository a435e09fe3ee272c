"""The policy that protects owned devices: what is found out about it, and what is said."""

import pytest

from dra_operator.cluster.ownership_policy import PoolsFence, RulesFence, policy_for_pools, policy_for_rules
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.controller.owned_devices import PolicyProbe

US = "system:serviceaccount:dra-operator:dra-operator"
POLICY, BINDING = policy_for_rules(US)[:2]


class Session:
    """An API server that has a policy and a binding, knows who asks, and counts the requests."""

    def __init__(self, policy=POLICY, binding=BINDING, *, uid="1", error=None, serves=("devicetaintrules",)):
        self.policy, self.binding, self.uid, self.error = policy, binding, uid, error
        self.serves = serves
        self.asked = []

    async def request(self, method, path, **_):
        """Answer a request."""
        self.asked.append(method)
        if self.error is not None:
            raise self.error
        if method == "POST":
            return {"status": {"userInfo": {"username": US}}}
        if path == "/apis/resource.k8s.io/v1":
            return {"resources": [{"name": name} for name in self.serves]}
        found = self.binding if "policybindings" in path else self.policy
        if found is None:
            raise ApiError(404, "NotFound", "not found")
        return {**found, "metadata": {**found["metadata"], "uid": self.uid}}


class Looking:
    """A `PolicyProbe`, what it has reported, and its clock."""

    def __init__(self, **options):
        self.states, self.now = [], 0.0
        self.probe = PolicyProbe(self.states.append, lambda: self.now, **options)

    async def look(self, session):
        """Look when it is time to, and return the state that is reported."""
        self.now += 60
        await self.probe.check(session)
        return self.states[-1] if self.states else None


@pytest.fixture
def looking():
    """One that asks who it is."""
    return Looking()


async def test_the_policy_as_published_protects(looking):
    """It is recognized for what it is, and there is nothing to say."""
    state = await looking.look(Session())

    assert isinstance(state.fence, RulesFence)
    assert looking.probe.notes() == ()


async def test_a_policy_for_pools_protects(looking):
    """So is the variant without parameters, also where no rules are served."""
    state = await looking.look(Session(*policy_for_pools(US, [("gpu", "one")]), serves=()))

    assert isinstance(state.fence, PoolsFence)
    assert looking.probe.notes() == ()


@pytest.mark.parametrize(
    ("session", "why"),
    [
        pytest.param(Session(policy=None), "the policy dra-operator-owned is not installed", id="no policy"),
        pytest.param(
            Session(binding=None), "the binding dra-operator-owned is not installed", id="no binding"
        ),
        pytest.param(
            Session({**POLICY, "spec": {**POLICY["spec"], "validations": []}}),
            "the policy dra-operator-owned or its binding is not as it was published",
            id="changed",
        ),
        pytest.param(
            Session(
                error=ApiError(403, "Forbidden", 'User "x" cannot get resource "y"', verb="get", resource="y")
            ),
            'not permitted to get y: User "x" cannot get resource "y"',
            id="no right",
        ),
    ],
)
async def test_what_does_not_protect_says_why(session, why):
    """Whatever is missing of the policy is named."""
    state = await Looking().look(session)

    assert (state.fence, state.why) == (None, why)


async def test_an_api_server_that_is_away_changes_nothing(looking):
    """Of a policy that cannot be asked for nothing new is known."""
    assert await looking.look(Session(error=ApiUnreachable("away"))) is None


async def test_a_policy_whose_parameters_are_not_served_refuses_all(looking):
    """Where the API server does not serve the rules, that is said, with what to do."""
    state = await looking.look(Session(serves=()))

    assert state.fence is None
    (note,) = looking.probe.notes()
    assert "refuses every allocation" in note
    assert "components/ownership/pools.yaml" in note


async def test_a_policy_that_exempts_another_user_is_named(looking):
    """Where somebody else is exempt, this operator is refused, and both users are named."""
    await looking.look(Session(*policy_for_rules("other")[:2]))

    (note,) = looking.probe.notes()
    assert "lets only other allocate owned devices" in note
    assert US in note


async def test_a_policy_that_was_deleted_and_installed_again_has_another_uid(looking):
    """Policy and binding count, whichever of them is another one."""
    first, second = await looking.look(Session(uid="1")), await looking.look(Session(uid="2"))

    assert (first.uid, second.uid) == ("1/1", "2/2")
    assert first.fence == second.fence


async def test_it_is_asked_for_now_and_then(looking):
    """Three requests every 15 s, and once who this operator is."""
    session = Session()
    await looking.look(session)
    assert session.asked == ["POST", "GET", "GET", "GET"]

    await looking.probe.check(session)
    assert len(session.asked) == 4
    await looking.look(session)
    assert session.asked[4:] == ["GET", "GET", "GET"]
