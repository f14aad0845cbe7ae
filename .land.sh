#!/bin/bash
# usage: .land.sh "message"   (run in /work/dispatch_tree with a clean commit on top of main)
set -e
cd /work/dispatch_tree
for u in $(git ls-files --others core frontend tests); do git cat-file -e main:$u 2>/dev/null && rm -f $u; done
git rebase -q main || { echo REBASE CONFLICT; exit 1; }
files=$(git diff --name-only main HEAD)
tmp=$(mktemp -d)
for f in $files; do
  case $f in */_generated/*) continue;; esac
  mkdir -p $tmp/$(dirname $f)
  if git cat-file -e main:$f 2>/dev/null; then
    git show main:$f > $tmp/base
    if [ -f $f ]; then
      git merge-file -p /work/main/$f $tmp/base $f > $tmp/$f || { echo "CONFLICT $f"; cp $tmp/$f /tmp/conflict.txt; exit 1; }
    fi
  else
    cp $f $tmp/$f
  fi
done
git diff --binary main HEAD > $tmp/patch
(cd /work/main && git apply --cached $tmp/patch)
for f in $files; do
  case $f in */_generated/*) continue;; esac
  if [ -f $tmp/$f ]; then mkdir -p /work/main/$(dirname $f); cp $tmp/$f /work/main/$f; else rm -f /work/main/$f; fi
done
(cd /work/main && git commit -q -m "$1" && .venv/bin/python tools/generate_operators.py; git log --oneline | head -1)
git rebase -q main 2>/dev/null || git reset -q --hard main
