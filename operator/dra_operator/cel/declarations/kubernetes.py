"""Functions on the types that Kubernetes adds to CEL.

Source: k8s.io/apiserver `pkg/cel/library/`.
"""

from typing import Final

_AUTHORIZATION: Final = "kubernetes.authorization"

QUANTITY: Final = """
add quantity_add: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
add quantity_add_int: kubernetes.Quantity.(int) -> kubernetes.Quantity
asApproximateFloat quantity_get_float: kubernetes.Quantity.() -> double
asInteger quantity_get_int: kubernetes.Quantity.() -> int
compareTo quantity_compare_to: kubernetes.Quantity.(kubernetes.Quantity) -> int
isGreaterThan quantity_is_greater_than: kubernetes.Quantity.(kubernetes.Quantity) -> bool
isInteger quantity_is_integer: kubernetes.Quantity.() -> bool
isLessThan quantity_is_less_than: kubernetes.Quantity.(kubernetes.Quantity) -> bool
isQuantity is_quantity_string: (string) -> bool
quantity string_to_quantity: (string) -> kubernetes.Quantity
sign quantity_sign: (kubernetes.Quantity) -> int
sub quantity_sub: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
sub quantity_sub_int: kubernetes.Quantity.(int) -> kubernetes.Quantity
"""
"""Quantities.

Source: k8s.io/apiserver `pkg/cel/library/quantity.go`.
"""

SEMVER: Final = """
compareTo semver_compare_to: kubernetes.Semver.(kubernetes.Semver) -> int
isGreaterThan semver_is_greater_than: kubernetes.Semver.(kubernetes.Semver) -> bool
isLessThan semver_is_less_than: kubernetes.Semver.(kubernetes.Semver) -> bool
isSemver is_semver_string: (string) -> bool
isSemver is_semver_string_bool: (string, bool) -> bool
major semver_major: kubernetes.Semver.() -> int
minor semver_minor: kubernetes.Semver.() -> int
patch semver_patch: kubernetes.Semver.() -> int
semver string_to_semver: (string) -> kubernetes.Semver
semver string_bool_to_semver: (string, bool) -> kubernetes.Semver
"""
"""Semantic versions.

Source: k8s.io/apiserver `pkg/cel/library/semverlib.go`.
"""

NETWORK: Final = """
cidr string_to_cidr: (string) -> net.CIDR
containsCIDR cidr_contains_cidr_string: net.CIDR.(string) -> bool
containsCIDR cidr_contains_cidr: net.CIDR.(net.CIDR) -> bool
containsIP cidr_contains_ip_string: net.CIDR.(string) -> bool
containsIP cidr_contains_ip_ip: net.CIDR.(net.IP) -> bool
family ip_family: net.IP.() -> int
getEscapedPath url_get_escaped_path: kubernetes.URL.() -> string
getHost url_get_host: kubernetes.URL.() -> string
getHostname url_get_hostname: kubernetes.URL.() -> string
getPort url_get_port: kubernetes.URL.() -> string
getQuery url_get_query: kubernetes.URL.() -> map(string, list(string))
getScheme url_get_scheme: kubernetes.URL.() -> string
ip string_to_ip: (string) -> net.IP
ip cidr_ip: net.CIDR.() -> net.IP
ip.isCanonical ip_is_canonical: (string) -> bool
isCIDR is_cidr: (string) -> bool
isGlobalUnicast ip_is_global_unicast: net.IP.() -> bool
isIP is_ip: (string) -> bool
isLinkLocalMulticast ip_is_link_local_multicast: net.IP.() -> bool
isLinkLocalUnicast ip_is_link_local_unicast: net.IP.() -> bool
isLoopback ip_is_loopback: net.IP.() -> bool
isURL is_url_string: (string) -> bool
isUnspecified ip_is_unspecified: net.IP.() -> bool
masked cidr_masked: net.CIDR.() -> net.CIDR
prefixLength cidr_prefix_length: net.CIDR.() -> int
string ip_to_string: (net.IP) -> string
string cidr_to_string: (net.CIDR) -> string
url string_to_url: (string) -> kubernetes.URL
"""
"""IP addresses, CIDRs and URLs.

Source: k8s.io/apiserver `pkg/cel/library/ip.go`, `cidr.go`, `urls.go`.
"""

FORMATS: Final = """
format.byte format.byte: () -> kubernetes.NamedFormat
format.date format.date: () -> kubernetes.NamedFormat
format.datetime format.datetime: () -> kubernetes.NamedFormat
format.dns1035Label format.dns1035Label: () -> kubernetes.NamedFormat
format.dns1035LabelPrefix format.dns1035LabelPrefix: () -> kubernetes.NamedFormat
format.dns1123Label format.dns1123Label: () -> kubernetes.NamedFormat
format.dns1123LabelPrefix format.dns1123LabelPrefix: () -> kubernetes.NamedFormat
format.dns1123Subdomain format.dns1123Subdomain: () -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix format.dns1123SubdomainPrefix: () -> kubernetes.NamedFormat
format.labelValue format.labelValue: () -> kubernetes.NamedFormat
format.named format-named: (string) -> optional_type(kubernetes.NamedFormat)
format.qualifiedName format.qualifiedName: () -> kubernetes.NamedFormat
format.uri format.uri: () -> kubernetes.NamedFormat
format.uuid format.uuid: () -> kubernetes.NamedFormat
validate format-validate: kubernetes.NamedFormat.(string) -> optional_type(list(string))
"""
"""Named formats.

Source: k8s.io/apiserver `pkg/cel/library/format.go`.
"""

AUTHORIZATION: Final = f"""
allowed decision_allowed: {_AUTHORIZATION}.Decision.() -> bool
check pathcheck_check: {_AUTHORIZATION}.PathCheck.(string) -> {_AUTHORIZATION}.Decision
check resourcecheck_check: {_AUTHORIZATION}.ResourceCheck.(string) -> {_AUTHORIZATION}.Decision
error decision_error: {_AUTHORIZATION}.Decision.() -> string
errored decision_errored: {_AUTHORIZATION}.Decision.() -> bool
fieldSelector authorizer_fieldselector: {_AUTHORIZATION}.ResourceCheck.(string) -> {_AUTHORIZATION}.ResourceCheck
group authorizer_group: {_AUTHORIZATION}.Authorizer.(string) -> {_AUTHORIZATION}.GroupCheck
labelSelector authorizer_labelselector: {_AUTHORIZATION}.ResourceCheck.(string) -> {_AUTHORIZATION}.ResourceCheck
name resourcecheck_name: {_AUTHORIZATION}.ResourceCheck.(string) -> {_AUTHORIZATION}.ResourceCheck
namespace resourcecheck_namespace: {_AUTHORIZATION}.ResourceCheck.(string) -> {_AUTHORIZATION}.ResourceCheck
path authorizer_path: {_AUTHORIZATION}.Authorizer.(string) -> {_AUTHORIZATION}.PathCheck
reason decision_reason: {_AUTHORIZATION}.Decision.() -> string
resource groupcheck_resource: {_AUTHORIZATION}.GroupCheck.(string) -> {_AUTHORIZATION}.ResourceCheck
serviceAccount authorizer_serviceaccount: {_AUTHORIZATION}.Authorizer.(string, string) -> {_AUTHORIZATION}.Authorizer
subresource resourcecheck_subresource: {_AUTHORIZATION}.ResourceCheck.(string) -> {_AUTHORIZATION}.ResourceCheck
"""
"""Authorization: declared as upstream does, and unusable, since no variable has these types.

They are there for the messages: a function that is known is another error than one that is not.

Source: k8s.io/apiserver `pkg/cel/library/authz.go`.
"""
