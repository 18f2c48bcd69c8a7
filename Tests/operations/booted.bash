# Boots a Debian with systemd-nspawn and cgroups v2, which systemd needs, and runs commands in it.

# boot SYSTEM [OPTIONS]: boots the Debian in the folder SYSTEM
boot() {
    local system=$1
    shift
    # shellcheck disable=SC2016
    unshare -m bash -c '
        if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; fi
        exec systemd-nspawn --quiet --boot --register=no --keep-unit --link-journal=no --resolv-conf=off --console=pipe "$@"' \
        _ --machine="coatcheck-$$" --directory="$system" "$@" </dev/null >"$work/nspawn.log" 2>&1 &
    nspawn=$!
    wait_for 60 booted || give_up "systemd"
}

booted() { init=$(pgrep -P "$nspawn" -x systemd) && in_system systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; }

# in_system COMMAND…: runs the command in the booted system, as root and with the environment of a shell
in_system() { nsenter -t "$init" -a env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root "$@"; }

# journal_says MESSAGE: returns whether the broker's log has a line with this message
journal_says() { in_system journalctl -u coatcheck.service -o cat | grep -qF "\"message\":\"$1\""; }

halt_system() {
    [ -z "${init:-}" ] || kill -s RTMIN+4 "$init"
    wait "${nspawn:-}" 2>/dev/null
}
