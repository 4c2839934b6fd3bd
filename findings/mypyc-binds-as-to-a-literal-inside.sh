#!/bin/sh
# mypyc 2.4.1: a pattern of a mapping or a sequence that is named by `as` binds the name to the first literal inside
# instead of the whole: `case {"kind": "a", "size": size} as whole` makes `whole` the text "a"; where no literal is inside,
# the name is not bound at all. The pattern matches what it should, and mypy takes the name for the whole, so mypyc
# reports no error. Python gives the right value when it runs the same file uncompiled. Needs a C compiler.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet mypy==2.4.1 setuptools==80.9.0
cat >patterns.py <<'PROGRAM'
def of_mapping(value: object) -> object:
    match value:
        case {"kind": "a", "size": size} as whole:
            return whole
    return None


def of_sequence(value: object) -> object:
    match value:
        case ["a", "b"] as whole:
            return whole
    return None


def of_class(value: object) -> object:
    match value:
        case complex(real=1.0) as whole:
            return whole
    return None


def without_literals(value: object) -> object:
    match value:
        case {"kind": kind, "size": size} as whole:
            return whole
    return None
PROGRAM
cat >program.py <<'PROGRAM'
import patterns

mapping = {"kind": "a", "size": 3}
told = [patterns.of_mapping(mapping), patterns.of_sequence(["a", "b"]), patterns.of_class(1 + 2j)]
try:
    told.append(patterns.without_literals(mapping))
except UnboundLocalError as error:
    told.append(type(error))
compiled = not patterns.__file__.endswith(".py")
print("compiled by mypyc 2.4.1:" if compiled else "interpreted:", *told, sep="\n  ")
right = [mapping, ["a", "b"], 1 + 2j, mapping]
assert told == (["a", "a", 1 + 2j, UnboundLocalError] if compiled else right), told
PROGRAM
venv/bin/python program.py
PATH="$folder/venv/bin:$PATH" venv/bin/mypyc patterns.py >build.log 2>&1 || { cat build.log; exit 1; }
venv/bin/python program.py
