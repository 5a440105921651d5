#include "server/infill_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "server/api_error.h"
#include "server/generation_request.h"
#include "server/request_fields.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

int64_t whole_number(const ordered_json& value, std::string_view place, int64_t least, int64_t most) {
  return FieldValue{std::string(place), value}.integer(least, most);
}

Hole read_hole(const ordered_json& hole) {
  if (hole.is_object()) {
    Hole result;
    const ordered_json* most = find_value(hole, "max");
    if (most == nullptr) {
      if (hole.empty()) return {.most = kOpenHoleMost, .is_open = true};
      throw FieldError("hole",
                       fmt::format("hole is {}; expected {{\"min\": A, \"max\": B}}, or {{}} for any length",
                                   shown(hole)));
    }
    result.most = static_cast<int32_t>(whole_number(*most, "hole.max", 1, kMaxHoleTokens));
    const ordered_json* least = find_value(hole, "min");
    if (least != nullptr) {
      result.least = static_cast<int32_t>(whole_number(*least, "hole.min", 1, result.most));
    }
    return result;
  }
  const auto size = static_cast<int32_t>(whole_number(hole, "hole", 1, kMaxHoleTokens));
  return {size, size};
}

/// Adds token ids; null is a hole of one token.
void add_tokens(const ordered_json& list, std::string_view place, std::vector<CanvasPart>& canvas) {
  const FieldValue field{std::string(place), list};
  if (!list.is_array()) field.refuse("a list of token ids");
  for (const ordered_json& token : list) {
    if (token.is_null()) {
      canvas.emplace_back(Hole{});
    } else {
      canvas.emplace_back(
          static_cast<TokenId>(whole_number(token, place, 0, std::numeric_limits<TokenId>::max())));
    }
  }
}

void add_part(const ordered_json& part, std::vector<CanvasPart>& canvas) {
  if (part.is_string()) {
    canvas.emplace_back(part.get<std::string>());
    return;
  }
  const ordered_json* hole = find_value(part, "hole");
  const ordered_json* tokens = find_value(part, "tokens");
  if (hole != nullptr) {
    canvas.emplace_back(read_hole(*hole));
  } else if (tokens != nullptr) {
    add_tokens(*tokens, "tokens", canvas);
  } else {
    throw FieldError("input", fmt::format("input holds {}; expected text, {{\"hole\": N}} or "
                                          "{{\"tokens\": [...]}}",
                                          shown(part)));
  }
}

/// Turns the tokens in "mask", or all except those in "diffusion_pinned", into holes.
void apply_mask(const ordered_json& body, std::vector<CanvasPart>& canvas) {
  const ordered_json* mask = find_value(body, "mask");
  const ordered_json* pinned = find_value(body, "diffusion_pinned");
  if (mask == nullptr && pinned == nullptr) return;
  if (mask != nullptr && pinned != nullptr)
    throw FieldError("mask", "mask and diffusion_pinned exclude each other");
  const std::string place = mask != nullptr ? "mask" : "diffusion_pinned";
  const ordered_json& list = FieldValue{place, mask != nullptr ? *mask : *pinned}.list();
  std::vector<bool> named(canvas.size(), false);
  const auto is_flag = [](const ordered_json& value) { return value.is_boolean(); };
  if (list.size() == canvas.size() && std::all_of(list.begin(), list.end(), is_flag)) {
    for (size_t i = 0; i < canvas.size(); ++i) named[i] = list[i].get<bool>();
  } else {
    if (canvas.empty() && !list.empty()) {
      throw FieldError(
          place,
          fmt::format("{} names positions of an empty list of tokens; expected at least one token", place));
    }
    for (const ordered_json& index : list) {
      named.at(static_cast<size_t>(whole_number(index, place, 0, static_cast<int64_t>(canvas.size()) - 1))) =
          true;
    }
  }
  for (size_t i = 0; i < canvas.size(); ++i) {
    if (named[i] == (mask != nullptr)) canvas[i] = Hole{};
  }
}

}  // namespace

bool has_cursor(const ordered_json& body) {
  const auto is_given = [&](const char* key) { return find_value(body, key) != nullptr; };
  return is_given("input_prefix") || is_given("input_suffix") || is_given("prompt");
}

std::vector<CanvasPart> parse_canvas(const ordered_json& body) {
  std::vector<CanvasPart> canvas;
  const ordered_json* tokens = find_value(body, "tokens");
  const ordered_json* seeds = find_value(body, "diffusion_seed_canvas");
  if (tokens != nullptr && seeds != nullptr && *tokens != *seeds)
    refuse_contradiction("tokens", "diffusion_seed_canvas");
  if (tokens == nullptr) tokens = seeds;
  const ordered_json* input = find_value(body, "input");
  const int sources = (tokens != nullptr) + (input != nullptr) + has_cursor(body);
  if (sources != 1) {
    throw FieldError(
        "input",
        fmt::format("expected one of input, tokens and input_prefix with input_suffix; found {}", sources));
  }
  if (tokens != nullptr) {
    add_tokens(*tokens, find_value(body, "tokens") != nullptr ? "tokens" : "diffusion_seed_canvas", canvas);
    apply_mask(body, canvas);
  } else if (input != nullptr) {
    const FieldValue field{"input", *input};
    if (!input->is_array()) field.refuse("a list of parts");
    for (const ordered_json& part : *input) add_part(part, canvas);
  } else {
    const auto text = [&](const char* key) {
      const ordered_json* value = find_value(body, key);
      return value == nullptr ? std::string() : FieldValue{key, *value}.text();
    };
    // Editors send the lines above the cursor as input_prefix, and the cursor's line up to it as prompt.
    std::string before = text("input_prefix") + text("prompt");
    if (!before.empty()) canvas.emplace_back(std::move(before));
    canvas.emplace_back(Hole{});  // n_predict sets its length later
    if (std::string after = text("input_suffix"); !after.empty()) canvas.emplace_back(std::move(after));
  }
  return canvas;
}

}  // namespace lacuna
