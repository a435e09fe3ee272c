"""`python -m conformance`: scenarios and expressions from a seed, put to upstream and to ours."""

import argparse
import secrets
import time

from conformance.program import VERSIONS, UnavailableError, find_or_build, running, say_to_stderr
from conformance.record import rows
from conformance.run import EXPRESSIONS, SCENARIOS, as_line, run
from recordings import recording_of, write_recording


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="conformance", description="Compare ours with upstream.")
    parser.add_argument(
        "--count", type=int, default=2000, help="how many scenarios, and how many expressions"
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="what they are made from; a random one if absent"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--only", choices=(SCENARIOS.name, EXPRESSIONS.name), default=None)
    parser.add_argument(
        "--record", action="store_true", help="write these questions and their answers to tests/recorded"
    )
    parser.add_argument(
        "--kubernetes",
        choices=(*VERSIONS,),
        default="1.37",
        help="whose code answers, and whose rules are ours",
    )
    parser.add_argument(
        "--default-gates",
        action="store_true",
        help="scenarios with the default feature gates, put to the allocator that kube-scheduler takes then",
    )
    parser.add_argument("--most", type=int, default=10, help="stop at so many differences")
    arguments = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    try:
        program = find_or_build(kubernetes=arguments.kubernetes)
    except UnavailableError as reason:
        say_to_stderr(str(reason))
        return 1
    different = 0
    for kind in (SCENARIOS, EXPRESSIONS):
        if arguments.only not in (None, kind.name) or (arguments.default_gates and kind is not SCENARIOS):
            continue
        numbers = range(arguments.first, arguments.first + arguments.count)
        if arguments.record:
            with running(program, kind.name) as upstream:
                recorded = rows(kind, upstream, seed=seed, numbers=numbers, kubernetes=arguments.kubernetes)
                path = write_recording(recording_of(kind.name, arguments.kubernetes), recorded)
            say_to_stderr(f"recorded in {path}")
            continue
        started = time.monotonic()
        with running(program, kind.name, any_allocator=arguments.default_gates) as upstream:
            found = run(
                kind,
                upstream,
                seed=seed,
                numbers=numbers,
                kubernetes=arguments.kubernetes,
                default_gates=arguments.default_gates,
                most_differences=arguments.most,
                say=say_to_stderr,
            )
        for difference in found.differences:
            print(as_line(difference), flush=True)  # noqa: T201 - the answer
        spent = time.monotonic() - started
        say_to_stderr(f"{kind.name}, seed {seed}, {spent:.0f} s: {found.summary()}")
        different += len(found.differences)
    return 1 if different else 0
