"""A Conan package of the library: conan create packaging/conan

The libraries that it needs are the system's (scripts/bootstrap); Conan installs them where it may
(-c tools.system.package_manager:mode=install)."""
import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class Lacuna(ConanFile):
    name = "lacuna"
    license = "MIT"
    description = "Inference engine for diffusion language models"
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def _sources(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._sources(), "CMakeLists.txt"))
        self.version = text.split("project(lacuna VERSION ")[1].split()[0]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, self._sources(), self.export_sources_folder)

    def system_requirements(self):
        Apt(self).install(["libfmt-dev", "nlohmann-json3-dev", "libpcre2-dev", "libutf8proc-dev", "pkg-config"])

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["LACUNA_BUILD_APP"] = False
        toolchain.cache_variables["LACUNA_BUILD_SERVER"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # The library's own files for find_package(lacuna).
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "lacuna")]
