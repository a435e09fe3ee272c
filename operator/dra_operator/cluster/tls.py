"""TLS: which certificates of an API server are trusted."""

import ssl


def trust_as_kubectl(context: ssl.SSLContext) -> None:
    """Let a context judge certificates much as kubectl does, whichever Python made it.

    From 3.13 on, Python asks more of a certificate's form than Go does, key identifiers for example, which the
    authorities of many clusters have not; and only from there on it trusts, as Go does, an authority that is named to
    it though another one has signed it. And Go has never heard of a server's common name where it lacks other names.
    What lengths of keys are enough is OpenSSL's to say.
    Source: https://github.com/kubernetes-client/python/issues/2394
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
