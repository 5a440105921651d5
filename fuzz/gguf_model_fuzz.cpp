// The metadata of a GGUF file as a model: its config, tokenizer, chat template and the tensors by their names
// in the model. Refused with InputError, or what every config and tokenizer promises.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "config_check.h"
#include "fuzz.h"
#include "model/gguf_model.h"
#include "mutators.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace lacuna;

void read_tokenizer(const std::filesystem::path& path, const GgufFile& file) {
  if (!has_gguf_tokenizer(file)) return;
  const Tokenizer tokenizer = Tokenizer::load(path);
  for (const TokenId id : tokenizer.encode("Hello <|im_start|> world", SpecialTokens::kAsText)) {
    fuzz::check(id >= 0 && id < tokenizer.size() && !tokenizer.is_special(id));
  }
  const std::vector<Message> messages = {{"user", "Hello"}};
  render(load_chat_template(path), tokenizer, messages);
  // The texts that a converter would write load as the file does.
  const TokenizerTexts texts = gguf_tokenizer_texts(file);
  fuzz::check(Tokenizer::from_json(texts.tokenizer, "its own text").size() <= tokenizer.size());
}

}  // namespace

LACUNA_FUZZ_MUTATOR(fuzz::mutate_gguf)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::ScratchFolder folder;
  folder.write("model.gguf", fuzz::text_of(data, size));
  const auto path = folder.path() / "model.gguf";
  try {
    const GgufFile file = GgufFile::open(path);
    try {
      read_tokenizer(path, file);
    } catch (const InputError&) {
    }
    const ModelConfig config = read_gguf_config(file);
    fuzz::check_config(config);
    constexpr int64_t kMaxLayers = 1000;
    if (config.num_layers < kMaxLayers) gguf_weights(file, config);
  } catch (const InputError&) {
  }
  return 0;
}
