// A GGUF file as its parts, taken as they are: no part has to make sense.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

class Random;

struct GgufDocument {
  struct Key {
    std::string name;
    uint32_t type = 0;
    std::string value;  ///< its bytes; of a list: type and count included
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    uint32_t type = 0;
    uint64_t offset = 0;
  };

  uint32_t version = 3;
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::string data;

  /// Nothing where the parts cannot be told apart.
  static std::optional<GgufDocument> parse(std::string_view file);
  std::string bytes() const;
  /// One change: of a key, its value, or a tensor.
  void change(Random& random);

 private:
  void change_key(Random& random);
  void change_tensor(Random& random);
};

}  // namespace fuzz
