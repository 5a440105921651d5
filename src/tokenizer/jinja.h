// Jinja templates, as chat templates use them: a program that makes one text of a request's values.
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
  /// Evaluated nodes of the program, items that operations visit, and each 256 bytes that they write.
  int64_t max_steps = 1'000'000;
  size_t max_output_bytes = 16 << 20;  ///< the rendered text, and every text on the way to it
  int max_depth = 64;                  ///< macros that call one another, and loops that call themselves
};

/// Part of the rendered text, and whether it comes from the caller's values or from the template itself. Text
/// that is made of both (of tojson or repr) counts as the caller's.
struct Piece {
  std::string text;
  bool is_input = false;

  friend bool operator==(const Piece&, const Piece&) = default;
};

struct Program;

class Template {
 public:
  /// Reads a template.
  ///   name  of the file or key, for messages
  /// Throws InputError that names `name`, the line, what was found and what is accepted: also for more than 4
  /// MiB, for brackets and statements nested deeper than 64, and for UTF-8 that is ill-formed.
  static Template parse(std::string_view source, std::string name);

  /// Renders the template. Neighbouring pieces differ in is_input, and none is empty.
  ///   values   an object (or null for none): global variables, whose texts are the caller's. Dictionaries
  ///   keep their order trusted  an object (or null for none): global variables whose texts count as the
  ///   template's own, such as bos_token;
  ///            where both have a name, this one is taken
  ///   now      seconds since the epoch, for strftime_now (local time)
  /// Throws InputError that names the template's line: for raise_exception(text), a limit, or an operation
  /// that jinja2 refuses as well.
  std::vector<Piece> render(const nlohmann::ordered_json& values, const nlohmann::ordered_json& trusted,
                            int64_t now, const Limits& limits = {}) const;

 private:
  std::shared_ptr<const Program> program_;
};

/// The texts of all pieces.
std::string text_of(std::span<const Piece> pieces);

}  // namespace lacuna::jinja
