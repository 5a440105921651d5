#include "tokenizer/json_file.h"

#include <system_error>

#include "base/error.h"
#include "base/read_file.h"

namespace lacuna {

bool has_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::string read_text_file(const std::filesystem::path& path) {
  constexpr uintmax_t kFileBytesMax = uintmax_t{64} << 20;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw InputError("{}: cannot be read ({})", path.string(), error.message());
  if (size > kFileBytesMax) {
    throw InputError("{}: has {} bytes, more than the {} allowed", path.string(), size, kFileBytesMax);
  }
  return read_whole_file(path, kFileBytesMax);
}

JsonValue JsonValue::member(const nlohmann::json& value, std::string_view key) const {
  return {value, source_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

JsonValue JsonValue::at(std::string_view key) const {
  const auto member_iterator = object().find(key);
  if (member_iterator == value_->end()) throw InputError("{} has no key '{}'", name(), key);
  return member(*member_iterator, key);
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  const auto member_iterator = object().find(key);
  if (member_iterator == value_->end() || member_iterator->is_null()) return std::nullopt;
  return member(*member_iterator, key);
}

std::vector<JsonValue> JsonValue::elements() const {
  std::vector<JsonValue> values;
  for (const auto& element : array()) {
    values.push_back(JsonValue(element, source_, fmt::format("{}[{}]", path_, values.size())));
  }
  return values;
}

const std::string& JsonValue::string() const {
  expect(value_->is_string(), "a string");
  return value_->get_ref<const std::string&>();
}

bool JsonValue::boolean() const {
  expect(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

int64_t JsonValue::integer() const {
  const bool fits =
      value_->is_number_integer() && (!value_->is_number_unsigned() || value_->get<uint64_t>() <= INT64_MAX);
  expect(fits, "an integer");
  return value_->get<int64_t>();
}

const nlohmann::json& JsonValue::object() const {
  expect(value_->is_object(), "an object");
  return *value_;
}

const nlohmann::json& JsonValue::array() const {
  expect(value_->is_array(), "a list");
  return *value_;
}

bool JsonValue::boolean_or(std::string_view key, bool fallback) const {
  const auto value = find(key);
  return value ? value->boolean() : fallback;
}

std::string JsonValue::string_or(std::string_view key, std::string_view fallback) const {
  const auto value = find(key);
  return value ? value->string() : std::string(fallback);
}

std::string JsonValue::name() const {
  return path_.empty() ? source_ : fmt::format("{}: {}", source_, path_);
}

void JsonValue::expect(bool holds, std::string_view expected) const {
  if (!holds) throw InputError("{} must be {}, not {}", name(), expected, value_->type_name());
}

}  // namespace lacuna
