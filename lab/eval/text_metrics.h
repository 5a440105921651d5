// How much a text resembles a reference text, as LongBench (Bai et al. 2024, arXiv 2308.14508) measures it.
// All values are in [0, 1]; 0 where one of the texts is empty.
#pragma once

#include <string_view>

namespace lacuna {

/// F1 of the two bags of words after SQuAD's normalisation (Rajpurkar et al. 2016): ASCII letters in lower
/// case, without ASCII punctuation and the words a, an and the.
double token_f1(std::string_view text, std::string_view reference);

/// ROUGE-L of summaries (Lin 2004, section 3.2) with F = 2PR / (P + R), as the Python package `rouge`
/// computes it for LongBench. Sentences end with a period. Words are counted once, however often they occur:
/// recall is the share of the reference's distinct words that are in a longest common subsequence of one of
/// its sentences and one of the text's, and precision their share of the text's distinct words. A sentence of
/// white space alone is a word, the empty one.
///   Time in proportion to the product of the numbers of words; at most 65,535 words each.
double rouge_l(std::string_view text, std::string_view reference);

/// 2 L / (m + n) of m and n code points with a longest common subsequence of L (normalised insertions and
/// deletions). LongBench's package rounds it to percents, and finds a shorter common subsequence where its C
/// library is not installed.
double edit_similarity(std::string_view text, std::string_view reference);

/// The first line of generated code that holds none of `, # and //, which LongBench compares; empty without.
std::string_view first_code_line(std::string_view text);

}  // namespace lacuna
