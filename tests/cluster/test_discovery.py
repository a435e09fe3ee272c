"""Discovery: the newest version of each kind that the API server serves."""

import weakref

import pytest

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.discovery import Served, pages, served
from dra_operator.cluster.session import ApiError, ApiUnreachable

from .script import CLAIMS, cut, ok, status


@pytest.fixture
def offer(script):
    """Serve the given plurals at the given group versions, 404 elsewhere."""

    def offers(**plurals):
        def answer(request):
            version = request.path.rpartition("/")[2]
            if request.path.startswith("/apis/") and version in plurals:
                return ok({"resources": [{"name": name} for name in plurals[version]]})(request)
            if request.path == "/api/v1":
                return ok({"resources": [{"name": "nodes"}, {"name": "nodes/status"}]})(request)
            return status(404)(request)

        script.default = answer

    return offers


async def test_newest_version_wins(session, offer):
    """Of several versions the newest that the server offers is used, kind by kind."""
    offer(v1=["resourceclaims"], v1beta2=["resourceclaims", "devicetaintrules"], v1beta1=["resourceclaims"])

    found = await served(session, KINDS)

    assert found["ResourceClaim"] == Served(KINDS["ResourceClaim"], "v1")
    assert found["DeviceTaintRule"] == Served(KINDS["DeviceTaintRule"], "v1beta2")


async def test_old_servers_are_spoken_to_in_their_version(session, offer):
    """A server of 1.32 is spoken to in v1beta1."""
    offer(v1beta1=["resourceclaims"], v1alpha3=["devicetaintrules"])

    found = await served(session, KINDS)

    assert found["ResourceClaim"].version == "v1beta1"
    assert found["DeviceTaintRule"].version == "v1alpha3"


async def test_an_answer_that_is_no_list_of_resources_is_no_answer(script, session):
    """What something between answers in its place does not say that a kind is not served."""
    script.default = ok({"status": "ok"})

    with pytest.raises(ApiUnreachable, match="no list of resources"):
        await served(session, KINDS)


async def test_who_does_not_serve_the_core_is_no_api_server(script, session):
    """A 404 for the core is an error to wait out: nothing may be decided as if there were no Nodes and Pods."""
    script.default = status(404)

    with pytest.raises(ApiError):
        await served(session, KINDS)


@pytest.mark.parametrize(
    ("fault", "error"), [(status(503), ApiError), (cut, ApiUnreachable)], ids=["503", "cut"]
)
async def test_fault_is_not_taken_for_absence(script, session, fault, error):
    """A server that cannot answer now does not make kinds disappear."""
    script.default = fault

    # The core, which must be there in any case, is not among those asked for.
    with pytest.raises(error):
        await served(session, {"ResourceClaim": KINDS["ResourceClaim"]})


@pytest.mark.parametrize(
    ("kind", "version", "arguments", "path"),
    [
        ("ResourceClaim", "v1", (), "/apis/resource.k8s.io/v1/resourceclaims"),
        ("ResourceClaim", "v1", ("ns",), "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"),
        (
            "ResourceClaim",
            "v1beta1",
            ("ns", "c", "status"),
            "/apis/resource.k8s.io/v1beta1/namespaces/ns/resourceclaims/c/status",
        ),
        ("Node", "v1", ("", "n1"), "/api/v1/nodes/n1"),
    ],
    ids=["all", "of a namespace", "subresource", "cluster-scoped"],
)
def test_paths(kind, version, arguments, path):
    """Paths are those of the API server."""
    assert Served(KINDS[kind], version).path(*arguments) == path


class Objects(list):
    """A list of which can be seen whether anybody has it still."""


class Session:
    """Answers with pages of one object each, and keeps what it was asked with."""

    def __init__(self, *names):
        self.names = names
        self.asked = []
        self.kept = []

    async def request(self, method, path, *, params):
        """Answer with the next page."""
        self.asked.append((method, path, params))
        items = Objects([{"metadata": {"name": self.names[len(self.kept)]}}])
        self.kept.append(weakref.ref(items))
        following = "" if len(self.kept) == len(self.names) else f"after-{len(self.kept)}"
        return {"metadata": {"resourceVersion": "7", "continue": following}, "items": items}


async def test_each_page_says_whether_more_follow():
    """Each but the first is asked for with what the one before ended with."""
    session = Session("a", "b")

    told = [(version, list(items), more) async for version, items, more in pages(session, CLAIMS, 1)]

    assert told == [("7", [{"metadata": {"name": name}}], more) for name, more in (("a", True), ("b", False))]
    assert [params for *_, params in session.asked] == [{"limit": "1"}, {"limit": "1", "continue": "after-1"}]


async def test_a_page_is_let_go_at_its_end():
    """While a list waits for room, it must not hold what has been delivered."""
    session = Session("a", "b")

    async for _, items, _ in pages(session, CLAIMS, 1):
        assert session.kept[-1]() is not None
        assert len(list(items)) == 1
        assert session.kept[-1]() is None
