"""Random selectors over random devices, and a second reader of what they do: a device at a time, from the manifests.

The reader knows of an expression the parts that it was made of, so it parses nothing. Of the package it uses the
evaluation of one expression on one device.
"""

from dataclasses import dataclass
from random import Random

from dra_operator.questions.selectors import SelectorError, selector
from factories import GPU, device_class, request, resource_slice

NIC = "nic.example.com"
COMMON = "resource.kubernetes.io"
MODELS = ("a100", "h100", "l4")


@dataclass(frozen=True)
class Part:
    """A part of an expression, and what it reads."""

    text: str
    reads: tuple[tuple[str, str], ...] = ()


def random_devices(random, driver, number):
    """Devices of a driver that lack this and that, and do not agree in types."""
    return [
        {
            "name": f"dev-{index}",
            "attributes": {
                name: value
                for name, value in {
                    "model": {"string": random.choice(MODELS)},
                    "index": random.choice([{"int": index}, {"int": index}, {"string": str(index)}]),
                    "healthy": {"bool": random.random() < 0.5},
                    "firmware": {"version": random.choice(["1.2.0", "2.0.0"])},
                    f"{COMMON}/numa": {"int": index % 2},
                }.items()
                if random.random() < 0.85
            },
            "capacity": {"memory": {"value": random.choice(["40Gi", "80Gi"])}}
            if random.random() < 0.9
            else {},
        }
        for index in range(number)
    ]


def random_slices(random):
    """The slices of a few pools, some with an older generation beside the newest."""
    slices = []
    for driver in (GPU, NIC)[: random.randint(1, 2)]:
        for node in ("node-1", "node-2", "node-3")[: random.randint(1, 3)]:
            name = f"{driver.partition('.')[0]}-{node}"
            newest = random.randint(1, 2)
            if newest == 2:
                old = random_devices(random, driver, 2)
                slices.append(resource_slice(f"{name}-old", old, driver=driver, pool=node, generation=1))
            devices = random_devices(random, driver, random.randint(1, 4))
            slices.append(resource_slice(name, devices, driver=driver, pool=node, generation=newest))
    return slices


def random_part(random):
    """Return a part that compares one thing, guarded or not."""
    domain = random.choice([GPU, GPU, GPU, NIC])
    attributes = f'device.attributes["{domain}"]'
    capacity = f'device.capacity["{domain}"]'
    model = f'"{random.choice(MODELS)}"'
    name = random.choice(["model", "model", "modle"])
    full = ("attributes", f"{domain}/{name}")
    memory, index = ("capacity", f"{domain}/memory"), ("attributes", f"{domain}/index")
    numa, firmware = ("attributes", f"{COMMON}/numa"), ("attributes", f"{domain}/firmware")
    return random.choice(
        [
            Part(f'device.driver == "{random.choice([GPU, GPU, NIC, "gpu.exmaple.com"])}"'),
            Part(f"{attributes}.{name} == {model}", (full,)),
            Part(f'{attributes}.?{name}.orValue("") == {model}', (full,)),
            Part(f"has({attributes}.{name})", (full,)),
            Part(f"(has({attributes}.{name}) && {attributes}.{name} != {model})", (full,)),
            Part(f'("{name}" in {attributes} ? {attributes}.{name} == {model} : true)', (full,)),
            Part(f"{attributes}.index == {random.randint(0, 3)}", (index,)),
            Part(f'{attributes}.index == "1"', (index,)),
            Part(f"{attributes}.index < 3", (index,)),
            Part(f'{capacity}.memory.isGreaterThan(quantity("40Gi"))', (memory,)),
            Part(f'{capacity}.memory.compareTo(quantity("100Gi")) >= 0', (memory,)),
            Part(
                f"({attributes}.healthy || {attributes}.{name} == {model})",
                (("attributes", f"{domain}/healthy"), full),
            ),
            Part(f'{attributes}.firmware.isGreaterThan(semver("1.5.0"))', (firmware,)),
            Part(f'device.attributes["{COMMON}"].numa == 0', (numa,)),
        ]
    )


def random_selector(random):
    """Return the parts of a selector."""
    parts = [random_part(random) for _ in range(random.randint(1, 3))]
    return [Part(f'device.driver == "{GPU}"'), *parts] if random.random() < 0.4 else parts


def join(parts):
    """Return the expression that parts make."""
    return " && ".join(part.text for part in parts)


def published(slices):
    """Return the devices of the newest generation of each pool, each with its driver."""
    newest = {}
    for item in slices:
        pool = item["spec"]["pool"]
        key = item["spec"]["driver"], pool["name"]
        newest[key] = max(newest.get(key, 0), pool["generation"])
    return [
        (item["spec"]["driver"], device)
        for item in slices
        if newest[item["spec"]["driver"], item["spec"]["pool"]["name"]] == item["spec"]["pool"]["generation"]
        for device in item["spec"]["devices"]
    ]


def answer(text, driver, device):
    """Return whether a device matches, or the message of the error."""
    try:
        return selector(text).matches(device, driver=driver)
    except SelectorError as error:
        return error.message


def value_of(driver, device, table, name):
    """Return what a device has of an attribute or a capacity `domain/name`, or None."""
    domain, _, bare = name.partition("/")
    found = device[table].get(name)
    return device[table].get(bare) if found is None and domain == driver else found


def read_selector(parts, devices):
    """Return how many devices a selector matches and fails on, those it leaves, and the rules it breaks.

    Of failures one is told: what they are about are the rules of which one is told.
    """
    text = join(parts)
    answers = [answer(text, *each) for each in devices]
    left = [each for each, found in zip(devices, answers, strict=True) if found is True]
    failures = [found for found in answers if isinstance(found, str)]
    reads = {read for part in parts for read in part.reads}
    rules = set()
    if devices and not left:
        rules.add("MatchesNone")
    if len(left) == len(devices) > 1 and reads:
        rules.add("MatchesAll")
    if devices and not all(any(value_of(*each, *read) is not None for each in devices) for read in reads):
        rules.add("UnknownName")
    return len(left), len(failures), left, rules, {rule_of(message) for message in failures}


def rule_of(message):
    """Return the rule that the error of a selector is about."""
    return "UnguardedAttribute" if message.startswith("no such key: ") else "Invalid"


def names_unknown_driver(parts, devices):
    """Return whether a selector compares the driver with one of which no device is published."""
    drivers = {driver for driver, _ in devices}
    named = [part.text.split('"')[1] for part in parts if part.text.startswith("device.driver")]
    return any(name not in drivers for name in named)


def objects_of(seed):
    """Return the manifests of a world, the parts of its class's selectors, and those of its request's."""
    random = Random(seed)  # noqa: S311 - a seed makes a run repeatable
    slices = random_slices(random)
    of_class = [random_selector(random) for _ in range(random.randint(1, 2))]
    of_request = [random_selector(random) for _ in range(random.randint(1, 2))]
    chosen = device_class("gpu", *map(join, of_class))
    asked = request("gpu", "gpu", *map(join, of_request))
    return slices, chosen, asked, of_class, of_request
