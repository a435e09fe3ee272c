"""What the operator may do on the real API server, what it asks for, and what it leaves there."""

import time

import pytest

from controlplane.fleet import DRIVER, create_fleet
from controlplane.manifests import NAMESPACE, SERVICE_ACCOUNT
from controlplane.scene import FINALIZER, RESOURCE, allocation
from dra_operator.api.names import OWNED_KEY

DEVICES = 40
OWN_ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"
"""Where what the operator may do in its own namespace stands."""


@pytest.fixture
def fleet(scene):
    """Make ten nodes with four devices each."""
    create_fleet(scene.client, nodes=10, devices=4)
    return scene


class TestRights:
    """A service account that may do less than it must."""

    ROLE = "dra-operator-less"

    @pytest.fixture
    def less(self, access, scene):
        """Return a function that makes a service account with the operator's rights, but for those on one resource.

        `keep` are the verbs that it may use on it.
        """
        client = scene.client
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        whole = (
            client.get(f"{roles}/dra-operator")["rules"] + client.get(f"{OWN_ROLES}/dra-operator")["rules"]
        )

        def make(without, keep=()):
            rules = [
                {**rule, "resources": [name for name in rule["resources"] if name != without]}
                for rule in whole
            ]
            rules = [rule for rule in rules if rule["resources"]]
            if keep:
                rules.append(
                    {"apiGroups": ["resource.k8s.io"], "resources": [without], "verbs": sorted(keep)}
                )
            client.create(accounts, {"metadata": {"name": self.ROLE}})
            client.create(roles, {"metadata": {"name": self.ROLE}, "rules": rules})
            client.create(
                bindings,
                {
                    "metadata": {"name": self.ROLE},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": self.ROLE,
                    },
                    "subjects": [{"kind": "ServiceAccount", "name": self.ROLE, "namespace": NAMESPACE}],
                },
            )
            return access.kubeconfig_for(self.ROLE, NAMESPACE)

        yield make
        for path in (accounts, roles, bindings):
            client.delete(f"{path}/{self.ROLE}")

    def grant(self, scene):
        """Give the account what it lacks."""
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        rules = [
            rule for path in (roles, OWN_ROLES) for rule in scene.client.get(f"{path}/dra-operator")["rules"]
        ]
        scene.client.patch(f"{roles}/{self.ROLE}", {"rules": rules})

    def goes_on(self, fleet, operator, claim):
        """Give the account what it lacks, and see that the claim is allocated and the operator ready."""
        self.grant(fleet)
        fleet.wait_allocated(claim)
        operator.wait_ready()

    def test_missing_lease_is_named(self, less, fleet, start_operator):
        """Without the right to its Lease the operator decides nothing, and readiness and an Event say why."""
        fleet.create_claim("waits", DRIVER)
        operator = start_operator(kubeconfig=less("leases"))
        operator.wait_until(lambda: "get leases" in unready(operator))

        assert operator.http("/leaderz")[0] == 503
        assert allocation(fleet.claim("waits")) is None

        self.goes_on(fleet, operator, "waits")

    def test_missing_binding_is_named(self, less, fleet, start_operator):
        """Without `resourceclaims/binding` the API server refuses the allocation; the claim says so in an Event."""
        operator = start_operator(kubeconfig=less("resourceclaims/binding"))
        operator.wait_ready()
        fleet.create_claim("waits", DRIVER)

        event = fleet.wait_event("waits", "Forbidden")

        assert "resourceclaims" in event["message"]
        operator.wait_until(lambda: "resourceclaims" in unready(operator))
        assert allocation(fleet.claim("waits")) is None

        self.goes_on(fleet, operator, "waits")

    def test_missing_update_is_named(self, less, fleet, start_operator):
        """It is needed for claims with spaces in their parameters; others are allocated without."""
        verbs = ["get", "list", "watch", "patch"]
        operator = start_operator(kubeconfig=less("resourceclaims", keep=verbs))
        operator.wait_ready()
        create_loose(fleet, "loose")
        fleet.create_claim("works", DRIVER)

        event = fleet.wait_event("loose", "Forbidden")
        fleet.wait_allocated("works")

        assert "not permitted to update resourceclaims" in event["message"]
        operator.wait_until(lambda: "update resourceclaims" in unready(operator))
        assert allocation(fleet.claim("loose")) is None

        self.goes_on(fleet, operator, "loose")
        # Nobody else could take its finalizer off.
        fleet.delete_claim("loose")
        fleet.wait_gone("loose")


def create_loose(fleet, name):
    """Create a claim with spaces in its opaque parameters, which this client puts between names and values."""
    request = {"name": "devices", "exactly": {"deviceClassName": DRIVER}}
    config = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    spec = {"devices": {"requests": [request], "config": [config]}}
    fleet.client.create(fleet.claims, {"metadata": {"name": name}, "spec": spec})


def unready(operator):
    """Return what /readyz says, empty while it cannot be asked."""
    try:
        return operator.http("/readyz")[1]
    except OSError:
        return ""


class TestFootprint:
    """What the operator asks of the API server and leaves on objects."""

    def test_rights_are_those_it_uses(self, control_plane, fleet, start_operator):
        """Every request of the service account is allowed, and every right it has was used, by the audit log."""
        fleet.client.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/dra-operator")
        control_plane.audit_log.write_bytes(b"")
        owning = ("--devices=owned", "--ownership-quiet-seconds=0")
        operator = start_operator("--request-timeout-seconds=2", *owning)
        operator.wait_ready()
        rules = f"{RESOURCE}/devicetaintrules"
        taint = {"key": OWNED_KEY, "effect": "NoSchedule"}
        spec = {"deviceSelector": {"driver": DRIVER}, "taint": taint}
        fleet.client.create(rules, {"metadata": {"name": "own"}, "spec": spec})
        fleet.create_claim("waits", "absent.example.com")
        fleet.create_claim("works", DRIVER)
        fleet.wait_allocated("works")
        fleet.wait_pending("waits")
        fleet.delete_claim("works")
        fleet.wait_gone("works")
        # One that takes no patch is updated.
        create_loose(fleet, "loose")
        fleet.wait_allocated("loose")
        fleet.delete_claim("loose")
        fleet.wait_gone("loose")
        # Writes whose answers are lost are read back.
        for number in range(DEVICES):
            fleet.create_claim(f"claim-{number:02}", DRIVER)
        with control_plane.frozen():
            time.sleep(4)
        fleet.client.wait_for(
            fleet.claims,
            lambda claims: sum(bool(allocation(claim)) for claim in claims["items"]) == DEVICES,
        )
        # The next operator finds the Event of this one and refreshes it.
        operator.stop()
        start_operator("--event-refresh-seconds=1", *owning)
        fleet.client.wait_for(
            f"/api/v1/namespaces/{fleet.namespace}/events",
            lambda events: any(event["lastTimestamp"] > event["firstTimestamp"] for event in events["items"]),
        )

        fleet.client.delete(f"{rules}/own")
        fleet.client.wait_for(rules, lambda found: not found["items"])

        requests = control_plane.requests_of(SERVICE_ACCOUNT, NAMESPACE)

        refused = [request for request in requests if request["responseStatus"]["code"] in {401, 403}]
        assert refused == []
        used = {
            (asked(request["objectRef"]), request["verb"]) for request in requests if "objectRef" in request
        }
        # Everybody may ask who they are.
        used.discard(("selfsubjectreviews", "create"))
        # Part of the authorization of a status patch, so it is in no request of its own (see TestRights).
        assert used | {("resourceclaims/binding", "patch")} == granted(fleet.client)

    @pytest.mark.usefixtures("operator")
    def test_nothing_foreign_is_touched(self, fleet):
        """Of all objects only claims bear the operator's marks: finalizer, allocation, and nothing of Kopf's."""
        fleet.create_claim("works", DRIVER)
        claim = fleet.wait_allocated("works")

        writers = {
            (entry["manager"], entry.get("subresource")) for entry in claim["metadata"]["managedFields"]
        }
        assert ("dra-operator", "status") in writers
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert "annotations" not in claim["metadata"]
        for collection in (
            f"{RESOURCE}/resourceslices",
            f"{RESOURCE}/deviceclasses",
            "/api/v1/nodes",
            "/api/v1/namespaces",
        ):
            for item in fleet.client.get(collection)["items"]:
                managers = {entry["manager"] for entry in item["metadata"].get("managedFields", [])}
                assert "dra-operator" not in managers


def asked(reference):
    """Return the resource of an audit event as a rule of RBAC writes it."""
    subresource = reference.get("subresource")
    return reference["resource"] + (f"/{subresource}" if subresource else "")


def granted(client):
    """Return (resource, verb) of all that the operator's ClusterRole and Role grant."""
    roles = ("/apis/rbac.authorization.k8s.io/v1/clusterroles", OWN_ROLES)
    return {
        (resource, verb)
        for path in roles
        for rule in client.get(f"{path}/dra-operator")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
