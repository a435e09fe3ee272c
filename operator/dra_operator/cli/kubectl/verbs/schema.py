"""`kubectl dra schema`: the JSON schema of the answers."""

import click


@click.command("schema")
def app() -> None:
    """Print the JSON schema that `-o json` and `-o yaml` follow, for all commands."""
    click.echo(schema_text(), nl=False)


def schema_text() -> str:
    """Return the schema of all answers as JSON."""
    import json  # noqa: PLC0415 - as in other verbs

    from dra_operator.cli.kubectl.documents import schema  # noqa: PLC0415
    from dra_operator.questions.claim_list import ClaimList  # noqa: PLC0415
    from dra_operator.questions.device_list import DeviceList  # noqa: PLC0415
    from dra_operator.questions.explain import ExplainAnswer  # noqa: PLC0415
    from dra_operator.questions.findings import AuditReport  # noqa: PLC0415
    from dra_operator.questions.fit import FitAnswer  # noqa: PLC0415
    from dra_operator.questions.headroom import HeadroomAnswer  # noqa: PLC0415
    from dra_operator.questions.holders import HolderReport  # noqa: PLC0415
    from dra_operator.questions.impact import ImpactReport  # noqa: PLC0415
    from dra_operator.questions.lint import LintReport  # noqa: PLC0415
    from dra_operator.questions.usage import UsageReport  # noqa: PLC0415

    kinds = {
        "Audit": AuditReport,
        "ClaimList": ClaimList,
        "DeviceList": DeviceList,
        "Explanation": ExplainAnswer,
        "Fit": FitAnswer,
        "Headroom": HeadroomAnswer,
        "Holders": HolderReport,
        "Impact": ImpactReport,
        "Lint": LintReport,
        "Usage": UsageReport,
    }
    return json.dumps(schema(kinds), indent=2) + "\n"
