#!/bin/sh
# The first process of a node, in namespaces of its own: $1 is the node's folder, $2 its name, the others are the
# folders of its programs. Nothing that a kubelet or containerd does with fixed paths and kernel parameters reaches the machine.
set -eu
folder=$1 name=$2
shift 2
mount --make-rprivate /
mount -t proc proc /proc
hostname "$name"

# Only the node's part of every cgroup hierarchy is seen.
if [ ! -w /sys/fs/cgroup ]; then
  :
elif [ "$(wc -l < /proc/self/cgroup)" = 1 ]; then
  mount -t cgroup2 cgroup /sys/fs/cgroup
else
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  sed -n 's/^[0-9]*:\([^:]*\):.*/\1/p' /proc/self/cgroup | while read -r controllers; do
    case $controllers in
      "") target=unified type=cgroup2 options=rw ;;
      name=*) target=${controllers#name=} type=cgroup options=none,$controllers ;;
      *) target=$controllers type=cgroup options=$controllers ;;
    esac
    mkdir "/sys/fs/cgroup/$target"
    mount -t "$type" -o "$options" cgroup "/sys/fs/cgroup/$target"
  done
fi

# The programs may lie below a path that is hidden next. Whole folders, since runc looks at itself through an overlay of
# its folder, in which no mount of a single file is seen.
number=0
for programs; do
  mkdir "$folder/programs/$number"
  mount --bind "$programs" "$folder/programs/$number"
  number=$((number + 1))
done
for fixed in /run /var/lib /var/log /opt; do mount -t tmpfs tmpfs "$fixed"; done
mkdir -p /var/lib/kubelet /run/containerd
mount --bind "$folder/kubelet" /var/lib/kubelet

# The kubelet looks up the node's name: no question leaves the machine.
echo "127.0.0.1 localhost $name" > /run/hosts
: > /run/resolv.conf
for file in hosts resolv.conf; do
  # One that leads to a path that is hidden now is as good as empty.
  if [ -e "/etc/$file" ]; then mount --bind "/run/$file" "/etc/$file"; fi
done

# Kernel parameters of the whole machine that the kubelet would set.
hide() {
  echo "$2" > "/run/$1"
  mount --bind "/run/$1" "/proc/sys/$(echo "$1" | tr . /)"
}
hide vm.overcommit_memory 1
hide vm.panic_on_oom 0
hide kernel.panic 10
hide kernel.panic_on_oops 1
hide kernel.keys.root_maxkeys 1000000
hide kernel.keys.root_maxbytes 25000000

mount --make-rshared /
: > "$folder/started"
# Reap what is orphaned here, until the end.
trap : CHLD
trap 'exit 0' TERM
while :; do sleep 2147483647 & wait $! || :; done
