// An animated picture of decoders at work on the same prompt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report_page.h"

namespace lacuna {

struct FilmLane {
  std::string title;
  DecodingTrace trace;
};

/// An SVG that plays for ever: a lane for each decoder, in which tokens appear when their pass has ended. A
/// pass lasts as long as it has rows, in all lanes alike, so that whoever computes less is done sooner.
/// Readers who asked for less motion see the finished answers. The same bytes for the same traces.
std::string draw_film(const std::vector<FilmLane>& lanes, std::string_view title);

}  // namespace lacuna
