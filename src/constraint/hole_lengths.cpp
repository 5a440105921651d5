#include "constraint/hole_lengths.h"

#include <algorithm>

#include "base/error.h"

namespace lacuna {
namespace {

/// Dynamic programming over positions and the number of positions added before them.
class LengthSearch {
 public:
  LengthSearch(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas,
               std::span<const StretchableHole> holes, size_t most_extra)
      : automaton_(automaton), canvas_(canvas), holes_(holes), most_extra_(most_extra) {}

  std::optional<std::vector<size_t>> find() {
    reach_.assign(most_extra_ + 1, none());
    reach_[0] = canvas_.start ? *canvas_.start : only(automaton_, TokenAutomaton::start());
    size_t hole = 0;
    for (size_t i = 0; i <= canvas_.tokens.size(); ++i) {
      for (; hole < holes_.size() && holes_[hole].end == i; ++hole) stretch(holes_[hole]);
      if (i < canvas_.tokens.size()) step(reach_, token(i));
    }
    const StateSet complete = automaton_.completable_within(canvas_.tokens_after);
    for (size_t extra = 0; extra <= most_extra_; ++extra) {
      if (reach_[extra].intersects(complete)) return lengths(extra, complete);
    }
    return std::nullopt;
  }

 private:
  StateSet none() const { return StateSet(static_cast<size_t>(automaton_.num_states())); }
  TokenId token(size_t i) const { return canvas_.is_open(i) ? -1 : canvas_.tokens[i]; }
  size_t room_of(const StretchableHole& hole) const {
    return std::min(hole.most - (hole.end - hole.begin), most_extra_);
  }

  void step(std::vector<StateSet>& sets, TokenId token) const {
    for (StateSet& states : sets) {
      if (!states.is_empty()) states = states_after(automaton_, states, token, canvas_.only_text);
    }
  }

  void stretch(const StretchableHole& hole) {
    unstretched_.push_back(reach_);
    std::vector<StateSet> moving = reach_;
    const size_t room = room_of(hole);
    for (size_t more = 1; more <= room; ++more) {
      step(moving, -1);
      for (size_t extra = 0; extra + more <= most_extra_; ++extra) reach_[extra + more] |= moving[extra];
    }
  }

  /// Backtracks from right to left along states from which the rest can be completed.
  std::vector<size_t> lengths(size_t extra, StateSet rest) const {
    std::vector<size_t> found(holes_.size());
    const auto back = [&](TokenId token) {
      rest = states_before(automaton_, rest, token, canvas_.only_text);
    };
    size_t hole = holes_.size();
    for (size_t i = canvas_.tokens.size() + 1; i-- > 0;) {
      for (; hole > 0 && holes_[hole - 1].end == i; --hole) {
        const StretchableHole& stretched = holes_[hole - 1];
        const std::vector<StateSet>& before = unstretched_[hole - 1];
        size_t more = 0;
        for (; !before[extra - more].intersects(rest); ++more) {
          expects(more < std::min(extra, room_of(stretched)), "the hole can be stretched like this");
          back(-1);
        }
        extra -= more;
        found[hole - 1] = stretched.end - stretched.begin + more;
      }
      if (i > 0) back(token(i - 1));
    }
    return found;
  }

  const TokenAutomaton& automaton_;
  const ConstrainedCanvas& canvas_;
  std::span<const StretchableHole> holes_;
  size_t most_extra_;
  std::vector<StateSet> reach_;  // [most_extra + 1] states by the number of added positions
  std::vector<std::vector<StateSet>> unstretched_;  // [holes] reach_ before each hole was stretched
};

}  // namespace

std::optional<std::vector<size_t>> fitting_lengths(const TokenAutomaton& automaton,
                                                   const ConstrainedCanvas& canvas,
                                                   std::span<const StretchableHole> holes) {
  size_t room = 0;
  for (const StretchableHole& hole : holes) room += hole.most - (hole.end - hole.begin);
  room = std::min(room, kMaxExtraPositions);
  constexpr size_t kMaxWork = size_t{1} << 25;  // visited states
  const size_t states = static_cast<size_t>(automaton.num_states()) * holes.size();
  const auto work = [&] { return states * room * (holes.size() > 1 ? room : 1); };
  while (room > 1 && work() > kMaxWork) room /= 2;
  for (size_t extra = 0;; extra = std::min(std::max(2 * extra, size_t{1}), room)) {
    std::optional<std::vector<size_t>> found = LengthSearch(automaton, canvas, holes, extra).find();
    if (found || extra >= room) return found;
  }
}

}  // namespace lacuna
