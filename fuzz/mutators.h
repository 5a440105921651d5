// Mutations that keep the structure of an input, for libFuzzer and for driver.cpp: a target defines
// LLVMFuzzerCustomMutator with one of them (LACUNA_FUZZ_MUTATOR).
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace fuzz {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// In [0, count); count is at least 1.
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(engine_); }
  bool one_in(size_t count) { return below(count) == 0; }

 private:
  std::minstd_rand engine_;
};

/// The fuzzer's own mutation, which knows dictionaries and compared values; at most 4096 bytes longer.
std::string mutate_bytes(std::string_view input, Random& random);

/// Changes a value or a key of a JSON text, or the tree; mutates bytes where the text is not valid JSON.
std::string mutate_json(std::string_view text, Random& random);
/// The same in one of several texts with zero bytes between them.
std::string mutate_json_texts(std::string_view input, Random& random);
/// The same after the first byte, or in it.
std::string mutate_json_after_byte(std::string_view input, Random& random);
/// The same after the first two bytes, or in them.
std::string mutate_json_after_two(std::string_view input, Random& random);
/// The same in one of several lines.
std::string mutate_json_lines(std::string_view input, Random& random);

/// Changes a safetensors file: its header as JSON, with a length that fits, or its data.
std::string mutate_safetensors(std::string_view file, Random& random);

/// Changes a GGUF file: a key, a value or a tensor, with counts that fit, or its bytes.
std::string mutate_gguf(std::string_view file, Random& random);

/// Changes one of the files that split_files() finds, each as its name says.
std::string mutate_files(std::string_view input, Random& random);

using Mutation = std::string (*)(std::string_view, Random&);
/// Calls `mutation`, and now and then mutate_bytes(), for libFuzzer's LLVMFuzzerCustomMutator.
size_t apply(Mutation mutation, uint8_t* data, size_t size, size_t most, unsigned seed);

}  // namespace fuzz

#define LACUNA_FUZZ_MUTATOR(mutation)                                                                \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed); \
  size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {           \
    return fuzz::apply(mutation, data, size, most, seed);                                            \
  }
