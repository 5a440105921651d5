// LongBench's similarity metrics of a text and a reference (Bai et al. 2024, arXiv 2308.14508), in [0, 1]; 0
// if one of the texts is empty.
#pragma once

#include <string_view>

namespace lacuna {

/// F1 of the two bags of words after SQuAD's normalization (Rajpurkar et al. 2016): ASCII letters in lower
/// case, without ASCII punctuation and the words a, an and the.
double token_f1(std::string_view text, std::string_view reference);

/// ROUGE-L of summaries (Lin 2004, section 3.2) with F = 2PR / (P + R), as the Python package `rouge`
/// computes it for LongBench. Sentences end with a period. C is the set of distinct words in a longest common
/// subsequence of any sentence of the reference and any of the text. Recall is |C| over the reference's
/// number of distinct words, precision |C| over the text's. A sentence of white space alone counts as one
/// empty word.
///   Takes time proportional to the product of the word counts, each at most 65,535.
double rouge_l(std::string_view text, std::string_view reference);

/// 2 L / (m + n) for texts of m and n code points with a longest common subsequence of length L (normalized
/// insertions and deletions). LongBench's package rounds it to percents, and finds shorter common
/// subsequences if its C library is not installed.
double edit_similarity(std::string_view text, std::string_view reference);

/// The line of generated code that LongBench compares: the first without `, # and //; empty without one.
std::string_view first_code_line(std::string_view text);

}  // namespace lacuna
