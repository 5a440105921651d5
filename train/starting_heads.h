// Initial weights with heads that attend to a fixed offset, and heads that attend to equal tokens.
//
// To decide whether a word of a question occurs in a text, a model has to attend from the word to its other
// occurrences. A few layers with random weights do not learn that, for two reasons: the first layer's output
// is larger than the embedding, which hides a row's token from later layers; and without a causal mask a
// token that attends to equal tokens attends to itself. Here every embedding x is the sum of a constant part
// c u, u a fixed direction, with which RoPE yields scores that depend on positions alone, and a part of its
// own:
//
//   a head for offset o   q = R(o) p, k = p  with p constant:        score(d) ~ sum of cos(f_i (d - o))
//   a matching head       q = k = P x in the slow rotations:         score ~ |P x|^2 for equal tokens
//                         and q = -p, k = p in the fast rotations:   less for near tokens and for itself
//
// where d is the distance of a key, f_i are RoPE's frequencies, R(o) is RoPE's rotation by o positions, and P
// is a random projection. All of these weights are trained. Initializing q and k alike is "mimetic
// initialization" (Trockman and Kolter 2023, arXiv 2305.09828); the constant part and the term for near
// tokens are ours.
#pragma once

#include "train/model.h"

namespace lacuna::train {

/// Replaces initial weights of a new model. Throws InputError for a family that does not apply RoPE to whole
/// heads or that has norms of q and k, which rule out such heads, and for fewer than four layers or heads.
void add_starting_heads(Transformer& model);

}  // namespace lacuna::train
