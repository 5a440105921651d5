// The page of `lacuna report shapes`: steps and whole decodes of masked models at published shapes, and
// another program's forward pass beside them.
#pragma once

#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// What the grid spans.
struct ShapesGrid {
  /// Whose steps are timed: all rows of a canvas first, then fewer.
  struct Steps {
    int canvas = 0;
    std::vector<int> rows;
  };

  /// A whole decode beside the plain one.
  struct Decode {
    std::string name;   ///< of the method
    std::string flags;  ///< of `lacuna bench decode`
    std::string paper;  ///< what its paper reports
  };

  std::string model = "random:llada-8b,layers=8";
  std::vector<Steps> steps = {{1024, {1024, 512, 256, 128}}, {1167, {1167, 875, 584, 292, 140}}};
  std::vector<Decode> decodes;
  std::string whole;               ///< a model with all its layers; may be empty
  int whole_canvas = 1024;         ///< of its step
  std::vector<std::string> loads;  ///< models whose loading is timed: as published, then packed; may be empty
  std::string beside_ggml;         ///< the command that compares with a ggml-based program; may be empty
  std::string common_flags;        ///< of every setting: " --threads 2", or nothing
};

/// The decodes of the full page.
std::vector<ShapesGrid::Decode> published_decodes();

/// Asks for every setting of the grid and writes shapes.md.
std::vector<PageFile> write_shapes_page(const ShapesGrid& grid, const Measure& measure);

}  // namespace lacuna
