#include "kernels/dispatch.h"

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "kernels/isas.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

/// Accepted names, e.g. "scalar", or "scalar, avx2, avx512 or amx".
std::string known_names() {
  std::string names = "scalar";
  const std::span<const InstructionSet> all = instruction_sets();
  for (size_t i = 0; i < all.size(); ++i) {
    names += i + 1 < all.size() ? ", " : " or ";
    names += all[i].name;
  }
  return names;
}

}  // namespace

KernelTable choose_table(const CpuFeatures& features, std::string_view wanted) {
  KernelTable fastest = scalar_table();
  if (wanted == fastest.name) return fastest;
  for (const InstructionSet& isa : instruction_sets()) {
    const bool is_supported = features.*isa.is_supported;
    if (isa.name == wanted) {
      if (!is_supported) throw InputError("LACUNA_ISA is '{}', which this CPU cannot run", wanted);
      return isa.table();
    }
    if (is_supported && features.*isa.is_fast) fastest = isa.table();
  }
  if (!wanted.empty()) throw InputError("LACUNA_ISA is '{}'; expected {}", wanted, known_names());
  return fastest;
}

std::vector<KernelTable> supported_tables() {
  const CpuFeatures features = detect_cpu();
  std::vector<KernelTable> tables = {scalar_table()};
  for (const InstructionSet& isa : instruction_sets()) {
    if (features.*isa.is_supported) tables.push_back(isa.table());
  }
  return tables;
}

const KernelTable& default_table() {
  static const KernelTable table = [] {
    const char* wanted = std::getenv("LACUNA_ISA");
    return choose_table(detect_cpu(), wanted == nullptr ? "" : wanted);
  }();
  return table;
}

}  // namespace lacuna
