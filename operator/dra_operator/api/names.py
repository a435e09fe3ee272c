"""The names by which objects carry what matters to us, for those who write them and those who only read.

They stand here, where nothing else is imported, because the commands that need no cluster use the same names as
the writer that speaks to one.
"""

FINALIZER = "resource.kubernetes.io/delete-protection"
"""On every claim that has an allocation. Source: k8s.io/api/resource/v1, `Finalizer`."""
PENDING_ANNOTATION = "dra-operator.io/pending"
"""On every claim of ours that waits: one line that says for what."""
BROKEN_ANNOTATION = "dra-operator.io/broken"
"""On every claim whose allocation cannot be used any more: one line that says why."""
OWNED_KEY = "dra-operator.io/owned"
"""Key of the taint by which a device is ours: with the effect NoSchedule and without a value."""
OWNED_FINALIZER = OWNED_KEY
"""On every DeviceTaintRule that owns devices, until the operator has no write for them under way."""
SETTLED_ANNOTATION = "dra-operator.io/settled"
"""On a DeviceTaintRule that owns devices: its uid, and the generation that has been in force for long enough."""
OPT_OUT_LABEL = "dra-operator.io/allocate"
"""Label of a claim; `"false"` keeps the operator away from it, `"true"` says what holds without it."""
ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
"""Label of a namespace whose claims may ask for admin access, with the value `true`."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""On a claim made for a pod: the pod's entry it was made for. Source: the claim controller."""
OVER = frozenset(("Succeeded", "Failed"))
"""The phases of a pod that has ended."""
RANDOM_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What the API server makes the random ends of names of. Source: k8s.io/apimachinery/pkg/util/rand."""
