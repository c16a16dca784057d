#!/usr/bin/env bash
# Runs the tests marked rootless as an ordinary user. Root creates a temporary one.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
tests=(.venv/bin/pytest -p no:cacheprovider -m rootless tests)

if [ "$(id -u)" -ne 0 ]; then
  exec "${tests[@]}"
fi

# Everything below runs in a separate mount namespace, which ends with this script.
if [ "${1:-}" != inside ]; then
  kept=$(mktemp -d /tmp/rootless-binds.XXXXXX)
  status=0
  unshare --mount --propagation private "$0" inside "$kept" || status=$?
  find "$kept" -depth -type d -empty -delete
  exit $status
fi
kept=$2

user=harness-rootless-$$
home=$(mktemp -d /tmp/rootless.XXXXXX)
useradd --no-create-home --home-dir "$home" --shell /bin/bash "$user"
trap 'cd /; userdel "$user"; rm -rf "$home"' EXIT

cache=${HARNESS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kafka-log-harness}
mkdir -p "$home/cache"
if [ -d "$cache" ]; then cp -r "$cache/." "$home/cache/"; fi
chown -R "$user" "$home"

# Python or the checkout may be inside a folder that other users cannot enter, such as root's home. Replace it, for
# the ordinary user, by an empty folder with bind mounts of only these parts.
prefix=$(.venv/bin/python -c 'import sys; print(sys.base_prefix)')
closed_part_of() { # the topmost folder above $1 that other users cannot enter
  local path="" part
  IFS=/ read -ra parts <<<"${1#/}"
  for part in "${parts[@]}"; do
    path="$path/$part"
    if [ -d "$path" ] && [ $((0$(stat -c %a "$path") & 1)) -eq 0 ]; then echo "$path"; return; fi
  done
}
declare -A shut=()
number=0
for needed in "$prefix" "$checkout"; do
  closed=$(closed_part_of "$needed")
  if [ -n "$closed" ]; then
    number=$((number + 1))
    mkdir "$kept/$number"
    mount --bind "$needed" "$kept/$number"
    shut[$number]="$closed $needed"
  fi
done
declare -A hidden=()
for number in "${!shut[@]}"; do
  read -r closed needed <<<"${shut[$number]}"
  if [ -z "${hidden[$closed]:-}" ]; then
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    hidden[$closed]=yes
  fi
  mkdir -p "$needed"
  mount --bind "$kept/$number" "$needed"
done

cd "$checkout"
status=0
env -i PATH="$PATH" LANG="${LANG:-C.UTF-8}" HOME="$home" CI="${CI:-}" HARNESS_CACHE="$home/cache" \
  TMPDIR="$home" PYTHONDONTWRITEBYTECODE=1 ${JAVA_HOME:+JAVA_HOME="$JAVA_HOME"} \
  setpriv --reuid "$user" --regid "$user" --init-groups "${tests[@]}" || status=$?
exit $status
