#include "gguf_document.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "mutators.h"

namespace fuzz {
namespace {

constexpr uint32_t kText = 8, kList = 9;
constexpr std::array<size_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // by type
constexpr size_t kAlignment = 32;

/// Takes values from the front; `failed` stays true once there are too few bytes.
struct Reader {
  std::string_view rest;
  bool failed = false;

  std::string_view take(uint64_t size) {
    if (size > rest.size()) failed = true;
    if (failed) return {};
    const std::string_view bytes = rest.substr(0, size);
    rest.remove_prefix(size);
    return bytes;
  }
  template <typename T>
  T number() {
    T value{};
    const std::string_view bytes = take(sizeof value);
    if (!failed) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<uint64_t>())); }

  void skip_value(uint32_t type, int depth = 0) {
    if (type == kText) {
      text();
    } else if (type == kList && depth == 0) {
      const auto item = number<uint32_t>();
      const auto count = number<uint64_t>();
      for (uint64_t i = 0; i < count && !failed; ++i) skip_value(item, depth + 1);
    } else if (type < kSizes.size() && kSizes[type] > 0) {
      take(kSizes[type]);
    } else {
      failed = true;
    }
  }
};

template <typename T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& to, std::string_view text) {
  append(to, uint64_t{text.size()});
  to += text;
}

std::string text_value(std::string_view text) {
  std::string value;
  append_text(value, text);
  return value;
}

uint64_t telling_number(Random& random) {
  constexpr std::array<uint64_t, 12> kNumbers = {0,
                                                 1,
                                                 2,
                                                 3,
                                                 31,
                                                 32,
                                                 255,
                                                 uint64_t{1} << 20,
                                                 uint64_t{1} << 31,
                                                 uint64_t{1} << 32,
                                                 uint64_t{1} << 63,
                                                 ~uint64_t{0}};
  return kNumbers[random.below(kNumbers.size())];
}

/// A list with an item more, an item less, or another count.
void change_list(std::string& value, Random& random) {
  constexpr size_t kHead = 12;
  if (value.size() < kHead) return;
  Reader reader{value};
  const auto type = reader.number<uint32_t>();
  auto count = reader.number<uint64_t>();
  std::vector<std::string> items;
  for (uint64_t i = 0; i < count && !reader.failed; ++i) {
    const std::string_view before = reader.rest;
    reader.skip_value(type, 1);
    items.emplace_back(before.substr(0, before.size() - reader.rest.size()));
  }
  if (reader.failed) return;
  if (items.empty() || random.one_in(16)) {
    count = telling_number(random);
  } else {
    const size_t chosen = random.below(items.size());
    switch (random.below(3)) {
      case 0:
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(chosen));
        break;
      case 1: {
        const std::string copy = items[random.below(items.size())];
        items.insert(items.begin() + static_cast<std::ptrdiff_t>(chosen), copy);
        break;
      }
      default: {
        std::string& item = items[chosen];
        if (type == kText) {
          item = text_value(mutate_bytes(std::string_view(item).substr(sizeof(uint64_t)), random));
        } else {
          const uint64_t number = telling_number(random);
          std::memcpy(item.data(), &number, std::min(item.size(), sizeof number));
        }
      }
    }
    count = items.size();
  }
  value.clear();
  append(value, type);
  append(value, count);
  for (const std::string& item : items) value += item;
}

}  // namespace

std::optional<GgufDocument> GgufDocument::parse(std::string_view file) {
  Reader reader{file};
  if (reader.take(4) != "GGUF") return {};
  GgufDocument document;
  document.version = reader.number<uint32_t>();
  const auto num_tensors = reader.number<uint64_t>();
  const auto num_keys = reader.number<uint64_t>();
  for (uint64_t i = 0; i < num_keys && !reader.failed; ++i) {
    Key key;
    key.name = reader.text();
    key.type = reader.number<uint32_t>();
    const std::string_view before = reader.rest;
    reader.skip_value(key.type);
    key.value = before.substr(0, before.size() - reader.rest.size());
    document.keys.push_back(std::move(key));
  }
  for (uint64_t i = 0; i < num_tensors && !reader.failed; ++i) {
    Tensor tensor;
    tensor.name = reader.text();
    const auto rank = reader.number<uint32_t>();
    for (uint32_t j = 0; j < rank && !reader.failed; ++j) tensor.shape.push_back(reader.number<uint64_t>());
    tensor.type = reader.number<uint32_t>();
    tensor.offset = reader.number<uint64_t>();
    document.tensors.push_back(std::move(tensor));
  }
  if (reader.failed) return {};
  const size_t begin = (file.size() - reader.rest.size() + kAlignment - 1) / kAlignment * kAlignment;
  if (begin < file.size()) document.data = file.substr(begin);
  return document;
}

std::string GgufDocument::bytes() const {
  std::string file = "GGUF";
  append(file, version);
  append(file, uint64_t{tensors.size()});
  append(file, uint64_t{keys.size()});
  for (const Key& key : keys) {
    append_text(file, key.name);
    append(file, key.type);
    file += key.value;
  }
  for (const Tensor& tensor : tensors) {
    append_text(file, tensor.name);
    append(file, static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t size : tensor.shape) append(file, size);
    append(file, tensor.type);
    append(file, tensor.offset);
  }
  if (!data.empty()) file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
  return file + data;
}

void GgufDocument::change(Random& random) {
  if (random.one_in(10)) {
    data = mutate_bytes(data, random);
  } else if (tensors.empty() || (!keys.empty() && !random.one_in(3))) {
    change_key(random);
  } else {
    change_tensor(random);
  }
}

void GgufDocument::change_key(Random& random) {
  if (keys.empty()) {
    keys.push_back({"general.architecture", kText, text_value("llada")});
    return;
  }
  const size_t chosen = random.below(keys.size());
  Key& key = keys[chosen];
  switch (random.below(8)) {
    case 0:
      keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(chosen));
      break;
    case 1:
      key.name = mutate_bytes(key.name, random);
      break;
    case 2: {
      const Key& other = keys[random.below(keys.size())];
      key.type = other.type;
      key.value = std::string(other.value);
      break;
    }
    default:
      if (key.type == kText && key.value.size() >= sizeof(uint64_t)) {
        key.value = text_value(mutate_bytes(std::string_view(key.value).substr(sizeof(uint64_t)), random));
      } else if (key.type == kList) {
        change_list(key.value, random);
      } else {
        const uint64_t number = telling_number(random);
        std::memcpy(key.value.data(), &number, std::min(key.value.size(), sizeof number));
      }
  }
}

void GgufDocument::change_tensor(Random& random) {
  const size_t chosen = random.below(tensors.size());
  Tensor& tensor = tensors[chosen];
  switch (random.below(6)) {
    case 0:
      tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(chosen));
      break;
    case 1: {
      Tensor copy = tensor;
      tensors.push_back(std::move(copy));
      break;
    }
    case 2:
      tensor.name = mutate_bytes(tensor.name, random);
      break;
    case 3:
      tensor.type = static_cast<uint32_t>(random.below(40));
      break;
    case 4:
      tensor.offset = random.one_in(2) ? telling_number(random) : tensor.offset + kAlignment;
      break;
    default:
      if (tensor.shape.empty() || random.one_in(4)) {
        tensor.shape.push_back(telling_number(random));
      } else {
        tensor.shape[random.below(tensor.shape.size())] = telling_number(random);
      }
  }
}

}  // namespace fuzz
