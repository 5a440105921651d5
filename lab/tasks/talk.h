// Parts of conversations that are not about numbers: small talk and requests for stories.
#pragma once

#include <string_view>

#include "tasks/sample.h"
#include "tasks/vocabulary.h"

namespace lacuna {

/// Small talk, such as "Hello!", "Who are you?" or "Thanks", and the reply.
Sample draw_small_talk(Draws& draws);

/// "Tell me a story about a fox." and a story of one day.
Sample draw_story_request(Draws& draws);

/// Whether `text` is a story of one day with the words of the request.
bool check_requested_story(std::string_view request, std::string_view text);

/// Whether `text`, without white space around it, is the answer or, for a story request, a story with the
/// requested words.
bool check_reply(const Sample& sample, std::string_view text);

}  // namespace lacuna
