#!/bin/sh
# make demo: a coding session that needs no key and no network, and what was
# stored of it. The session file is a fresh one and goes away at the end.
set -eu
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT INT TERM
export RALLY_DB="$home/rally.db"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n$ %s\n' "$*"; }

say 'rally run -m scripted/tour "Fix the failing test"'
rally run --hermetic -m scripted/tour --title 'The tour' 'Fix the failing test'

say 'rally sessions'
rally sessions
id=$(rally sessions --json | sed -n 's/.*"id": *"\(ses_[^"]*\)".*/\1/p' | head -n 1)

say "rally export $id"
rally export "$id"
