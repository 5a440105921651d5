#!/usr/bin/env bash
# check_hardening.sh COMPILER FILE...: whether programs and shared libraries have what cmake/hardening.cmake asks for.
set -euo pipefail
compiler=$1
shift
failures=0

# expect FILE WHAT PATTERN READELF-FLAGS...
expect() {
  local file=$1 what=$2 pattern=$3
  shift 3
  if ! readelf -W "$@" "$file" | grep -E -- "$pattern" > /dev/null; then  # -q would end readelf early
    echo "$file: no $what"
    failures=1
  fi
}

# The note of control-flow protection stands in a file only where the toolchain's own objects have it, too.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int main() {}' > "$work/plain.cpp"
"$compiler" -fcf-protection "$work/plain.cpp" -o "$work/plain"
has_note=no
if readelf -Wn "$work/plain" 2> /dev/null | grep "IBT, SHSTK" > /dev/null; then has_note=yes; fi

for file in "$@"; do
  expect "$file" "GNU_RELRO" '^ +GNU_RELRO' -l
  expect "$file" "BIND_NOW" 'BIND_NOW|Flags:.* NOW' -d
  expect "$file" "position independence" 'Type: +DYN' -h
  expect "$file" "stack canaries" '__stack_chk_fail' --dyn-syms
  expect "$file" "fortified calls" '__mem[a-z]+_chk|__[a-z]+printf_chk|__read_chk|__fread_chk' --dyn-syms
  expect "$file" "assertions of the standard library" '__glibcxx_assert_fail' --dyn-syms
  expect "$file" "stack without execution" 'GNU_STACK .* RW ' -l
  case $file in
    *.so*) ;;
    *) expect "$file" "PIE" 'FLAGS_1.*PIE' -d ;;
  esac
  if [ $has_note = yes ]; then expect "$file" "IBT and SHSTK" 'IBT, SHSTK' -n; fi
  echo "$file: checked (IBT and SHSTK of this toolchain: $has_note)"
done
exit $failures
