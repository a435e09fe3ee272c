"""Patterns: which names of objects, drivers, taints and attributes the API server takes, and what is said of others.

A pattern is for `fullmatch`; those that are texts are parts of others, and know no length.
Source: k8s.io/apimachinery/pkg/util/validation, k8s.io/kubernetes/pkg/apis/resource/validation.
"""

import re

SEGMENT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DOMAIN = rf"{SEGMENT}(\.{SEGMENT})*"
SUBDOMAIN = re.compile(rf"(?=.{{1,253}}$){DOMAIN}")
LABEL = re.compile(rf"(?=.{{1,63}}$){SEGMENT}")
DRIVER = re.compile(rf"(?=.{{1,63}}$){DOMAIN}")
_NAME = r"(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
KEY = re.compile(rf"((?=.{{1,253}}/){DOMAIN}/)?{_NAME}")
VALUE = re.compile(_NAME)

DOMAIN_PREFIX = rf"(?=.{{1,63}}/){DOMAIN}/"
PREFIX = rf"(?i:{DOMAIN_PREFIX})"
IDENTIFIER = r"(?=.{1,32}$)[A-Za-z_][A-Za-z0-9_]*"
NOT_LOOKED_AT = ".*/.*/.*"
"""Names of attributes and capacities of more than one slash, of which the API server looks at no part."""
# As of 1.37; before, the domain might have capitals.
QUALIFIED = re.compile(rf"{DOMAIN_PREFIX}{IDENTIFIER}|{NOT_LOOKED_AT}", re.ASCII | re.DOTALL)

NO_DRIVER = "is no name of a driver: write a domain, such as gpu.example.com"
NO_NODE = "is no name of a node: use lower case letters, digits, - and ., at most 253 of them"
NO_KEY = "is no key of a taint: write domain/name or name, of letters, digits, -, _ and ."
NO_VALUE = "is no value of a taint: use letters, digits, -, _ and ., at most 63 of them"
