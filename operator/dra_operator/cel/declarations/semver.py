"""Semantic versions.

Source: k8s.io/apiserver `pkg/cel/library/semverlib.go`.
"""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "compareTo": ("semver_compare_to: kubernetes.Semver.(kubernetes.Semver) -> int",),
    "isGreaterThan": ("semver_is_greater_than: kubernetes.Semver.(kubernetes.Semver) -> bool",),
    "isLessThan": ("semver_is_less_than: kubernetes.Semver.(kubernetes.Semver) -> bool",),
    "isSemver": (
        "is_semver_string: (string) -> bool",
        "is_semver_string_bool: (string, bool) -> bool",
    ),
    "major": ("semver_major: kubernetes.Semver.() -> int",),
    "minor": ("semver_minor: kubernetes.Semver.() -> int",),
    "patch": ("semver_patch: kubernetes.Semver.() -> int",),
    "semver": (
        "string_to_semver: (string) -> kubernetes.Semver",
        "string_bool_to_semver: (string, bool) -> kubernetes.Semver",
    ),
}
