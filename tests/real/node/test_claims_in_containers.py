"""What is allocated works in containers: kubelets prepare it, drivers are asked, and containers see their devices.

The operator, kube-scheduler and kube-controller-manager run. A pod names a claim of the operator only once that is
allocated: otherwise the claim would be kube-scheduler's.
"""

from controlplane.scene import allocation, devices, node

GPUS = tuple({"name": f"gpu-{number}"} for number in range(3))
SHARED = {
    "name": "gpu-0",
    "allowMultipleAllocations": True,
    "capacity": {
        "memory": {
            "value": "16Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
        }
    },
}


def names(claim):
    """Return the devices of a claim as a container knows them."""
    return {device.partition("/")[2] for device in devices(claim)}


def test_claim_goes_on_after_its_pod(cluster, nodes):
    """When a pod has ended, the next one gets the devices; the claim can be deleted when that has gone, too."""
    driver = cluster.start_driver(nodes[0], GPUS[:1])
    cluster.allocate_claim("one")
    cluster.create_pod("first", {"resourceClaimName": "one"}, command=["report"])
    cluster.wait_phase("first", "Succeeded")
    cluster.delete_pod("first")
    # The controller manager clears a claim that nobody uses any more; the operator allocates it again.
    cluster.client.wait_for(
        f"{cluster.claims}/one",
        lambda claim: allocation(claim) and not claim["status"].get("reservedFor"),
        what="a new allocation",
    )

    cluster.create_pod("second", {"resourceClaimName": "one"})

    assert cluster.report("second").devices == {"gpu-0"}
    cluster.delete_pod("second")
    assert driver.unprepared("one") == 2
    cluster.delete_claim("one")
    cluster.wait_gone("one")


def test_claim_shared_by_two_pods(cluster, nodes):
    """Two pods that share a claim see the same device, which is prepared once and kept until both have gone."""
    driver = cluster.start_driver(nodes[0], GPUS)
    claim = cluster.allocate_claim("both")

    # One after the other: for two pods at once a kubelet may ask twice.
    for name in ("first", "second"):
        cluster.create_pod(name, {"resourceClaimName": "both"})
        assert cluster.report(name).devices == names(claim)

    assert driver.prepared("both") == 1
    cluster.delete_pod("first")
    assert driver.unprepared("both") == 0
    cluster.delete_pod("second")
    assert driver.unprepared("both") == 1


def test_shares_of_a_device(cluster, nodes):
    """Two claims that share a device reach their containers with the IDs of their shares."""
    cluster.start_driver(nodes[0], [SHARED])
    claims = {
        name: cluster.allocate_claim(name, capacity={"requests": {"memory": memory}})
        for name, memory in (("six", "6Gi"), ("eight", "8Gi"))
    }

    for name in claims:
        cluster.create_pod(name, {"resourceClaimName": name})

    shares = set()
    for name, claim in claims.items():
        (result,) = allocation(claim)["devices"]["results"]
        assert cluster.report(name).environment["SHARE_OF_GPU_0"] == result["shareID"]
        shares.add(result["shareID"])
    assert len(shares) == 2


def test_skipped_node_operations(cluster, nodes):
    """A driver whose devices need nothing done on the node is not asked, and the pod runs."""
    driver = cluster.start_driver(nodes[0], GPUS, skipNodeOperations=["*"])
    claim = cluster.allocate_claim("wire")
    assert allocation(claim)["devices"]["results"][0]["skipNodeOperations"] == ["*"]

    cluster.create_pod("user", {"resourceClaimName": "wire"})

    assert cluster.report("user").devices == set()
    cluster.delete_pod("user")
    assert driver.calls == []


def test_failing_driver(cluster, nodes):
    """While a driver fails, the pod waits with its claim and says why; once the driver can, the pod runs."""
    driver = cluster.start_driver(nodes[0], GPUS)
    claim = cluster.allocate_claim("hard")
    driver.failure = "no such device here"

    cluster.create_pod("user", {"resourceClaimName": "hard"})

    nodes[0].wait_until(
        lambda: any(
            "no such device here" in text
            for text in cluster.pod_events("user", "FailedPrepareDynamicResources")
        ),
        what="an Event about the driver's failure",
    )
    assert cluster.client.get(f"{cluster.pods}/user")["status"]["phase"] == "Pending"
    assert allocation(cluster.claim("hard")) == allocation(claim)
    driver.failure = ""
    assert cluster.report("user").devices == names(claim)


def test_restart_of_a_kubelet(cluster, nodes):
    """A kubelet that starts deletes the slices of its node: no claim is lost or moved by it, and containers go on."""
    drivers = [cluster.start_driver(each, GPUS[:2]) for each in nodes]
    claims = {name: cluster.allocate_claim(name, count=2) for name in ("one", "other")}
    for name in claims:
        cluster.create_pod(name, {"resourceClaimName": name})
        cluster.wait_phase(name, "Running")
    containers = {name: container_id(cluster, name) for name in claims}
    cluster.create_claim("waiting", cluster.driver)
    cluster.wait_pending("waiting")
    published = drivers[0].published
    drivers[0].forget_registration()

    nodes[0].stop_kubelet()
    nodes[0].start_kubelet()

    drivers[0].wait_registered()
    nodes[0].wait_until(lambda: drivers[0].published > published, what="the slice to be published again")
    nodes[0].wait_ready()
    # The operator goes on with the slice that is new to it: what one pod frees, the waiting claim gets.
    (there,) = [name for name, claim in claims.items() if node(claim) == "node-1"]
    (elsewhere,) = set(claims) - {there}
    assert {name: allocation(cluster.claim(name)) for name in claims} == {
        name: allocation(claim) for name, claim in claims.items()
    }
    assert {name: container_id(cluster, name) for name in claims} == containers
    cluster.delete_pod(there)
    cluster.delete_claim(there)
    assert node(cluster.wait_allocated("waiting")) == "node-1"
    assert allocation(cluster.claim(elsewhere)) == allocation(claims[elsewhere])
    assert (drivers[0].prepared(there), drivers[0].unprepared(there)) == (1, 1)


def container_id(cluster, pod):
    """Return the ID of the one container of a pod."""
    (status,) = cluster.client.get(f"{cluster.pods}/{pod}")["status"]["containerStatuses"]
    return status["containerID"]
