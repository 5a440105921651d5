#include "train/fused.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "train/row_loops.h"

namespace lacuna::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Autocast is off during the lifetime of this object: operands have the types that they were given.
using NoAutocast = c10::impl::ExcludeDispatchKeyGuard;
constexpr c10::DispatchKey kAutocast = c10::DispatchKey::AutocastCPU;

// ---- tensors as rows --------------------------------------------------------------------------------------

bool has_row_loops(const torch::Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16);
}

/// `count` values from offset `at` in f32: a pointer into the tensor, or into `space` after conversion.
const float* read_row(const torch::Tensor& x, int64_t at, int64_t count, std::vector<float>& space) {
  if (x.scalar_type() == torch::kFloat32) return x.data_ptr<float>() + at;
  space.resize(static_cast<size_t>(count));
  widen(reinterpret_cast<const uint16_t*>(x.data_ptr<at::BFloat16>()) + at, count, space.data());
  return space.data();
}

/// Calls fill(row) to write `count` f32 values, which are stored from offset `at` in the tensor's type.
template <typename Fill>
void write_row(torch::Tensor& x, int64_t at, int64_t count, std::vector<float>& space, Fill&& fill) {
  if (x.scalar_type() == torch::kFloat32) return fill(x.data_ptr<float>() + at);
  space.resize(static_cast<size_t>(count));
  fill(space.data());
  narrow(space.data(), count, reinterpret_cast<uint16_t*>(x.data_ptr<at::BFloat16>()) + at);
}

/// Calls change(row) to modify `count` values from offset `at` as f32, in place.
template <typename Change>
void change_row(torch::Tensor& x, int64_t at, int64_t count, std::vector<float>& space, Change&& change) {
  if (x.scalar_type() == torch::kFloat32) return change(x.data_ptr<float>() + at);
  read_row(x, at, count, space);
  change(space.data());
  narrow(space.data(), count, reinterpret_cast<uint16_t*>(x.data_ptr<at::BFloat16>()) + at);
}

// ---- embeddings -------------------------------------------------------------------------------------------

struct EmbeddedTokens : torch::autograd::Function<EmbeddedTokens> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& any_tokens,
                               const torch::Tensor& weight, bool is_tied) {
    const torch::Tensor tokens = any_tokens.contiguous();
    context->save_for_backward({tokens});
    context->saved_data["rows"] = weight.size(0);
    context->saved_data["is tied"] = is_tied;
    context->saved_data["type"] = static_cast<int64_t>(weight.scalar_type());
    return torch::embedding(weight, tokens).to(torch::kFloat32);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor tokens = context->get_saved_variables()[0].flatten();
    const torch::Tensor grad_rows = gradients[0].flatten(0, -2);
    const auto [ids, places, counts] = at::_unique2(tokens, /*sorted=*/true, /*return_inverse=*/true);
    // Gradient rows of equal tokens are summed in f32.
    const torch::Tensor sums =
        torch::zeros({ids.size(0), grad_rows.size(1)}, grad_rows.options()).index_add_(0, places, grad_rows);
    const auto type = static_cast<torch::ScalarType>(context->saved_data["type"].toInt());
    torch::Tensor grad_weight = at::_sparse_coo_tensor_unsafe(
        ids.unsqueeze(0), sums.to(type), {context->saved_data["rows"].toInt(), grad_rows.size(1)});
    grad_weight._coalesced_(true);
    const bool is_added = context->saved_data["is tied"].toBool();  // to the dense gradient of the head
    return {torch::Tensor(), is_added ? grad_weight : grad_weight.to_dense(), torch::Tensor()};
  }
};

// ---- norms ------------------------------------------------------------------------------------------------

struct RmsNormOfRows : torch::autograd::Function<RmsNormOfRows> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& any_x,
                               const torch::Tensor& weight, double epsilon) {
    const torch::Tensor x = any_x.contiguous();
    const int64_t width = x.size(-1), rows = x.numel() / width;
    torch::Tensor y = torch::empty_like(x), scales = torch::empty({rows});
    for (int64_t row = 0; row < rows; ++row) {
      const float* const in = x.data_ptr<float>() + row * width;
      const float mean = sum_of_products(in, in, width) / static_cast<float>(width);
      const float scale = 1 / std::sqrt(mean + static_cast<float>(epsilon));
      scales.data_ptr<float>()[row] = scale;
      scale_row(in, weight.data_ptr<float>(), scale, width, y.data_ptr<float>() + row * width);
    }
    context->save_for_backward({x, weight, scales});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor gradient = gradients[0].contiguous();
    const int64_t width = gradient.size(-1), rows = gradient.numel() / width;
    torch::Tensor grad_x = torch::empty_like(saved[0]), grad_weight = torch::zeros_like(saved[1]);
    std::vector<float> weighted(static_cast<size_t>(width));
    for (int64_t row = 0; row < rows; ++row) {
      const float* const in = saved[0].data_ptr<float>() + row * width;
      const float* const g = gradient.data_ptr<float>() + row * width;
      const float scale = saved[2].data_ptr<float>()[row];
      multiply(g, saved[1].data_ptr<float>(), width, weighted.data());
      const float dot = sum_of_products(weighted.data(), in, width);
      norm_gradient(in, g, weighted.data(), scale, dot * scale * scale / static_cast<float>(width), width,
                    grad_x.data_ptr<float>() + row * width, grad_weight.data_ptr<float>());
    }
    return {grad_x, grad_weight, torch::Tensor()};
  }
};

// ---- gates ------------------------------------------------------------------------------------------------

struct GatedRows : torch::autograd::Function<GatedRows> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& any_gate,
                               const torch::Tensor& any_up) {
    const torch::Tensor gate = any_gate.contiguous(), up = any_up.contiguous();
    torch::Tensor y = torch::empty_like(gate);
    const int64_t width = gate.size(-1);
    std::vector<float> a, b, c;
    for (int64_t at = 0; at < gate.numel(); at += width) {
      const float* const g = read_row(gate, at, width, a);
      const float* const u = read_row(up, at, width, b);
      write_row(y, at, width, c, [&](float* out) { gate_row(g, u, width, out); });
    }
    context->save_for_backward({gate, up});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor gradient = gradients[0].contiguous();
    torch::Tensor grad_gate = torch::empty_like(saved[0]), grad_up = torch::empty_like(saved[1]);
    const int64_t width = gradient.size(-1);
    std::vector<float> a, b, c, d, e;
    for (int64_t at = 0; at < gradient.numel(); at += width) {
      const float* const gate = read_row(saved[0], at, width, a);
      const float* const up = read_row(saved[1], at, width, b);
      const float* const g = read_row(gradient, at, width, c);
      write_row(grad_gate, at, width, d, [&](float* out_gate) {
        write_row(grad_up, at, width, e,
                  [&](float* out_up) { gate_gradient(gate, up, g, width, out_gate, out_up); });
      });
    }
    return {grad_gate, grad_up};
  }
};

// ---- rotations --------------------------------------------------------------------------------------------

/// x [B, H, T, D] rotated forwards or backwards (sign 1 or -1), into `out` of the same shape. Both may have
/// any strides except along D, which is contiguous; cos and sin are contiguous.
void rotate_all(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin, float sign,
                torch::Tensor& out) {
  const int64_t half = cos.size(-1), width = x.size(-1), length = x.size(2);
  const bool has_rows = cos.dim() == 4;  // each batch entry has its own angles
  std::vector<float> a, b;
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t head = 0; head < x.size(1); ++head) {
      for (int64_t t = 0; t < length; ++t) {
        const auto place = [&](const torch::Tensor& y) {
          return row * y.stride(0) + head * y.stride(1) + t * y.stride(2);
        };
        const int64_t angles = ((has_rows ? row * length : 0) + t) * half;
        const float* const in = read_row(x, place(x), width, a);
        write_row(out, place(out), width, b, [&](float* to) {
          rotate_row(in, cos.data_ptr<float>() + angles, sin.data_ptr<float>() + angles, sign, half, to);
          std::copy(in + 2 * half, in + width, to + 2 * half);
        });
      }
    }
  }
}

struct RotatedHeads : torch::autograd::Function<RotatedHeads> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& any_x,
                               const torch::Tensor& any_cos, const torch::Tensor& any_sin) {
    const torch::Tensor x = any_x.stride(-1) == 1 ? any_x : any_x.contiguous();
    const torch::Tensor cos = any_cos.contiguous(), sin = any_sin.contiguous();
    torch::Tensor out = torch::empty(x.sizes(), x.options().dtype(torch::kFloat32));
    rotate_all(x, cos, sin, 1, out);
    context->save_for_backward({cos, sin});
    context->saved_data["is_bf16"] = x.scalar_type() == torch::kBFloat16;
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor gradient = gradients[0].contiguous();
    const auto type = context->saved_data["is_bf16"].toBool() ? torch::kBFloat16 : torch::kFloat32;
    // In the layout of the projections, [B, T, H, D].
    torch::Tensor rows =
        torch::empty({gradient.size(0), gradient.size(2), gradient.size(1), gradient.size(3)},
                     gradient.options().dtype(type));
    torch::Tensor heads = rows.transpose(1, 2);
    rotate_all(gradient, saved[0], saved[1], -1, heads);
    return {heads, torch::Tensor(), torch::Tensor()};
  }
};

// ---- low-rank updates -------------------------------------------------------------------------------------

constexpr const char* kScale = "scale";

struct LoraLinear : torch::autograd::Function<LoraLinear> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& any_weight, const torch::Tensor& any_a,
                               const torch::Tensor& any_b, double scale) {
    const torch::ScalarType type = matmul_dtype(x);
    const NoAutocast exact(kAutocast);
    const torch::Tensor rows = x.reshape({-1, x.size(-1)}).to(type);
    const torch::Tensor weight = any_weight.to(type), a = any_a.to(type), b = (any_b * scale).to(type);
    torch::Tensor y = torch::mm(rows, weight.t());
    const torch::Tensor inner = torch::mm(rows, a.t());
    y.addmm_(inner, b.t());
    context->save_for_backward({rows, weight, a, b, inner});
    context->saved_data[kScale] = scale;
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    context->saved_data["sizes"] = x.sizes().vec();
    context->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
    return y.view(sizes);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const NoAutocast exact(kAutocast);
    const auto saved = context->get_saved_variables();
    const torch::Tensor &rows = saved[0], &weight = saved[1], &a = saved[2], &b = saved[3], &inner = saved[4];
    const torch::Tensor g = gradients[0].reshape({-1, weight.size(0)}).to(weight.scalar_type());
    const torch::Tensor grad_inner = torch::mm(g, b);
    torch::Tensor grad_x = torch::mm(g, weight);
    grad_x.addmm_(grad_inner, a);
    const auto wide = [](const torch::Tensor& y) {
      return y.scalar_type() == torch::kBFloat16 ? y.to(torch::kFloat32) : y;
    };
    const torch::Tensor grad_a = wide(torch::mm(grad_inner.t(), rows));
    const torch::Tensor grad_b = wide(torch::mm(g.t(), inner)) * context->saved_data[kScale].toDouble();
    const auto type = static_cast<torch::ScalarType>(context->saved_data["type"].toInt());
    return {grad_x.view(context->saved_data["sizes"].toIntVector()).to(type), torch::Tensor(), grad_a, grad_b,
            torch::Tensor()};
  }
};

// ---- attention --------------------------------------------------------------------------------------------

/// Up to kQueries query rows of batch entry `entry`, and the key ranges that they see.
struct Tile {
  int64_t entry, first, count;
  const std::vector<Visibility::Range>* keys;

  /// The seen keys of y [G, S, D] or [G, S]: [G, seen, D] or [G, seen].
  torch::Tensor seen(const torch::Tensor& y) const {
    if (keys->size() == 1) return y.slice(1, keys->front().first, keys->front().second);
    std::vector<torch::Tensor> parts;
    for (const auto& [begin, end] : *keys) parts.push_back(y.slice(1, begin, end));
    return torch::cat(parts, 1);
  }
  /// Adds gradients of the seen keys [G, seen, D] to the gradients of all keys.
  void add_seen(const torch::Tensor& part, torch::Tensor all) const {
    int64_t at = 0;
    for (const auto& [begin, end] : *keys) {
      all.slice(1, begin, end).add_(part.slice(1, at, at + end - begin));
      at += end - begin;
    }
  }
};

/// Calls body(tile) for all rows of a batch.
template <typename Body>
void for_each_tile(const Visibility& visible, int64_t batch, int64_t length, int64_t keys, Body&& body) {
  const std::vector<Visibility::Range> all = {{0, keys}};
  for (int64_t row = 0; row < batch; ++row) {
    for (int64_t first = 0; first < length; first += Visibility::kQueries) {
      const auto* seen = &all;
      if (!visible.ranges.empty()) {
        const auto& entry_ranges = visible.ranges[visible.ranges.size() == 1 ? 0 : static_cast<size_t>(row)];
        seen = &entry_ranges[static_cast<size_t>(first / Visibility::kQueries)];
      }
      body(Tile{row, first, std::min(Visibility::kQueries, length - first), seen});
    }
  }
}

struct Attention : torch::autograd::Function<Attention> {
  /// q k^T of a tile [G, H / G * count, seen], before scale, soft cap and mask.
  static torch::Tensor products_of(const torch::Tensor& queries, const torch::Tensor& keys) {
    return torch::bmm(queries, keys.transpose(1, 2));
  }

  /// Turns each row of products into scores and calls body(row, scores, slopes). Slopes: the cap's
  /// derivative, null without one.
  template <typename Body>
  static void for_each_row(const Tile& tile, torch::Tensor& products, const Visibility& visible, double scale,
                           double cap, Body&& body) {
    const int64_t seen = products.size(2), rows = products.numel() / seen;
    torch::Tensor unseen = visible.unseen;
    if (unseen.defined()) {
      if (unseen.dim() == 4) unseen = unseen[unseen.size(0) == 1 ? 0 : tile.entry][0];
      unseen = tile.seen(unseen.slice(0, tile.first, tile.first + tile.count)).contiguous();
    }
    std::vector<float> slopes(cap > 0 ? static_cast<size_t>(seen) : 0);
    for (int64_t row = 0; row < rows; ++row) {
      float* const scores = products.data_ptr<float>() + row * seen;
      scale_by(static_cast<float>(scale), seen, scores);
      if (cap > 0) cap_scores(scores, static_cast<float>(cap), seen, slopes.data());
      if (unseen.defined()) {
        const auto* const mask = reinterpret_cast<const uint8_t*>(unseen.data_ptr<bool>());
        mask_scores(scores, mask + row % tile.count * seen, seen);
      }
      body(row, scores, cap > 0 ? slopes.data() : nullptr);
    }
  }

  /// Rows of a tile of y [B, H, T, D]: [G, H / G * count, D].
  static torch::Tensor rows_of(const Tile& tile, const torch::Tensor& y, int64_t groups) {
    return y[tile.entry].slice(1, tile.first, tile.first + tile.count).reshape({groups, -1, y.size(3)});
  }

  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& any_v, const c10::intrusive_ptr<Visibility>& visible,
                               double scale, double cap) {
    const torch::ScalarType out_type = matmul_dtype(q);
    const NoAutocast exact(kAutocast);
    const torch::Tensor v = any_v.to(q.scalar_type()).contiguous();
    const int64_t heads = q.size(1), length = q.size(2), width = q.size(3), groups = k.size(1);
    torch::Tensor out = torch::empty({q.size(0), length, heads, width}, q.options().dtype(out_type));
    torch::Tensor log_sum_exp = torch::empty({q.size(0), heads, length, 1}, q.options());
    for_each_tile(*visible, q.size(0), length, k.size(2), [&](const Tile& tile) {
      torch::Tensor probs = products_of(rows_of(tile, q, groups), tile.seen(k[tile.entry]));
      const int64_t seen = probs.size(2);
      torch::Tensor log_sums = torch::empty({heads, tile.count, 1}, q.options());
      for_each_row(tile, probs, *visible, scale, cap, [&](int64_t row, float* scores, const float*) {
        const float most = largest(scores, seen);
        const float sum = to_exponentials(scores, most, seen);
        scale_by(1 / sum, seen, scores);
        log_sums.data_ptr<float>()[row] = most + std::log(sum);
      });
      out[tile.entry]
          .slice(0, tile.first, tile.first + tile.count)
          .copy_(
              torch::bmm(probs, tile.seen(v[tile.entry])).view({heads, tile.count, width}).transpose(0, 1));
      log_sum_exp[tile.entry].slice(1, tile.first, tile.first + tile.count).copy_(log_sums);
    });
    context->save_for_backward({q, k, v, log_sum_exp});
    context->saved_data["visible"] = c10::IValue::make_capsule(visible);
    context->saved_data[kScale] = scale;
    context->saved_data["cap"] = cap;
    context->saved_data["type"] = static_cast<int64_t>(any_v.scalar_type());
    return out.flatten(2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const NoAutocast exact(kAutocast);
    const auto saved = context->get_saved_variables();
    const torch::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &log_sum_exp = saved[3];
    const auto visible =
        c10::static_intrusive_pointer_cast<Visibility>(context->saved_data["visible"].toCapsule());
    const double scale = context->saved_data[kScale].toDouble(), cap = context->saved_data["cap"].toDouble();
    const int64_t heads = q.size(1), length = q.size(2), width = q.size(3), groups = k.size(1);
    const torch::Tensor g = gradients[0].unflatten(2, {heads, width}).transpose(1, 2);  // [B, H, T, D]
    torch::Tensor grad_q = torch::empty_like(q), grad_k = torch::zeros_like(k), grad_v = torch::zeros_like(v);
    for_each_tile(*visible, q.size(0), length, k.size(2), [&](const Tile& tile) {
      const torch::Tensor queries = rows_of(tile, q, groups), keys = tile.seen(k[tile.entry]);
      const torch::Tensor grad_read = rows_of(tile, g, groups).to(q.scalar_type());
      torch::Tensor probs = products_of(queries, keys);
      torch::Tensor grad_scores = products_of(grad_read, tile.seen(v[tile.entry]));
      const torch::Tensor log_sums = rows_of(tile, log_sum_exp, groups).contiguous();
      const int64_t seen = probs.size(2);
      for_each_row(tile, probs, *visible, scale, cap, [&](int64_t row, float* scores, const float* slopes) {
        float* const grad_row = grad_scores.data_ptr<float>() + row * seen;
        to_exponentials(scores, log_sums.data_ptr<float>()[row], seen);
        softmax_gradient(scores, sum_of_products(scores, grad_row, seen), static_cast<float>(scale), seen,
                         grad_row);
        if (slopes) multiply_by(slopes, seen, grad_row);
      });
      tile.add_seen(torch::bmm(probs.transpose(1, 2), grad_read), grad_v[tile.entry]);
      grad_q[tile.entry]
          .slice(1, tile.first, tile.first + tile.count)
          .copy_(torch::bmm(grad_scores, keys).view({heads, tile.count, width}));
      tile.add_seen(torch::bmm(grad_scores.transpose(1, 2), queries), grad_k[tile.entry]);
    });
    const auto type = static_cast<torch::ScalarType>(context->saved_data["type"].toInt());
    return {grad_q, grad_k, grad_v.to(type), torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

// ---- the loss ---------------------------------------------------------------------------------------------

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static constexpr int64_t kRows = 128;  // rows of logits at a time with a frozen head

  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& any_hidden,
                               const torch::Tensor& any_head, const torch::Tensor& targets,
                               const torch::Tensor& weights, double scale, int64_t suppressed,
                               bool has_gradients) {
    const torch::ScalarType type = matmul_dtype(any_hidden);
    const NoAutocast exact(kAutocast);
    const torch::Tensor hidden = any_hidden.to(type), head = any_head.to(type);
    const bool learns_head = any_head.requires_grad();
    const int64_t rows = hidden.size(0), vocabulary = head.size(0);
    const int64_t step = learns_head ? std::max<int64_t>(1, rows) : kRows;
    torch::Tensor grad_hidden = torch::empty_like(hidden), grad_head;
    double loss = 0;
    std::vector<float> space;
    for (int64_t first = 0; first < rows; first += step) {
      const torch::Tensor part = hidden.slice(0, first, std::min(rows, first + step));
      torch::Tensor logits = torch::mm(part, head.t());  // then their gradients
      if (scale != 1) logits.mul_(scale);
      if (suppressed >= 0) logits.select(1, suppressed).fill_(kMaskedScore);
      for (int64_t row = 0; row < part.size(0); ++row) {
        const float weight = weights.data_ptr<float>()[first + row];
        const int64_t target = targets.data_ptr<int64_t>()[first + row];
        change_row(logits, row * vocabulary, vocabulary, space, [&](float* x) {
          const float most = largest(x, vocabulary);
          const float wanted = x[target];
          const float sum = to_exponentials(x, most, vocabulary);
          loss += static_cast<double>(weight) * static_cast<double>(most + std::log(sum) - wanted);
          scale_by(weight / sum, vocabulary, x);
          x[target] -= weight;
        });
      }
      if (!has_gradients) continue;
      if (scale != 1) logits.mul_(scale);
      grad_hidden.slice(0, first, first + part.size(0)).copy_(torch::mm(logits, head));
      if (learns_head) grad_head = torch::mm(logits.t(), part).to(any_head.scalar_type());
    }
    context->saved_data[kHiddenGradient] = grad_hidden.to(any_hidden.scalar_type());
    context->saved_data[kHeadGradient] = grad_head;
    return torch::tensor(loss, torch::kFloat64).to(torch::kFloat32);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const float factor = gradients[0].item<float>();  // 1 if the loss itself is differentiated
    // Moved out: autograd, then its sole owner, adds the gradient of a tied embedding in place.
    const auto take = [&](const char* name) {
      torch::Tensor y = std::move(context->saved_data[name]).toTensor();
      context->saved_data.erase(name);
      return factor == 1 || !y.defined() ? y : y * factor;
    };
    variable_list grad_inputs(7);
    grad_inputs[0] = take(kHiddenGradient);
    grad_inputs[1] = take(kHeadGradient);
    return grad_inputs;
  }

 private:
  static constexpr const char *kHiddenGradient = "hidden", *kHeadGradient = "head";
};

}  // namespace

torch::ScalarType matmul_dtype(const torch::Tensor& x) {
  return at::autocast::is_cpu_enabled() && x.device().is_cpu() ? at::autocast::get_autocast_cpu_dtype()
                                                               : x.scalar_type();
}

torch::Tensor embed_tokens(const torch::Tensor& tokens, const torch::Tensor& weight, bool is_tied) {
  if (has_row_loops(weight)) return EmbeddedTokens::apply(tokens, weight, is_tied);
  return torch::embedding(weight, tokens);
}

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon) {
  const torch::Tensor wide = x.to(torch::kFloat32);
  if (x.device().is_cpu() && weight.scalar_type() == torch::kFloat32)
    return RmsNormOfRows::apply(wide, weight, epsilon);
  return wide * torch::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + epsilon) * weight;
}

torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up) {
  if (has_row_loops(gate) && gate.scalar_type() == up.scalar_type()) return GatedRows::apply(gate, up);
  return torch::silu(gate) * up;
}

torch::Tensor apply_rope(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin) {
  if (has_row_loops(x) && cos.scalar_type() == torch::kFloat32) return RotatedHeads::apply(x, cos, sin);
  const int64_t half = cos.size(-1);
  const torch::Tensor first = x.slice(-1, 0, half), second = x.slice(-1, half, 2 * half);
  return torch::cat({first * cos - second * sin, second * cos + first * sin, x.slice(-1, 2 * half)}, -1);
}

torch::Tensor lora_linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                          const torch::Tensor& a, const torch::Tensor& b, double scale) {
  const torch::Tensor y = LoraLinear::apply(x, weight, a, b, scale);
  return bias.defined() ? y + bias.to(y.scalar_type()) : y;
}

Visibility::Visibility(torch::Tensor not_seen) : unseen(std::move(not_seen)) {
  if (!unseen.defined()) return;
  const torch::Tensor on_cpu = unseen.cpu().contiguous();
  const int64_t length = on_cpu.size(-2), keys = on_cpu.size(-1);
  const bool* const values = on_cpu.data_ptr<bool>();
  for (int64_t row = 0; row < on_cpu.numel() / (length * keys); ++row) {
    auto& entry_ranges = ranges.emplace_back();
    for (int64_t first = 0; first < length; first += kQueries) {
      auto& tile_ranges = entry_ranges.emplace_back();
      for (int64_t key = 0; key < keys; key += kKeys) {
        const int64_t end = std::min(keys, key + kKeys);
        bool is_seen = false;
        for (int64_t query = first; query < std::min(length, first + kQueries) && !is_seen; ++query) {
          const bool* const line = values + (row * length + query) * keys;
          is_seen = std::memchr(line + key, 0, static_cast<size_t>(end - key)) != nullptr;
        }
        if (!is_seen) continue;
        if (!tile_ranges.empty() && tile_ranges.back().second == key) {
          tile_ranges.back().second = end;
        } else {
          tile_ranges.push_back({key, end});
        }
      }
      if (tile_ranges.empty()) tile_ranges.push_back({0, keys});  // fully masked: attends to all keys
    }
  }
}

torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const c10::intrusive_ptr<Visibility>& visible, double scale, double soft_cap) {
  if (!q.device().is_cpu() || q.scalar_type() != torch::kFloat32) {
    const auto repeat_heads = [&](const torch::Tensor& y) {
      return y.to(q.scalar_type()).repeat_interleave(q.size(1) / y.size(1), 1);
    };
    torch::Tensor scores = torch::matmul(q, repeat_heads(k).transpose(2, 3)) * scale;
    if (soft_cap > 0) scores = soft_cap * torch::tanh(scores / soft_cap);
    if (visible->unseen.defined())
      scores = scores.masked_fill(visible->unseen, -std::numeric_limits<double>::infinity());
    return torch::matmul(torch::softmax(scores, -1), repeat_heads(v)).transpose(1, 2).flatten(2);
  }
  return Attention::apply(q, k, v, visible, scale, soft_cap);
}

torch::Tensor cross_entropy(const torch::Tensor& hidden, const torch::Tensor& head,
                            const torch::Tensor& targets, const torch::Tensor& weights, double scale,
                            int64_t suppressed) {
  return CrossEntropy::apply(hidden, head, targets.contiguous(), weights.contiguous(), scale, suppressed,
                             at::GradMode::is_enabled());
}

}  // namespace lacuna::train
