#include "hub/digest.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace lacuna {
namespace {

void require(bool done) {
  if (!done) throw std::runtime_error("OpenSSL cannot compute a digest");
}

}  // namespace

void Digest::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Digest::Digest() : context_(EVP_MD_CTX_new()) {
  require(context_ != nullptr);
}

Digest Digest::sha256() {
  Digest digest;
  require(EVP_DigestInit_ex(digest.context_.get(), EVP_sha256(), nullptr) == 1);
  return digest;
}

Digest Digest::git_blob(int64_t size) {
  Digest digest;
  require(EVP_DigestInit_ex(digest.context_.get(), EVP_sha1(), nullptr) == 1);
  digest.update(fmt::format("blob {}", size) + '\0');
  return digest;
}

void Digest::update(std::string_view bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  require(EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace lacuna
