"""Tests scripts/release as far as nothing has to be built: the notes, the tag's rules, the checksums, the bill of materials."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
loader = importlib.machinery.SourceFileLoader("release", str(ROOT / "scripts" / "release"))
release = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
loader.exec_module(release)

CHANGELOG = "# Changelog\n\n## 0.2.0 (2026-12-01)\n\n- New.\n\n## 0.1.0 (2026-11-23)\n\n- Old.\n"


class Release(unittest.TestCase):
    def test_notes_are_the_section_of_the_version(self):
        self.assertEqual(release.notes_of(CHANGELOG, "0.2.0", False), "- New.\n")
        self.assertEqual(release.notes_of(CHANGELOG, "0.1.0", False), "- Old.\n")

    def test_a_release_needs_a_date_and_a_draft_none(self):
        undated = CHANGELOG.replace("2026-12-01", "unreleased")
        self.assertEqual(release.notes_of(undated, "0.2.0", True), "- New.\n")
        with self.assertRaisesRegex(release.Refusal, "unreleased.*expected the date"):
            release.notes_of(undated, "0.2.0", False)
        with self.assertRaisesRegex(release.Refusal, "no section of 0.3.0"):
            release.notes_of(CHANGELOG, "0.3.0", True)

    def test_a_tag_is_the_version_of_a_clean_commit(self):
        release.check_tag("v0.2.0", "0.2.0", ["v0.2.0"], True)
        for arguments, sentence in ((("v0.2.1", "0.2.0", ["v0.2.1"], True), "says 0.2.0"),
                                    (("v0.2.0", "0.2.0", [], True), "not a tag"),
                                    (("v0.2.0", "0.2.0", ["v0.2.0"], False), "has changes")):
            with self.assertRaisesRegex(release.Refusal, sentence):
                release.check_tag(*arguments)

    def test_checksums_are_what_sha256sum_reads(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a").write_text("one")
            (folder / "b").write_text("two")
            (folder / "SHA256SUMS").write_text(release.sums_of(folder))
            check = ["sha256sum", "-c", "--quiet", "SHA256SUMS"]
            subprocess.run(check, cwd=folder, check=True)
            (folder / "b").write_text("three")
            self.assertNotEqual(subprocess.run(check, cwd=folder, capture_output=True).returncode, 0)

    def test_a_release_has_the_same_files_for_both_processors(self):
        names = [f"{folder}/lacuna{rest}" for processor, debian, wheel in (("x86_64", "amd64", "wheel"), ("aarch64", "arm64", "aarch64-wheel"))
                 for folder, rest in (("packages", f"-0.2.0-linux-{processor}.tar.xz"), ("packages", f"_0.2.0_{debian}.deb"),
                                      (wheel, f"-0.2.0-cp311-cp311-manylinux_2_34_{processor}.whl"))]
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            for each in ["packages/lacuna-0.1.0-linux-aarch64.tar.xz", *names]:
                (build / each).parent.mkdir(exist_ok=True)
                (build / each).touch()
            self.assertEqual([path.relative_to(build).as_posix() for path in release.files_of(build, "0.2.0")], names)
            for each in names:
                (build / each).rename(build / "elsewhere")
                with self.assertRaisesRegex(release.Refusal, "nothing was made"):
                    list(release.files_of(build, "0.2.0"))
                (build / "elsewhere").rename(build / each)

    def test_the_bill_of_materials_names_every_library(self):
        bill = release.bill_of_materials("0.2.0", {("libb.so.2", "libb2", "2.1-3"), ("liba.so.1", "liba1", "1.0")})
        self.assertEqual([part["purl"] for part in bill["components"]],
                         ["pkg:deb/debian/liba1@1.0", "pkg:deb/debian/libb2@2.1-3"])
        self.assertEqual(bill["metadata"]["component"]["version"], "0.2.0")

    def test_this_repository_has_notes(self):
        version = release.version_of((ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertIn("- ", release.notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version, True))


if __name__ == "__main__":
    unittest.main()
