#include "train/recompute.h"

#include <ATen/autocast_mode.h>

#include <utility>
#include <vector>

namespace lacuna::train {
namespace {

/// State for the backward pass, which calls `block` again.
struct Recomputation : torch::CustomClassHolder {
  std::function<torch::Tensor(const torch::Tensor&)> block;
  bool has_autocast = false;
};

constexpr const char* kRecomputation = "recomputation";

/// Autocast as it was in the forward pass, during the lifetime of this object.
class RestoredAutocast {
 public:
  explicit RestoredAutocast(bool enabled) : before_(at::autocast::is_cpu_enabled()) {
    at::autocast::set_cpu_enabled(enabled);
  }
  ~RestoredAutocast() {
    at::autocast::set_cpu_enabled(before_);
    at::autocast::clear_cache();
  }
  RestoredAutocast(const RestoredAutocast&) = delete;
  RestoredAutocast& operator=(const RestoredAutocast&) = delete;

 private:
  bool before_;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const at::TensorList& parameters,
                               const c10::intrusive_ptr<Recomputation>& recomputation) {
    torch::autograd::variable_list saved = {x};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    context->saved_data[kRecomputation] = c10::IValue::make_capsule(recomputation);
    return recomputation->block(x);  // gradients are off here
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto recomputation =
        c10::static_intrusive_pointer_cast<Recomputation>(context->saved_data[kRecomputation].toCapsule());
    torch::autograd::variable_list inputs = saved;
    inputs[0] = saved[0].detach().requires_grad_();
    const at::AutoGradMode with_gradients(true);
    torch::Tensor y;
    {
      const RestoredAutocast autocast(recomputation->has_autocast);
      y = recomputation->block(inputs[0]);
    }
    auto of_inputs = torch::autograd::grad({y}, inputs, {gradients[0]}, /*retain_graph=*/c10::nullopt,
                                           /*create_graph=*/false, /*allow_unused=*/true);
    of_inputs.emplace_back();  // no gradient for the recomputation object
    return of_inputs;
  }
};

}  // namespace

torch::Tensor recomputed(const std::function<torch::Tensor(const torch::Tensor&)>& block,
                         const torch::Tensor& x, const std::vector<torch::Tensor>& parameters) {
  if (!at::GradMode::is_enabled()) return block(x);
  auto recomputation = c10::make_intrusive<Recomputation>();
  recomputation->block = block;
  recomputation->has_autocast = at::autocast::is_cpu_enabled();
  return Recomputed::apply(x, at::TensorList(parameters), recomputation);
}

}  // namespace lacuna::train
