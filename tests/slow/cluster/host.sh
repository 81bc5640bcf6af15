#!/bin/sh
# Turns the namespaces that it is started in into a host, as their process 1. The host has this machine's files, but its
# own copy of the directories that hosts do not share. Everything on the host ends when the input ends.
#
#   host.sh NAME DISK REPOSITORY
set -eu

name=$1 disk=$2 repository=$3
root=$disk/root

hostname "$name"
mount -t tmpfs root "$root"
for path in /*; do
    if [ -L "$path" ]; then
        cp -P "$path" "$root$path"
    elif [ "$path" != /tmp ] && [ -d "$path" ]; then
        mkdir "$root$path"
        mount --rbind "$path" "$root$path"
    fi
done
for path in "$disk"/own/*; do
    mkdir -p "$root/${path##*/}"
    mount --bind "$path" "$root/${path##*/}"
done
case $repository/ in
/tmp/*)
    mkdir -p "$root$repository"
    mount --rbind "$repository" "$root$repository"
    ;;
esac
mount --bind "$disk/hosts" "$root/etc/hosts"
mount -t tmpfs shm "$root/dev/shm"

cd "$root"
pivot_root . .
umount -l .
cd /
echo ready
cat > /dev/null
