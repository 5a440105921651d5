#!/usr/bin/env bash
# check_packages.sh BUILD [PYTHON]
#
# Makes the Debian packages of a build folder, unpacks them into one root and uses what is there: the program, the
# library by pkg-config, and, with PYTHON, the module by that interpreter. Status 77 without dpkg's tools.
set -euo pipefail
command -v dpkg-deb dpkg-shlibdeps > /dev/null || exit 77
build=$(realpath "$1")
python=${2:-}
sources=$(realpath "$(dirname "$0")/../..")
work=$build/packages_test
root=$work/root
rm -rf "$work"
mkdir -p "$root"
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work"
for package in "$work"/*.deb; do
  echo "$(basename "$package"): $(dpkg-deb -f "$package" Depends)"
  dpkg-deb -x "$package" "$root"
done

question='Mia has 12 shells. She finds 5 more. How many shells does Mia have?'
"$root/usr/bin/lacuna" run -m mini-llada -p "$question" | grep 17

# Components that the program is built from: the libraries that it links, and those whose headers it is compiled from.
python3 - "$root"/usr/share/doc/lacuna/lacuna.cdx.json <<'PROGRAM'
import json
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
components = {each["name"]: each for each in document["components"]}
for name in ("glibc", "pcre2", "zlib", "boost1.81", "fmtlib", "nlohmann-json3", "cli11", "prometheus-cpp"):
    assert components[name]["version"], name
assert any(each["license"]["name"] == "Expat" for each in components["nlohmann-json3"]["licenses"])
assert document["dependencies"][0]["dependsOn"] == [each["bom-ref"] for each in document["components"]]
PROGRAM

pc=$(dirname "$(find "$root" -name lacuna.pc)")
read -ra flags <<< "$(PKG_CONFIG_PATH=$pc pkg-config --static --cflags --libs lacuna)"
c++ -std=c++20 "$sources/examples/answer.cpp" -o "$work/answer" "${flags[@]}"
export LACUNA_MODELS=$root/usr/share/lacuna/models
LD_LIBRARY_PATH=$pc/.. "$work/answer" mini-llada "$question" | grep 17

[ -n "$python" ] || exit 0
package=$(ls "$work"/python3-lacuna_*.deb)
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
dpkg-deb -f "$package" Depends | grep -F "python3 (>= $version)"
dpkg-deb -c "$package" | grep -F /lacuna/_core.pyi
export PYTHONPATH
PYTHONPATH=$(dirname "$(find "$root" -type d -path '*-packages/lacuna')")
"$python" - "$question" <<'PROGRAM'
import sys

import lacuna

assert "/packages_test/root/" in lacuna.__file__, lacuna.__file__
answer = lacuna.load("mini-sdar").generate(sys.argv[1])
assert "17" in answer.text, answer.text
print(lacuna.__file__, answer.text)
PROGRAM
