#include "train/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>

namespace lacuna::train {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

constexpr std::string_view kVersion = "brain.Event:2";

constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}

template <typename T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

// Wire types of protobuf's fields.
enum WireType : uint8_t { kVarint = 0, kDouble = 1, kBytes = 2, kFloat = 5 };

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void append_key(std::string& to, uint32_t field, WireType type) {
  append_varint(to, field << 3 | type);
}

void append_bytes(std::string& to, uint32_t field, std::string_view bytes) {
  append_key(to, field, kBytes);
  append_varint(to, bytes.size());
  to += bytes;
}

std::string timed_event(double wall_time) {
  std::string event;
  append_key(event, 1, kDouble);
  append(event, wall_time);
  return event;
}

double seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string event_record(std::string_view data) {
  std::string length;
  append(length, static_cast<uint64_t>(data.size()));
  std::string record = length;
  append(record, masked_crc(length));
  record += data;
  append(record, masked_crc(data));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = timed_event(wall_time);
  append_bytes(event, 3, kVersion);
  return event;
}

std::string scalar_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    if (std::isnan(scalar.value)) continue;
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_key(value, 2, kFloat);
    append(value, static_cast<float>(scalar.value));
    append_bytes(summary, 1, value);
  }
  std::string event = timed_event(wall_time);
  append_key(event, 2, kVarint);
  append_varint(event, static_cast<uint64_t>(step));
  append_bytes(event, 5, summary);
  return event;
}

EventFile::EventFile(const std::filesystem::path& folder)
    : file_(folder /
            fmt::format("events.out.tfevents.{:010}.{}", static_cast<int64_t>(seconds_now()), getpid())) {
  file_.append(event_record(version_event(seconds_now())));
}

void EventFile::add(int64_t step, std::span<const Scalar> scalars) {
  file_.append(event_record(scalar_event(seconds_now(), step, scalars)));
}

}  // namespace lacuna::train
