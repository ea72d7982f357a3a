#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists everything linked into the program as a CycloneDX bill of materials, with the licence texts.

    scripts/sbom.py [BUILD]

Writes BUILD/sbom.cdx.json and BUILD/third_party_licenses.txt (BUILD: build). The libraries are those of the program's link
line; headers that are compiled in are those that scripts/packages.txt says so of. Versions are those of the installed Debian
packages, licence texts their copyright files. Errors: no build there, or a library that no package owns.
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILED_IN = ("header only", "compiled in")


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def archives(build):
    """The static libraries of the link line, without the build's own."""
    words = shlex.split(output("ninja", "-C", str(build), "-t", "commands", "stalltrace").splitlines()[-1])
    compiler = next(word for word in words if word.endswith(("c++", "g++", "clang++")))
    found = {word for word in words if word.startswith("/") and word.endswith(".a")}
    for name in [word[2:] for word in words if word.startswith("-l")] + ["stdc++", "gcc", "gcc_eh", "c"]:
        path = output(compiler, f"-print-file-name=lib{name}.a").strip()
        if path.startswith("/"):
            found.add(path)
    return sorted(str(pathlib.Path(path).resolve()) for path in found)


def owner(path):
    """A file's package: dpkg lists it by its path at installation, with or without /usr."""
    for candidate in (path, path.removeprefix("/usr")):
        result = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return result.stdout.split(": ")[0]
    sys.exit(f"sbom: no package owns {path}; install the libraries with scripts/install_packages.sh")


def compiled_in():
    for line in (ROOT / "scripts" / "packages.txt").read_text().splitlines():
        name, _, purpose = line.partition(" ")
        if any(word in purpose for word in COMPILED_IN):
            yield name


def component(package):
    fields = "${Package}\t${Version}\t${source:Package}\t${Homepage}\n"  # one line per architecture
    name, version, source, homepage = output("dpkg-query", "-W", "-f", fields, package).splitlines()[0].split("\t")
    upstream = re.sub(r"([+.](dfsg|ds)\d*)?-[^-]*$", "", version.partition(":")[2] or version)
    return {"type": "library", "name": source, "version": upstream, "purl": f"pkg:deb/debian/{name}@{version}",
            "externalReferences": [{"type": "website", "url": homepage}] if homepage else []}


def license_text(package):
    name = package.split(":")[0]
    return (pathlib.Path("/usr/share/doc") / name / "copyright").read_text(encoding="utf-8", errors="replace")


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    if not (build / "build.ninja").exists():
        sys.exit(f"sbom: there is no build in {build}; run scripts/build.sh")
    packages = sorted({owner(path).split(", ")[0] for path in archives(build)} | set(compiled_in()))
    version = re.search(r"VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text().split("project(", 1)[1])[1]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                "metadata": {"component": {"type": "application", "name": "stalltrace", "version": version,
                                           "licenses": [{"license": {"id": "Apache-2.0"}}]}},
                "components": [component(package) for package in packages]}
    (build / "sbom.cdx.json").write_text(json.dumps(document, indent=2) + "\n")
    texts = [f"{'=' * 80}\n{package}\n{'=' * 80}\n{license_text(package)}" for package in packages]
    (build / "third_party_licenses.txt").write_text("\n".join(texts))


if __name__ == "__main__":
    main()
