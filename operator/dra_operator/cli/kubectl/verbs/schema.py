"""`kubectl dra schema`: the JSON schema of the answers."""

import click


@click.command("schema")
def app() -> None:
    """Print the JSON schema that `-o json` and `-o yaml` follow, for all commands."""
    click.echo(schema_text(), nl=False)


def schema_text() -> str:
    """Return the schema of all answers as JSON."""
    import json

    from dra_operator.cli.kubectl.documents import schema
    from dra_operator.questions.claim_list import ClaimList
    from dra_operator.questions.device_list import DeviceList
    from dra_operator.questions.explain import ExplainAnswer
    from dra_operator.questions.findings import AuditReport
    from dra_operator.questions.fit import FitAnswer
    from dra_operator.questions.headroom import HeadroomAnswer
    from dra_operator.questions.holders import HolderReport
    from dra_operator.questions.impact import ImpactReport
    from dra_operator.questions.lint import LintReport
    from dra_operator.questions.usage import UsageReport

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
