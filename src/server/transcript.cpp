#include "server/transcript.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "decode/edits.h"

namespace lacuna {

void Transcript::note(const StepEvent& event) {
  const int32_t prompt_length = event.decoder.prompt_length();
  apply_edits(event.report.edits, CommitRecord(), commits_, prompt_length);
  const StepReport& report = event.report;
  for (size_t i = 0; i < report.committed.size(); ++i) {
    const Commit& commit = report.committed[i];
    if (commit.position < prompt_length) continue;  // infilled position of the prompt
    const auto index = static_cast<size_t>(commit.position - prompt_length);
    if (index >= commits_.size()) commits_.resize(index + 1);
    commits_[index] = {commit.confidence, event.statistics.forward_passes - 1, num_commits_++};
    if (!report.alternatives.empty()) commits_[index].likeliest = report.alternatives[i];
  }
}

Piece Transcript::advance(const Decoder& decoder, bool is_all) {
  const std::span<const TokenId> answer =
      decoder.canvas().subspan(static_cast<size_t>(decoder.prompt_length()));
  const auto before = static_cast<size_t>(text_.num_tokens());
  Piece piece;
  if (answer.size() < before) return piece;  // the canvas was cut after an earlier end token
  const auto final = is_all ? answer.size() : static_cast<size_t>(decoder.num_final());
  piece.text = text_.advance(answer.first(std::max(final, before)), is_all);
  for (auto i = before; i < static_cast<size_t>(text_.num_tokens()); ++i) {
    TokenRecord record{answer[i], std::nullopt};
    if (i < commits_.size() && commits_[i].order >= 0) {
      const CommitRecord& commit = commits_[i];
      if (commit.confidence > 0) record.logprob = std::log(commit.confidence);
      record.step = commit.step;
      record.order = commit.order;
      record.likeliest = commit.likeliest;
    }
    piece.tokens.push_back(record);
  }
  return piece;
}

}  // namespace lacuna
