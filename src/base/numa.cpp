#include "base/numa.h"

#ifdef __linux__
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#endif

#include "base/error.h"

namespace lacuna {

#ifdef __linux__
namespace {

constexpr size_t kMaxNodes = 1024;  // Linux has no more
constexpr size_t kBitsOfWord = 8 * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, kMaxNodes / kBitsOfWord>;

NodeMask usable_nodes() {
  NodeMask nodes{};
  if (::syscall(SYS_get_mempolicy, nullptr, nodes.data(), kMaxNodes, nullptr, MPOL_F_MEMS_ALLOWED) != 0)
    nodes = {1};
  return nodes;
}

int count(const NodeMask& nodes) {
  int nodes_of_all = 0;
  for (const unsigned long word : nodes) nodes_of_all += std::popcount(word);
  return nodes_of_all;
}

}  // namespace

int num_memory_nodes() {
  return count(usable_nodes());
}

void interleave_memory() {
  const NodeMask nodes = usable_nodes();
  if (count(nodes) <= 1) return;
  if (::syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, nodes.data(), kMaxNodes) != 0) {
    throw InputError("--numa interleave: memory cannot be spread over {} nodes: {}", count(nodes),
                     std::strerror(errno));
  }
}

#else

int num_memory_nodes() {
  return 1;
}

void interleave_memory() {}

#endif

}  // namespace lacuna
