"""Prints src/weights/ggml_grids.cpp: the code books of the IQ types, as the package gguf has them.

    python tools/ggml_grids.py | clang-format --assume-filename=x.cpp > src/weights/ggml_grids.cpp

A code book is a list of points. Each point has 8 or 4 coordinates, and each coordinate is one of a few levels. A point is written as
16 bits: the place of each coordinate among the levels, in two bits or in four, the first coordinate in the lowest ones.
"""
import numpy as np
from gguf import quants

BOOKS = {"kIq2XxsPoints": quants.IQ2_XXS, "kIq2XsPoints": quants.IQ2_XS, "kIq2SPoints": quants.IQ2_S, "kIq3XxsPoints": quants.IQ3_XXS,
         "kIq3SPoints": quants.IQ3_S, "kIq1Points": quants.IQ1_S}
HEADER = """// Written by tools/ggml_grids.py.
#include "weights/ggml_grids.h"

namespace lacuna {
"""


def points(book):
    book.init_grid()
    grid = book.grid.reshape(book.grid_shape)
    places = np.searchsorted(book.grid_map, grid)
    return (places << (16 // grid.shape[1] * np.arange(grid.shape[1]))).sum(axis=1)


def main():
    print(HEADER)
    for name, book in BOOKS.items():
        values = points(book)
        print(f"const std::array<uint16_t, {len(values)}> {name} = {{" + ", ".join(f"0x{value:04x}" for value in values) + "};\n")
    print("}  // namespace lacuna")


main()
