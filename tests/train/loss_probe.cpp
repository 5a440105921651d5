// loss_probe CASE SEED: a random batch of an objective, what the model would see of it, random logits of
// every row, and the loss, as one line of JSON for tests/reference/check_losses.py. Without arguments: the
// names of the cases.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "loss_cases.h"

namespace lacuna::train::loss_cases {
namespace {

nlohmann::json numbers(const torch::Tensor& values) {
  if (!values.defined()) return nullptr;
  const torch::Tensor wide = values.to(torch::kFloat64).contiguous();
  if (wide.dim() == 1)
    return std::vector<double>(wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel());
  nlohmann::json rows = nlohmann::json::array();
  for (int64_t i = 0; i < wide.size(0); ++i) rows.push_back(numbers(wide[i]));
  return rows;
}

void print(const Instance& instance) {
  const uint64_t step = instance.seed + 5;
  const Batch& batch = instance.batch;
  const ObjectiveOptions& options = instance.options;
  std::vector<double> ratios;
  for (const SlotPlan& plan : sample_slot_plans(batch, options.slot_sizes, options.seed, step))
    ratios.push_back(plan.ratio);
  nlohmann::json block_ratios = nlohmann::json::array();
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    std::vector<double> of_row;
    for (int64_t block = 0; block <= batch.tokens.size(1) / options.block_length; ++block)
      of_row.push_back(block_ratio(batch, row, block, options.seed, step));
    block_ratios.push_back(of_row);
  }
  const Examples& examples = instance.examples;
  const nlohmann::json json = {{"tokens", numbers(batch.tokens)},
                               {"response", numbers(batch.response)},
                               {"weights", numbers(batch.weights)},
                               {"inputs", numbers(examples.inputs)},
                               {"positions", numbers(examples.positions)},
                               {"unseen", numbers(examples.unseen)},
                               {"predicting", numbers(examples.rows)},
                               {"log_snr", numbers(examples.log_snr)},
                               {"logits", numbers(instance.logits)},
                               {"loss", instance.loss},
                               {"ratios", ratios},
                               {"block_ratios", block_ratios},
                               {"slot_size", options.slot_sizes.front()},
                               {"block_length", options.block_length},
                               {"lambda", options.lambda},
                               {"cart_p", options.cart_p},
                               {"clean_weight", options.clean_weight},
                               {"confidence_weight", instance.chosen.confidence_weight},
                               {"uniform_shift", instance.chosen.uniform_shift.value_or(0)},
                               {"order", numbers(instance.order)},
                               {"progress", instance.progress},
                               {"mask", kMask}};
  std::puts(json.dump().c_str());
}

}  // namespace
}  // namespace lacuna::train::loss_cases

int main(int argc, char** argv) {
  using namespace lacuna::train::loss_cases;
  for (const Case& chosen : cases()) {
    if (argc < 3) std::printf("%s\n", std::string(chosen.name).c_str());
    if (argc == 3 && chosen.name == argv[1])
      print(make_instance(chosen, std::strtoull(argv[2], nullptr, 10)));
  }
}
