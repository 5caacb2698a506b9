#!/usr/bin/env bash
# A real Slurm of one node on the loopback interface, for tests/slurm: up, down, status.
#
# `up` ends with 77 and one line that says why when there can be none here: no root, no packages, or
# a Slurm that people use. `down` takes away what `up` started and wrote; installed packages stay.
set -euo pipefail

# Slurm's own folder: a job step starts without SLURM_CONF, so it finds no other.
conf=/etc/slurm
state=/run/posenc-slurm
mark="# Written by tests/slurm/cluster.sh, which removes it again."
files=("$conf/slurm.conf" "$conf/gres.conf")
daemons=(munged slurmctld slurmd)

say() { printf 'slurm: %s\n' "$*"; }

cannot() {
  say "$*"
  exit 77
}

ours() { grep -qsxF "$mark" "$1"; }

# Whether a process is this daemon; one that has ended may stay as a zombie.
is_daemon() {
  grep -qsx "Name:.$2" "/proc/$1/status" && ! grep -qs '^State:.Z' "/proc/$1/status"
}

# The number of a daemon that `up` started, if it still runs.
pid_of() {
  local pid
  pid=$(cat "$state/$1.pid" 2>/dev/null) || return 1
  is_daemon "$pid" "$1" && echo "$pid"
}

running() {
  local daemon
  for daemon in "${daemons[@]}"; do pid_of "$daemon" >/dev/null || return 1; done
}

have() {
  local program
  for program in munged slurmctld slurmd sbatch scontrol sinfo squeue srun; do
    command -v "$program" >/dev/null || return 1
  done
}

# A test must neither join nor break a cluster that people use.
refuse_a_real_cluster() {
  local file folder daemon
  [ -z "${SLURM_CONF:-}" ] || cannot "SLURM_CONF is set: this machine belongs to a cluster"
  for file in "${files[@]}"; do
    [ ! -e "$file" ] || cannot "$file exists: this machine belongs to a cluster"
  done
  for folder in /proc/[0-9]*; do
    for daemon in slurmctld slurmd; do
      if is_daemon "${folder##*/}" "$daemon"; then cannot "another $daemon runs here"; fi
    done
  done
  # A client may find its controller without a file.
  if command -v scontrol >/dev/null && timeout 30 scontrol ping 2>/dev/null | grep -q 'is UP'; then
    cannot "this machine is a client of a cluster"
  fi
}

install_packages() {
  local policy=/usr/sbin/policy-rc.d made="" failed="" why
  command -v apt-get >/dev/null || cannot "Slurm is missing, and there is no apt-get to install it"
  say "installing slurmctld, slurmd, slurm-client and munge"
  # Debian starts what it installs, but only the daemons below are wanted.
  if [ ! -e "$policy" ]; then
    made=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive
  {
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge
  } >"$state/install.log" 2>&1 || failed=yes
  [ -z "$made" ] || rm -f "$policy"
  if [ -n "$failed" ] || ! have; then
    why=$(tail -n 1 "$state/install.log")
    rm -rf "$state"
    cannot "apt-get cannot install Slurm: $why"
  fi
}

configure() {
  local host
  host=$(hostname -s)
  if [ ! -d "$conf" ]; then
    mkdir "$conf"
    touch "$state/made_conf"
  fi
  mkdir -p "$state/controller" "$state/node"
  # A key and a socket of its own: a munged that the machine has is neither needed nor touched.
  (umask 077 && head -c 1024 /dev/urandom >"$state/munge.key")
  # The node has the machine's processors, so that no more runs at once than fits, but the memory of
  # a node that a site would have: jobs ask for what they ask for there, and nothing takes it.
  cat >"$conf/slurm.conf" <<CONF
$mark
ClusterName=posenc
SlurmctldHost=$host(127.0.0.1)
# Other ports than a cluster's, on loopback only: jobs run as root.
SlurmctldPort=16817
SlurmdPort=16818
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket
SlurmUser=root
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/node
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
# A container has no control groups to give.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
# No database; the controller remembers ended jobs for a day, so that a test can ask for them.
AccountingStorageType=accounting_storage/none
MinJobAge=86400
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=1000000 Gres=gpu:2 State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
  # Devices that every machine has stand for GPUs: Slurm counts them and hands them out alike.
  printf '%s\nName=gpu File=/dev/null\nName=gpu File=/dev/zero\n' "$mark" >"$conf/gres.conf"
}

start() {
  local second
  munged --key-file="$state/munge.key" --socket="$state/munge.socket" \
    --pid-file="$state/munged.pid" --log-file="$state/munged.log" \
    --seed-file="$state/munge.seed"
  slurmctld
  slurmd
  for second in $(seq 30); do
    # Without its controller every question to Slurm would wait for ten seconds.
    [ "$second" -lt 5 ] || running || break
    [ "$(timeout 5 sinfo --noheader --format=%T 2>/dev/null)" != idle ] || return 0
    sleep 1
  done
  say "the node did not come up:" >&2
  tail -n 15 "$state"/*.log >&2
  return 1
}

up() {
  if running; then
    say "is up already"
    return
  fi
  [ "$(id -u)" = 0 ] || cannot "only root can write $conf and start the daemons"
  # What a machine that was switched off, or a killed `up`, has left.
  if [ -e "$state" ] || ours "$conf/slurm.conf"; then down; fi
  refuse_a_real_cluster
  mkdir -m 755 "$state"
  have || install_packages
  configure
  if ! start; then
    down
    return 1
  fi
  say "is up"
}

down() {
  local daemon pid second file
  [ "$(id -u)" = 0 ] || { say "only root can take it down" >&2; return 1; }
  if running; then
    timeout 10 scancel --full --user=root || true
    for second in $(seq 30); do
      [ -n "$(timeout 5 squeue --noheader 2>/dev/null)" ] || break
      sleep 1
    done
  fi
  for daemon in slurmd slurmctld munged; do
    pid=$(pid_of "$daemon") || continue
    kill "$pid"
    for second in $(seq 30); do
      is_daemon "$pid" "$daemon" || break
      sleep 1
    done
    if is_daemon "$pid" "$daemon"; then kill -9 "$pid"; fi
  done
  for file in "${files[@]}"; do
    if ours "$file"; then rm -f "$file"; fi
  done
  if [ -e "$state/made_conf" ]; then rmdir --ignore-fail-on-non-empty "$conf"; fi
  rm -rf "$state"
  say "is down"
}

status() {
  if ! running; then
    say "is down"
    return 1
  fi
  sinfo --noheader --format="slurm: is up, node %N %T, %c processors, %G"
}

case ${1:-} in
  up | down | status) "$1" ;;
  *)
    echo "usage: cluster.sh up | down | status" >&2
    exit 2
    ;;
esac
