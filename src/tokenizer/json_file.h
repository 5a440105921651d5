// JSON from untrusted files: every wrong byte or type becomes an InputError that names file and key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lacuna {

/// Whether `path` exists. A dangling symbolic link counts, so that reading it reports the error.
bool has_file(const std::filesystem::path& path);

/// Reads a file. Throws InputError above 64 MiB, twice the largest published tokenizer.json.
std::string read_text_file(const std::filesystem::path& path);

/// A view of a value inside a JSON document, with its path. The document must outlive it.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, std::string source) : value_(&value), source_(std::move(source)) {}

  /// The member `key`. Throws InputError if it is absent.
  JsonValue at(std::string_view key) const;
  /// The member `key`; empty if it is absent or null. Throws InputError if this value is not an object.
  std::optional<JsonValue> find(std::string_view key) const;
  std::vector<JsonValue> elements() const;

  const std::string& string() const;
  bool boolean() const;
  int64_t integer() const;
  const nlohmann::json& object() const;
  const nlohmann::json& array() const;

  bool boolean_or(std::string_view key, bool fallback) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;

  const nlohmann::json& json() const { return *value_; }
  const std::string& source() const { return source_; }
  /// "FILE: key.of[2].value", the start of every error about this value.
  std::string name() const;

 private:
  JsonValue(const nlohmann::json& value, std::string source, std::string path)
      : value_(&value), source_(std::move(source)), path_(std::move(path)) {}
  JsonValue member(const nlohmann::json& value, std::string_view key) const;
  void expect(bool holds, std::string_view expected) const;

  const nlohmann::json* value_;
  std::string source_;
  std::string path_;
};

}  // namespace lacuna
