// Jinja templates, as chat templates use them: a program that renders a request's values to one text.
//
// The language is that of Python's jinja2 3.1 in the settings of the library transformers: trim_blocks and
// lstrip_blocks on, keep_trailing_newline off, loop controls, `generation` tags without effect, `tojson`
// without HTML escaping, raise_exception(text), strftime_now(format), and a sandbox in which nothing but a
// namespace can be modified. Imports, includes, blocks and inheritance are refused. Integers have 64 bits;
// larger results are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::jinja {

/// Bounds of one rendering.
struct Limits {
  /// Evaluated nodes of the program, visited items, and one step per 256 bytes read or written.
  int64_t max_steps = 1'000'000;
  size_t max_output_bytes = 16 << 20;  ///< limit for the rendered text and for each intermediate text
  int max_depth = 64;                  ///< nested macro calls and recursive loops
};

/// Part of the rendered text, and whether it comes from the caller's values or from the template itself.
/// Output of tojson or repr that mixes both counts as the caller's.
struct Piece {
  std::string text;
  bool is_input = false;

  friend bool operator==(const Piece&, const Piece&) = default;
};

struct Program;

class Template {
 public:
  /// Parses a template.
  ///   name  file or key, for messages
  /// Throws InputError with `name`, the line, the found token and the accepted ones; also for more than 4
  /// MiB, for brackets or statements nested deeper than 64, and for ill-formed UTF-8.
  static Template parse(std::string_view source, std::string name);

  /// Renders the template. Neighboring pieces differ in is_input, and none is empty.
  ///   values   object or null: global variables whose texts count as input. Dictionaries keep their order
  ///   trusted  object or null: global variables whose texts count as the template's own, such as bos_token;
  ///            they take precedence over `values`
  ///   now      seconds since the epoch, for strftime_now (local time)
  /// Throws InputError with the template's line for raise_exception(text), an exceeded limit, or an operation
  /// that jinja2 refuses as well.
  std::vector<Piece> render(const nlohmann::ordered_json& values, const nlohmann::ordered_json& trusted,
                            int64_t now, const Limits& limits = {}) const;

 private:
  std::shared_ptr<const Program> program_;
};

/// The concatenated texts of all pieces.
std::string text_of(std::span<const Piece> pieces);

}  // namespace lacuna::jinja
