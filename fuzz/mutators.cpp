#include "mutators.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "fuzz.h"
#include "gguf_document.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace fuzz {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxNodes = 4096;
/// Deeper texts are changed as bytes: a mutation may double the depth thrice, and trees are written
/// recursively.
constexpr int kDeepest = 100;

std::string dump(const Json& json, Random& random) {
  return json.dump(random.one_in(8) ? 1 : -1, ' ', false, Json::error_handler_t::replace);
}

/// Whether brackets nest deeper than kDeepest, those in strings included.
bool is_deep(std::string_view text) {
  int depth = 0;
  return std::any_of(text.begin(), text.end(), [&](char byte) {
    if (byte == '[' || byte == '{') ++depth;
    if (byte == ']' || byte == '}') --depth;
    return depth > kDeepest;
  });
}

/// Pointers to the values of a tree, the root first. Valid until the tree changes.
std::vector<Json*> nodes_of(Json& root) {
  std::vector<Json*> nodes{&root};
  for (size_t i = 0; i < nodes.size() && nodes.size() < kMaxNodes; ++i) {
    if (!nodes[i]->is_structured()) continue;
    for (Json& child : *nodes[i]) nodes.push_back(&child);
  }
  return nodes;
}

Json telling_value(Random& random) {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           false,
                                           0,
                                           1,
                                           -1,
                                           2,
                                           0.5,
                                           -0.0,
                                           1e-300,
                                           1e300,
                                           INT32_MAX,
                                           INT32_MIN,
                                           int64_t{1} << 32,
                                           (int64_t{1} << 53) + 1,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           "",
                                           " ",
                                           "\n",
                                           std::string(1, '\0'),
                                           "0",
                                           "\xef\xbf\xbd",
                                           std::string(300, 'a'),
                                           Json::array(),
                                           Json::object(),
                                           Json::array({Json::array()}),
                                           Json::array({1, 2, 3}),
                                           Json{{"", ""}}};
  return values[random.below(values.size())];
}

Json nearby_number(const Json& number, Random& random) {
  if (number.is_number_float()) return number.get<double>() * (random.one_in(2) ? -2.0 : 0.25);
  const auto value = number.get<uint64_t>();  // wraps below zero
  const std::array<uint64_t, 5> near = {value + 1, value - 1, value * 2, value / 2, ~value};
  return static_cast<int64_t>(near[random.below(near.size())]);
}

/// A child of an object or a list, as its place.
Json::iterator any_child(Json& json, Random& random) {
  return std::next(json.begin(), static_cast<std::ptrdiff_t>(random.below(json.size())));
}

void change_key(Json& object, const std::vector<Json*>& nodes, Random& random) {
  const auto child = any_child(object, random);
  Json value = child.value();
  const std::string old_key = child.key();
  const Json& other = *nodes[random.below(nodes.size())];
  std::string key = other.is_string() ? other.get<std::string>() : mutate_bytes(old_key, random);
  if (random.one_in(2)) object.erase(old_key);  // else there are two of it
  object[key] = std::move(value);
}

void change_children(Json& json, const std::vector<Json*>& nodes, Random& random) {
  if (json.empty()) {
    json = telling_value(random);
    return;
  }
  if (json.is_object() && random.one_in(2)) return change_key(json, nodes, random);
  if (random.one_in(3)) {
    json.erase(any_child(json, random));
  } else if (json.is_array()) {
    Json copy = *nodes[random.below(nodes.size())];
    const size_t times = random.one_in(8) ? 40 : 1;
    for (size_t i = 0; i < times; ++i) json.push_back(copy);
  } else {
    any_child(json, random).value() = telling_value(random);
  }
}

void nest(Json& json, Random& random) {
  for (size_t depth = 1 + random.below(random.one_in(8) ? 300 : 3); depth > 0; --depth) {
    Json inner = std::move(json);
    json = random.one_in(2) ? Json::array({std::move(inner)}) : Json{{"a", std::move(inner)}};
  }
}

void change_tree(Json& root, Random& random) {
  const std::vector<Json*> nodes = nodes_of(root);
  Json& node = *nodes[random.below(nodes.size())];
  switch (random.below(8)) {
    case 0:
      node = telling_value(random);
      break;
    case 1: {
      Json copy = *nodes[random.below(nodes.size())];
      node = std::move(copy);
      break;
    }
    case 2:
      if (random.one_in(4)) nest(node, random);
      break;
    default:
      if (node.is_structured()) {
        change_children(node, nodes, random);
      } else if (node.is_string()) {
        node = mutate_bytes(node.get_ref<const std::string&>(), random);
      } else if (node.is_number() && random.one_in(2)) {
        node = nearby_number(node, random);
      } else {
        node = telling_value(random);
      }
  }
}

/// Changes one of the parts between `separator`s.
std::string mutate_parts(std::string_view input, char separator, Random& random) {
  std::vector<std::string> parts(1);
  for (const char byte : input) {
    if (byte == separator) {
      parts.emplace_back();
    } else {
      parts.back() += byte;
    }
  }
  const size_t chosen = random.below(parts.size());
  if (random.one_in(10)) {
    parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(chosen), parts[random.below(parts.size())]);
  } else {
    parts[chosen] = mutate_json(parts[chosen], random);
  }
  std::string result = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) result.append(1, separator).append(parts[i]);
  return result;
}

std::string mutate_json_after(std::string_view input, size_t bytes, Random& random) {
  if (input.size() <= bytes) return mutate_bytes(input, random);
  std::string head(input.substr(0, bytes));
  if (random.one_in(10)) head[random.below(bytes)] = static_cast<char>(random.below(32));
  return head + mutate_json(input.substr(bytes), random);
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](auto ending) { return name.ends_with(ending); });
}

}  // namespace

std::string mutate_bytes(std::string_view input, Random& random) {
  std::vector<uint8_t> bytes(input.begin(), input.end());
  const size_t most = input.size() + (random.one_in(16) ? 4096 : 64);
  bytes.resize(most);
  bytes.resize(std::min(LLVMFuzzerMutate(bytes.data(), input.size(), most), most));
  return {bytes.begin(), bytes.end()};
}

std::string mutate_json(std::string_view text, Random& random) {
  constexpr size_t kLongest = size_t{1} << 18;
  const bool fits = text.size() <= kLongest && !is_deep(text);
  Json root = fits ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
  if (root.is_discarded() || random.one_in(8)) return mutate_bytes(text, random);
  for (size_t count = 1 + random.below(3); count > 0; --count) change_tree(root, random);
  return dump(root, random);
}

std::string mutate_json_texts(std::string_view input, Random& random) {
  return mutate_parts(input, '\0', random);
}

std::string mutate_json_lines(std::string_view input, Random& random) {
  return mutate_parts(input, '\n', random);
}

std::string mutate_json_after_byte(std::string_view input, Random& random) {
  return mutate_json_after(input, 1, random);
}

std::string mutate_json_after_two(std::string_view input, Random& random) {
  return mutate_json_after(input, 2, random);
}

std::string mutate_safetensors(std::string_view file, Random& random) {
  constexpr size_t kLength = 8;
  uint64_t length = 0;
  for (size_t i = 0; i < kLength && i < file.size(); ++i) {
    length |= uint64_t{static_cast<uint8_t>(file[i])} << (8 * i);
  }
  if (file.size() < kLength || length > file.size() - kLength || random.one_in(10)) {
    return mutate_bytes(file, random);
  }
  std::string header(file.substr(kLength, length));
  std::string data(file.substr(kLength + length));
  if (random.one_in(5)) {
    data = mutate_bytes(data, random);
  } else {
    header = mutate_json(header, random);
  }
  std::string result;
  for (size_t i = 0; i < kLength; ++i) result += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return result + header + data;
}

std::string mutate_gguf(std::string_view file, Random& random) {
  std::optional<GgufDocument> document = GgufDocument::parse(file);
  if (!document || random.one_in(8)) return mutate_bytes(file, random);
  for (size_t count = 1 + random.below(3); count > 0; --count) document->change(random);
  return document->bytes();
}

std::string mutate_files(std::string_view input, Random& random) {
  Files files = split_files(input);
  if (files.empty() || random.one_in(16)) return mutate_bytes(input, random);
  auto& [name, content] = files[random.below(files.size())];
  if (random.one_in(32)) {
    name = files[random.below(files.size())].first;
  } else if (ends_with_any(name, {".json"})) {
    content = mutate_json(content, random);
  } else if (ends_with_any(name, {".safetensors"})) {
    content = mutate_safetensors(content, random);
  } else if (ends_with_any(name, {".gguf"})) {
    content = mutate_gguf(content, random);
  } else {
    content = mutate_bytes(content, random);
  }
  return join_files(files);
}

size_t apply(Mutation mutation, uint8_t* data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  const std::string changed = mutation(text_of(data, size), random);
  if (changed.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}

}  // namespace fuzz
