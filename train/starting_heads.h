// First weights with heads that look a fixed number of tokens away, and heads that look for the same token.
//
// To decide whether a word of a question occurs in a text, a model has to attend from the word to its other
// occurrences. Random weights of a few layers do not come to that: what the first layer adds to the residual
// stream is larger than the embedding, so that later layers do not see which token a row holds, and in
// attention without a causal mask a token that looks for its like finds itself. Here every embedding has a
// constant part c u, which makes scores of positions alone out of RoPE's rotations, and a part of its own:
//
//   a head for offset o   q = R(o) p, k = p  with p constant:        score(d) ~ sum of cos(f_i (d - o))
//   a matching head       q = k = P x in the slow rotations:         score ~ |P x|^2 for equal tokens
//                         and q = -p, k = p in the fast rotations:   less for near tokens and for itself
//
// where d is the distance of a key and f_i are RoPE's frequencies. All of them are trained like any other
// weights. Starting q and k alike is "mimetic initialization" (Trockman and Kolter 2023, arXiv 2305.09828);
// the constant part and the term for near tokens are ours.
#pragma once

#include "train/model.h"

namespace lacuna::train {

/// Replaces the first weights of a new model. Throws InputError for a family without RoPE over whole heads,
/// or with norms of q and k, which have no room for such heads, and for fewer than four layers or heads.
void add_starting_heads(Transformer& model);

}  // namespace lacuna::train
