#!/usr/bin/env python3
"""Writes what a program is built from as a CycloneDX 1.5 document: python3 tools/sbom.py BUILD PROGRAM VERSION [ROOT] > FILE

Components are Debian source packages, each with the binary packages of it that count here: those whose headers the
compiler read for the program (Ninja's record of dependencies), whose static libraries the linker read, and whose shared
libraries the program loads. Licences are the short names of Debian's copyright files. A library that no package owns is
listed by its file's name. The same build gives the same bytes.

ROOT has the libraries of a program for 64-bit ARM, with Debian's records of them (scripts/aarch64).
"""
import json
import os
import pathlib
import re
import subprocess
import sys


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def files_read(build, program, root):
    """Headers and libraries outside the sources that the program's objects and its link have read."""
    name = os.path.relpath(program, build)
    inputs = set(output_of("ninja", "-C", build, "-t", "inputs", name).split("\n"))
    files = {path for path in inputs if path.endswith((".a", ".so"))}
    wanted = False
    for line in output_of("ninja", "-C", build, "-t", "deps").split("\n"):
        if not line.startswith(" "):
            wanted = line.split(":")[0] in inputs
        elif wanted:
            files.add(line.strip())
    files = {os.path.abspath(os.path.join(build, path)) for path in files}
    return {path for path in files if path.startswith(("/usr/", "/lib/", "/opt/", f"{root}/usr/"))}


def libraries_loaded(program, root):
    ldd = ("qemu-aarch64", "-L", root, "-E", "LD_TRACE_LOADED_OBJECTS=1") if root else ("ldd",)
    return {root + path.removeprefix(root) for path in re.findall(r"(?:=> |^\s+)(/\S+)", output_of(*ldd, program), re.MULTILINE)}


def owners(root):
    """Binary package by file, as the root of its records and its name, of every package that is installed."""
    packages = {}
    for each in {"", root}:
        for path in pathlib.Path(f"{each}/var/lib/dpkg/info").glob("*.list"):
            for file in path.read_text(encoding="utf-8", errors="replace").split("\n"):
                packages[file] = (each, path.stem)
    return packages


def owner_of(path, packages):
    real = os.path.realpath(path)
    for each in (path, real, real.removeprefix("/usr"), "/usr" + path):
        if each in packages:
            return packages[each]
    return None


def licences_of(root, package):
    """Short names in a machine-readable copyright file, without those of Debian's own files."""
    file = pathlib.Path(f"{root}/usr/share/doc") / package.split(":")[0] / "copyright"
    names = set()
    if file.exists():
        for paragraph in file.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            files = re.search(r"^Files:(.*(?:\n .*)*)", paragraph, re.MULTILINE)
            licence = re.search(r"^License: *(\S.*)$", paragraph, re.MULTILINE)
            if files and licence and not all(each.startswith("debian/") for each in files[1].split()):
                names.add(licence[1].strip())
    return sorted(names)


def components(paths, root):
    packages = owners(root)
    found = {}
    nobodys = set()
    for path in paths:
        package = owner_of(path, packages)
        if package is None:
            nobodys.add(os.path.basename(path))
            continue
        found.setdefault(package, None)
    by_source = {}
    for package in found:
        fields = "${source:Package}\t${source:Version}\t${binary:Package}"
        records = f"--admindir={package[0]}/var/lib/dpkg"
        source, version, binary = output_of("dpkg-query", records, "-W", "-f", fields, package[1]).split("\t")
        entry = by_source.setdefault((source, version), {"binaries": set(), "licences": set()})
        entry["binaries"].add(binary)
        entry["licences"].update(licences_of(*package))
    result = []
    for (source, version), entry in sorted(by_source.items()):
        purl = f"pkg:deb/debian/{source}@{version.replace('+', '%2B').replace(':', '%3A').replace('~', '%7E')}?arch=source"
        component = {
            "type": "library",
            "bom-ref": purl,
            "name": source,
            "version": version,
            "purl": purl,
            "properties": [{"name": "debian:binary", "value": each} for each in sorted(entry["binaries"])],
        }
        if entry["licences"]:
            component["licenses"] = [{"license": {"name": each}} for each in sorted(entry["licences"])]
        result.append(component)
    return result + [{"type": "library", "bom-ref": f"file:{each}", "name": each} for each in sorted(nobodys)]


def main():
    if not 4 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    build, program, version, root = (*sys.argv[1:], "")[:4]
    parts = components(files_read(build, program, root) | libraries_loaded(program, root), root)
    name = os.path.basename(program)
    reference = f"pkg:generic/{name}@{version}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference,
                "name": name,
                "version": version,
                "purl": reference,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": reference, "dependsOn": [each["bom-ref"] for each in parts]}],
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
